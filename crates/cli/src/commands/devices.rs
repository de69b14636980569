//! `foretoken devices`: which adapters there are.

use foretoken_gpu::{AdapterReport, MatmulShape};
use serde_json::{Value, json};

use crate::args::DevicesArgs;
use crate::failure::Status;
use crate::stdout;
use crate::tuning::{self, Source};

/// Runs it.
pub async fn run(args: DevicesArgs) -> anyhow::Result<Status> {
    let adapters = foretoken_gpu::adapters().await;
    if args.json {
        let adapters: Vec<Value> = adapters.iter().map(object).collect();
        stdout::json_line(
            &json!({ "adapters": adapters, "default": adapters.first().map(|a| &a["index"]) }),
        )?;
        return Ok(Status::Done);
    }
    let mut text = String::new();
    for adapter in &adapters {
        text += &describe(adapter);
    }
    text += match adapters.first() {
        Some(_) => {
            "cpu: the reference, plain f32 without a GPU (--device cpu)\nWithout --device, 0 is taken.\n"
        }
        None => {
            "cpu: the reference, plain f32 without a GPU (--device cpu)\nThere is no adapter: install a \
             Vulkan, Metal or DX12 driver (`cargo xtask setup` does, on Debian).\n"
        }
    };
    stdout::text(&text)?;
    Ok(Status::Done)
}

fn describe(adapter: &AdapterReport) -> String {
    let software = if adapter.software {
        ", computes on the CPU"
    } else {
        ""
    };
    let (smallest, largest) = adapter.subgroup_size;
    let mut text = format!(
        "{}: {} ({}, {}{software}; {})\n   tier {}; subgroups of {smallest} to {largest}; f16 {}; \
         bindings to {} MiB, buffers to {} MiB\n",
        adapter.index,
        adapter.name,
        adapter.backend,
        adapter.device_type,
        adapter.driver,
        adapter.tier,
        if adapter.shader_f16 { "yes" } else { "no" },
        adapter.max_binding_bytes >> 20,
        adapter.max_buffer_bytes >> 20,
    );
    let kept = tuning::kept(adapter);
    for choice in &kept {
        text += &format!("   matmul for {}\n", choice.describe());
    }
    if kept.is_empty() {
        text += &format!(
            "   matmul {} ({})\n",
            MatmulShape::of(adapter, adapter.tier),
            Source::ClassDefault.text()
        );
    }
    text
}

fn object(adapter: &AdapterReport) -> Value {
    json!({
        "index": adapter.index,
        "name": adapter.name,
        "backend": adapter.backend,
        "device_type": adapter.device_type,
        "driver": adapter.driver,
        "software": adapter.software,
        "tier": adapter.tier.name(),
        "subgroup_size": [adapter.subgroup_size.0, adapter.subgroup_size.1],
        "shader_f16": adapter.shader_f16,
        "max_binding_bytes": adapter.max_binding_bytes,
        "max_buffer_bytes": adapter.max_buffer_bytes,
        "class_default": MatmulShape::of(adapter, adapter.tier).to_string(),
        "tuning": tuning::kept(adapter),
    })
}
