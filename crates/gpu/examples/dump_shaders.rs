//! `dump_shaders DIR`: writes every kernel of every tier as Tint reads it, one folder a tier, with the device
//! features it needs in `features.txt`.

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
    let mut count = 0;
    for tier in Tier::ALL {
        let folder = folder.join(tier.name());
        fs::create_dir_all(&folder)?;
        let mut features = Vec::new();
        if tier.subgroups {
            features.push("subgroups");
            // As `lib/activations_broadcast.wgsl` needs them.
            features.push("subgroupMinSize=8");
        }
        if tier.f16 {
            features.push("shader-f16");
        }
        fs::write(folder.join("features.txt"), features.join("\n"))?;
        for entry in catalog(FORMATS, tier, Target::Tint) {
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
            fs::write(folder.join(format!("{name}.wgsl")), &entry.composed.source)?;
            count += 1;
        }
    }
    Ok(count)
}
