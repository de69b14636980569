//! Level 0: kernels of every tier over every format compile in naga, and an error names the author's line.

use std::collections::{HashMap, HashSet};

use foretoken_gpu::composer::Target;
use foretoken_gpu::{Coverage, SHADER_FILES, Tier, catalog};
use foretoken_weights::quant::FORMATS;
use naga::valid::{Capabilities, ValidationFlags, Validator};

fn compile(coverage: Coverage) -> usize {
    let mut compiled = HashSet::new();
    for tier in Tier::ALL {
        for entry in catalog(FORMATS, tier, coverage, Target::Naga) {
            let source = &entry.composed.source;
            // Many kernels are the same on several tiers.
            if !compiled.insert(source.clone()) {
                continue;
            }
            let module = naga::front::wgsl::parse_str(source).unwrap_or_else(|error| {
                let line = error
                    .location(source)
                    .map_or(0, |location| location.line_number);
                panic!(
                    "{} ({tier}): {}: {}",
                    entry.label,
                    entry.composed.origin(line),
                    error.emit_to_string(source)
                )
            });
            let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
            if let Err(error) = validator.validate(&module) {
                panic!("{} ({tier}): {}", entry.label, error.emit_to_string(source));
            }
        }
    }
    println!("{} kernels compiled", compiled.len());
    compiled.len()
}

#[test]
fn every_shape_and_every_format_compile_in_naga() {
    let compiled = compile(Coverage::Pairwise);
    // Two formats in every variant, of which there are at least fifty; of the others every epilogue in rows and in tiles.
    let least = 2 * 50 + FORMATS.len() * 10;
    assert!((least..1_200).contains(&compiled), "{compiled} kernels");
}

#[test]
#[ignore = "a minute; cargo xtask test --all"]
fn every_format_in_every_shape_compiles_in_naga() {
    let compiled = compile(Coverage::Full);
    // Of a format: five epilogues, each with at least five pipelines on every device and as many on some tier.
    let least = FORMATS.len() * 5 * 10;
    assert!(compiled >= least, "only {compiled} kernels were found");
}

#[test]
fn every_format_meets_every_file_of_every_other_slot() {
    let mut met: HashMap<String, HashSet<&str>> = HashMap::new();
    for tier in Tier::ALL {
        for entry in catalog(FORMATS, tier, Coverage::Pairwise, Target::Naga) {
            // Labels read `matmul[q4_1,activations_broadcast,epilogue_add,R=4,…]`.
            let mut words = entry.label.split(['[', ',', ']']);
            if let (Some("matmul"), Some(format)) = (words.next(), words.next()) {
                let files = met.entry(format.to_owned()).or_default();
                files.extend(entry.composed.line_map.iter().map(|(file, _)| *file));
            }
        }
    }
    for format in FORMATS {
        for stem in ["activations_", "combine_", "epilogue_", "glu_", "slice_"] {
            let of_slot = |(file, _): &&(&'static str, &str)| {
                file.strip_prefix("lib/")
                    .is_some_and(|f| f.starts_with(stem))
            };
            for (file, _) in SHADER_FILES.iter().filter(of_slot) {
                let beside = met[format.name()].contains(file);
                assert!(beside, "{}: never beside {file}", format.name());
            }
        }
    }
}
