//! A real model file is read as the `gguf` package of Python reads it. The numbers below are that package's.
//! Skipped, loudly, where the model was not downloaded.

use std::path::PathBuf;

use foretoken_weights::{DEFAULT_BLOCK_BYTES, FileSource, Gguf, RowBlocks, read_vector_f32};

fn model(file: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("FORETOKEN_MODELS") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".cache/foretoken/models"),
    };
    Some(folder.join(file)).filter(|path| path.exists())
}

/// Name, shape, ggml type, offset, bytes; the bits of the last row's first weights; the xor and the sum of the
/// bits of all weights.
type Expected = (
    &'static str,
    &'static [u64],
    u32,
    u64,
    u64,
    [u32; 4],
    u32,
    u64,
);

const EXPECTED: [Expected; 4] = [
    (
        "token_embd.weight",
        &[576, 49152],
        8,
        1_785_664,
        30_081_024,
        [0x3c3c_8000, 0x3bbc_8000, 0x3dc8_4800, 0xbdc8_4800],
        0x3975_5fc0,
        0x00d0_2dd6_6b05_96c0,
    ),
    (
        "blk.0.attn_norm.weight",
        &[576],
        0,
        31_866_688,
        2_304,
        [0x3c65_0000, 0x3cc3_0000, 0xbca2_0000, 0xbcf8_0000],
        0x8695_0000,
        0x010f_a9db_0000,
    ),
    (
        "blk.29.ffn_down.weight",
        &[1536, 576],
        3,
        80_630_848,
        552_960,
        [0xbe6a_b000, 0xbd20_4000, 0xbe8d_ac00, 0x3e7b_e000],
        0xffc8_6e00,
        0x0006_a059_0436_9200,
    ),
    (
        "output_norm.weight",
        &[576],
        0,
        98_360_128,
        2_304,
        [0x3fe1_0000, 0x3fe9_0000, 0x3fe4_0000, 0x3fcd_0000],
        0x7f20_0000,
        0x0090_c682_0000,
    ),
];

#[test]
fn smollm2_is_read_as_the_reference_reads_it() {
    let Some(path) = model("smollm2-135m.gguf") else {
        eprintln!(
            "SKIPPED: smollm2-135m.gguf is not there; `cargo xtask model smollm2-135m` downloads it"
        );
        return;
    };
    let source = FileSource::open(path).unwrap();
    let gguf = pollster::block_on(Gguf::read(&source)).unwrap();
    assert_eq!(
        (gguf.version, gguf.alignment, gguf.data_offset),
        (3, 32, 1_785_664)
    );
    assert_eq!((gguf.tensors.len(), gguf.metadata.len()), (272, 33));
    let count = |ggml_type| {
        gguf.tensors
            .iter()
            .filter(|tensor| tensor.stored.0 == ggml_type)
            .count()
    };
    assert_eq!((count(3), count(0), count(8)), (210, 61, 1));

    let metadata = &gguf.metadata;
    assert_eq!(
        metadata.required_str("general.architecture").unwrap(),
        "llama"
    );
    assert_eq!(metadata.required_u32("llama.block_count").unwrap(), 30);
    assert_eq!(
        metadata.required_f32("llama.rope.freq_base").unwrap(),
        100_000.0
    );
    assert!(
        !metadata
            .required_bool("tokenizer.ggml.add_bos_token")
            .unwrap()
    );
    assert_eq!(
        metadata
            .required_str("tokenizer.chat_template")
            .unwrap()
            .chars()
            .count(),
        368
    );
    let tokens = metadata
        .required_string_array("tokenizer.ggml.tokens")
        .unwrap();
    assert_eq!(tokens.len(), 49_152);
    assert_eq!(
        (tokens.get(0), tokens.get(2)),
        (Some("<|endoftext|>"), Some("<|im_end|>"))
    );
    assert_eq!(
        (tokens.get(1_000), tokens.get(49_151)),
        (Some("()"), Some("ectable"))
    );
    let merges = metadata
        .required_string_array("tokenizer.ggml.merges")
        .unwrap();
    assert_eq!(
        (merges.len(), merges.get(0), merges.get(48_899)),
        (48_900, Some("Ġ t"), Some("ect able"))
    );
    let kinds = metadata
        .required_i32_array("tokenizer.ggml.token_type")
        .unwrap();
    assert_eq!((kinds.len(), kinds.iter().sum::<i32>()), (49_152, 49_186));

    for (name, shape, ggml_type, offset, bytes, last, xor, sum) in EXPECTED {
        let tensor = gguf.required_tensor(name).unwrap();
        assert_eq!(
            (&*tensor.shape, tensor.stored.0, tensor.offset, tensor.bytes),
            (shape, ggml_type, offset, bytes)
        );
        let format = tensor.format().unwrap();
        let cols = usize::try_from(tensor.cols()).unwrap();
        let mut blocks = RowBlocks::new(&source, tensor, DEFAULT_BLOCK_BYTES, 8).unwrap();
        let (mut found_xor, mut found_sum, mut found_last, mut rows) = (0, 0, Vec::new(), 0);
        while let Some(block) = pollster::block_on(blocks.next()).unwrap() {
            assert_eq!(block.first_row, rows);
            let mut weights =
                vec![0.0; block.bytes.len() / format.block_bytes() * format.block_len()];
            format.dequantize(block.bytes, &mut weights);
            rows += (weights.len() / cols) as u64;
            let bits: Vec<u32> = weights.iter().map(|weight| weight.to_bits()).collect();
            found_xor = bits.iter().fold(found_xor, |sum, bits| sum ^ bits);
            found_sum += bits.iter().map(|bits| u64::from(*bits)).sum::<u64>();
            found_last = bits[bits.len() - cols..][..4].to_vec();
        }
        assert_eq!(
            (rows, found_xor, found_sum, &*found_last),
            (tensor.rows(), xor, sum, &last[..]),
            "{name}"
        );
        if let [_] = *tensor.shape {
            let vector = pollster::block_on(read_vector_f32(&source, tensor)).unwrap();
            assert_eq!(
                vector.iter().fold(0, |sum, weight| sum ^ weight.to_bits()),
                xor
            );
        }
    }
}
