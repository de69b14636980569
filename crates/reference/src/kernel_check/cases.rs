//! What is run: every op, at the row counts that have kernels of their own; for every format.

use foretoken_core::{Format, GluActivation, Ops, OpsError, Phase, Sampling};

use super::runs::{self, Product};

/// Rows of the row family's kernels (1, 2 and 4 a thread, the last several times), and of a prompt's.
const PASSES: [(usize, Phase); 4] = [
    (1, Phase::Rows),
    (2, Phase::Rows),
    (16, Phase::Rows),
    (31, Phase::Prefill),
];

/// The products that have kernels of their own.
const PRODUCTS: [Product; 3] = [
    Product::Plain,
    Product::Add,
    Product::Glu(GluActivation::Silu),
];

/// The formats of nearly every file. A kernel differs between formats by what reads one block, so the others' products run once each: a software
/// driver compiles for a minute as it is.
const COMMON: [&str; 6] = ["f16", "q4_0", "q4_1", "q4_k", "q6_k", "q8_0"];

/// The products to run for a format, and with which passes.
fn products(format: Format) -> Vec<(Product, (usize, Phase))> {
    if !COMMON.contains(&format.name()) {
        let passes = [PASSES[0], PASSES[2], PASSES[3]];
        return PRODUCTS.into_iter().zip(passes).collect();
    }
    let products = |pass| PRODUCTS.map(|product| (product, pass));
    let mut all: Vec<_> = PASSES.into_iter().flat_map(products).collect();
    all.push((Product::Bias, PASSES[0]));
    all
}

/// One kernel on known data.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    /// Of the largest value, at least of 1.
    pub(super) tolerance: f32,
    what: What,
    /// f32: what inputs are embedded from.
    plain: Format,
}

#[derive(Debug)]
enum What {
    Embed(Format),
    RmsNorm,
    QkNorm,
    Product(Product, Format, usize, Phase),
    /// Rows of the passes that fill the cache one after another; the last one's results count.
    /// With the window that its rows have.
    Attention(&'static [usize], Option<u32>),
    Choose(Sampling),
    Logprobs,
    NextStep,
}

impl Case {
    /// What comes of it.
    pub(super) async fn run<O: Ops>(&self, ops: &mut O) -> Result<Vec<f32>, OpsError> {
        let plain = self.plain;
        match &self.what {
            What::Embed(format) => runs::embed(ops, *format).await,
            What::RmsNorm => runs::rms_norm(ops, plain).await,
            What::Product(product, format, rows, phase) => {
                runs::product(ops, *product, *format, plain, *rows, *phase).await
            }
            What::QkNorm => runs::qk_norm(ops, plain).await,
            What::Attention(passes, window) => runs::attention(ops, plain, passes, *window).await,
            What::Choose(sampling) => runs::choose(ops, plain, sampling).await,
            What::Logprobs => runs::logprobs(ops, plain).await,
            What::NextStep => runs::next_step(ops, plain).await,
        }
    }
}

/// Every case. Tolerances are those of the tests of the kernels: f32 sums in another order; f16 in the KV cache; tokens exactly.
pub(super) fn all(formats: &[Format], half_precision_cache: bool) -> Vec<Case> {
    // Type 0 of GGUF.
    let plain = formats.iter().find(|format| format.ggml_type() == 0);
    let plain = *plain.expect("f32 is one of the formats");
    let mut cases = Vec::new();
    let mut add = |name: String, tolerance: f32, what: What| {
        cases.push(Case {
            name,
            tolerance,
            what,
            plain,
        });
    };
    for &format in formats {
        let name = format.name();
        // A fused multiply-add rounds once where the CPU rounds twice.
        add(format!("embed[{name}]"), 1e-6, What::Embed(format));
        for (product, (rows, phase)) in products(format) {
            let kind = match phase {
                Phase::Prefill => "prompt rows",
                Phase::Rows => "rows",
            };
            let kernel = match product {
                Product::Bias => format!("matmul[{name}] with a bias"),
                _ => format!("{}[{name}], {rows} {kind}", product.op()),
            };
            add(kernel, 2e-5, What::Product(product, format, rows, phase));
        }
    }
    // The activation is the same text for every format.
    let (rows, phase) = PASSES[1];
    let geglu = Product::Glu(GluActivation::GeluTanh);
    let geglu = What::Product(geglu, plain, rows, phase);
    add("matmul_glu with GELU".to_owned(), 2e-5, geglu);
    add("rms_norm".to_owned(), 1e-5, What::RmsNorm);
    add("qk_norm".to_owned(), 1e-5, What::QkNorm);
    let cached = if half_precision_cache { 1e-3 } else { 2e-5 };
    // A short context may be one dispatch; the other ends in the second span of positions.
    let passes: [(&str, &[usize], Option<u32>); 3] = [
        ("attention, short", &[3, 1, 4], None),
        ("attention, long", &[32, 32, 32, 30, 5], None),
        ("attention, a window", &[32, 32, 32, 32, 7], Some(17)),
    ];
    for (name, passes, window) in passes {
        add(name.to_owned(), cached, What::Attention(passes, window));
    }
    for (name, sampling) in samplings() {
        add(format!("choose, {name}"), 0.0, What::Choose(sampling));
    }
    add("logprobs".to_owned(), 1e-5, What::Logprobs);
    add("next_step".to_owned(), 0.0, What::NextStep);
    cases
}

fn samplings() -> [(&'static str, Sampling); 4] {
    let drawn = Sampling {
        temperature: 0.8,
        seed: 7,
        ..Sampling::greedy()
    };
    let narrowed = Sampling {
        top_k: 40,
        top_p: 0.9,
        min_p: 0.01,
        ..drawn.clone()
    };
    let penalised = Sampling {
        repetition_penalty: 1.4,
        frequency_penalty: 1.1,
        presence_penalty: 0.7,
        logit_bias: vec![(12, 6.0), (5023, -100.0)],
        ..drawn.clone()
    };
    [
        ("greedy", Sampling::greedy()),
        ("sampled", drawn),
        ("top-k, top-p, min-p", narrowed),
        ("penalties", penalised),
    ]
}
