//! Level 0: every kernel of every tier over every format compiles in naga, and an error names the author's line.

use std::collections::HashSet;

use foretoken_gpu::composer::Target;
use foretoken_gpu::{Tier, catalog};
use foretoken_weights::quant::FORMATS;
use naga::valid::{Capabilities, ValidationFlags, Validator};

#[test]
fn every_kernel_of_every_tier_compiles_in_naga() {
    let mut compiled = HashSet::new();
    for tier in Tier::ALL {
        for entry in catalog(FORMATS, tier, Target::Naga) {
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
    let compiled = compiled.len();
    // Of a format: five epilogues, each with at least five pipelines on every device and as many on some tier.
    assert!(
        compiled >= FORMATS.len() * 5 * 10,
        "only {compiled} kernels were found"
    );
    println!("{compiled} kernels compiled");
}
