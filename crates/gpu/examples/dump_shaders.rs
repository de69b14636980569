//! `dump_shaders DIR [--all]`: writes the kernels of every tier as Tint reads them, with `--all` every format in every variant, with the device features it needs in
//! `features.txt`. A tier has a folder, and others for what needs subgroups of so many lanes and what only hardware runs. A text that a plainer tier has
//! already is not written again: what compiles with fewer features compiles with more.

use std::collections::HashSet;
use std::{env, fs, path::PathBuf, process::ExitCode};

use foretoken_gpu::composer::Target;
use foretoken_gpu::{Coverage, Tier, catalog};
use foretoken_weights::quant::FORMATS;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let (folder, coverage) = match &arguments[..] {
        [folder] => (PathBuf::from(folder), Coverage::Pairwise),
        [folder, all] if all == "--all" => (PathBuf::from(folder), Coverage::Full),
        _ => {
            eprintln!("usage: dump_shaders DIR [--all]");
            return ExitCode::from(2);
        }
    };
    match dump(&folder, coverage) {
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

fn dump(folder: &std::path::Path, coverage: Coverage) -> std::io::Result<usize> {
    let mut written = HashSet::new();
    for tier in Tier::ALL {
        for entry in catalog(FORMATS, tier, coverage, Target::Tint) {
            let mut folder = folder.join(tier.name());
            let mut needs = Vec::new();
            if tier.f16 {
                needs.push("shader-f16".to_owned());
            }
            if entry.lanes > 0 {
                folder.set_file_name(format!("{}.{}-lanes", tier.name(), entry.lanes));
                needs.push("subgroups".to_owned());
                needs.push(format!("subgroupMinSize={}", entry.lanes));
            }
            if entry.hardware {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                let name = format!("{name}.hardware");
                folder.set_file_name(name);
                needs.push("hardware".to_owned());
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
