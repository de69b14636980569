//! What running on Vulkan needs: the loader, and Mesa's software driver where no GPU has a driver.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::apt::{self, Consent, SystemPackage};

const LOADER: SystemPackage = SystemPackage {
    debian: "libvulkan1",
    fedora: "vulkan-loader",
    arch: "vulkan-icd-loader",
    why: "the Vulkan loader, through which programs reach the GPU",
};

const SOFTWARE_DRIVER: SystemPackage = SystemPackage {
    debian: "mesa-vulkan-drivers",
    fedora: "mesa-vulkan-drivers",
    arch: "vulkan-swrast",
    why: "no GPU with a Vulkan driver was found; Mesa's software driver runs the kernels on the processor",
};

/// Installs what is missing. Says and does nothing where nothing is.
pub fn vulkan(consent: Consent) -> Result<()> {
    // Metal and DX12 come with their systems.
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let mut missing = Vec::new();
    if !has_loader() {
        missing.push(LOADER);
    }
    if !driver_is_chosen() && !has_gpu_driver() && software_driver().is_none() {
        missing.push(SOFTWARE_DRIVER);
    }
    if missing.is_empty() {
        return Ok(());
    }
    apt::install(&missing, consent)
}

/// Keeps a program to the software driver on a machine without a GPU: the drivers of absent GPUs only cost time
/// and print warnings.
pub fn choose_driver(command: &mut Command) {
    if cfg!(target_os = "linux")
        && !driver_is_chosen()
        && !has_gpu_driver()
        && let Some(file) = software_driver()
    {
        command.env("VK_DRIVER_FILES", file);
    }
}

/// Whether the user chose a Vulkan driver for this process and its children.
fn driver_is_chosen() -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    set("VK_DRIVER_FILES") || set("VK_ICD_FILENAMES")
}

fn has_loader() -> bool {
    let multiarch = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let system = [
        multiarch.as_str(),
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ];
    let system = system.into_iter().map(PathBuf::from);
    let extra = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    system
        .chain(env::split_paths(&extra))
        .any(|folder| folder.join("libvulkan.so.1").exists())
}

/// Whether there is both a GPU's device node and a driver that is not the software one.
fn has_gpu_driver() -> bool {
    let has_node = |folder: &str, prefix: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name());
        names.any(|name| name.to_string_lossy().starts_with(prefix))
    };
    let has_gpu = has_node("/dev/dri", "renderD")
        || Path::new("/dev/nvidiactl").exists()
        || Path::new("/dev/dxg").exists();
    has_gpu && driver_files().iter().any(|file| !is_software(file))
}

fn software_driver() -> Option<PathBuf> {
    driver_files().into_iter().find(|file| is_software(file))
}

fn is_software(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("lvp_icd")
}

/// The driver descriptions that the loader reads.
fn driver_files() -> Vec<PathBuf> {
    let folders = [
        "/etc/vulkan/icd.d",
        "/usr/local/share/vulkan/icd.d",
        "/usr/share/vulkan/icd.d",
    ];
    let entries = folders
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    });
    files.sort();
    files
}
