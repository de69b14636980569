//! `dump_shaders DIR`: writes every kernel of every tier as Tint reads it, with the device features it needs in
//! `features.txt`. A tier has a folder, and another for what only hardware runs. A text that a plainer tier has
//! already is not written again: what compiles with fewer features compiles with more.

use std::collections::HashSet;
use std::{env, fs, path::PathBuf, process::ExitCode};

use foretoken_gpu::composer::Target;
use foretoken_gpu::{Tier, catalog};
use foretoken_weights::quant::FORMATS;

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: dump_shaders DIR");
        return ExitCode::from(2);
    };
    match dump(&folder) {
        Ok(count) => {
            println!("{count} kernels in {}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dump(folder: &std::path::Path) -> std::io::Result<usize> {
    let mut written = HashSet::new();
    for tier in Tier::ALL {
        let mut features = Vec::new();
        if tier.subgroups {
            features.push("subgroups");
            // As `lib/activations_broadcast.wgsl` needs them.
            features.push("subgroupMinSize=8");
        }
        if tier.f16 {
            features.push("shader-f16");
        }
        for entry in catalog(FORMATS, tier, Target::Tint) {
            let mut folder = folder.join(tier.name());
            let mut needs = features.clone();
            if entry.hardware {
                folder.set_extension("hardware");
                needs.push("hardware");
            }
            let name: String = entry
                .label
                .chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() || c == '_' {
                        c
                    } else {
                        '-'
                    }
                })
                .collect();
            if written.insert(entry.composed.source.clone()) {
                fs::create_dir_all(&folder)?;
                fs::write(folder.join("features.txt"), needs.join("\n"))?;
                fs::write(folder.join(format!("{name}.wgsl")), &entry.composed.source)?;
            }
        }
    }
    Ok(written.len())
}
