//! Installing system packages with the user's consent.

use std::env;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;

/// Whether packages may be installed without asking.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Root, a CI machine or `--yes`.
    Given,
    /// Show the command and ask.
    Ask,
}

impl Consent {
    /// What the flag `--yes`, the user and the environment say together.
    pub fn from_flag(yes: bool) -> Consent {
        let in_ci = env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
        if yes || in_ci || is_root() {
            Consent::Given
        } else {
            Consent::Ask
        }
    }
}

/// A package of the system, named for each family of distributions.
pub struct SystemPackage {
    /// Debian, Ubuntu and their kin.
    pub debian: &'static str,
    /// Fedora and its kin.
    pub fedora: &'static str,
    /// Arch and its kin.
    pub arch: &'static str,
    /// What it is needed for, as the end of "… is missing: ".
    pub why: &'static str,
}

/// The family of this system's packages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Debian,
    Fedora,
    Arch,
    Other,
}

fn family() -> Family {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let ids: Vec<&str> = release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or(line.strip_prefix("ID_LIKE=")))
        .flat_map(|value| value.trim_matches('"').split_whitespace())
        .collect();
    let is = |names: &[&str]| ids.iter().any(|id| names.contains(id));
    if is(&["debian", "ubuntu"]) {
        Family::Debian
    } else if is(&["fedora", "rhel"]) {
        Family::Fedora
    } else if is(&["arch"]) {
        Family::Arch
    } else {
        Family::Other
    }
}

/// Whether packages can be installed here at all (with consent).
pub fn is_debian() -> bool {
    family() == Family::Debian
}

/// Installs these packages, saying what each is for; without consent it shows the command and asks.
pub fn install(packages: &[SystemPackage], consent: Consent) -> Result<()> {
    let family = family();
    let name = |package: &SystemPackage| match family {
        Family::Fedora => package.fedora,
        Family::Arch => package.arch,
        Family::Debian | Family::Other => package.debian,
    };
    for package in packages {
        eprintln!("{} is missing: {}", name(package), package.why);
    }
    let names: Vec<&str> = packages.iter().map(name).collect();
    let names = names.join(" ");
    match family {
        Family::Debian => {}
        Family::Fedora => {
            bail!("install what is missing, then run this again: sudo dnf install {names}")
        }
        Family::Arch => {
            bail!("install what is missing, then run this again: sudo pacman -S {names}")
        }
        Family::Other => bail!(
            "install what is missing with this system's package manager, then run this again (Debian's names: {names})"
        ),
    }
    let mut install = apt_get();
    install
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages.iter().map(|package| package.debian));
    let shown = process::display(&install);
    if consent == Consent::Ask && !agreed(&shown)? {
        bail!("not installed; run this yourself, then try again: {shown}");
    }
    eprintln!("running: {shown}");
    // The package lists may be absent (a fresh container) or old: they are fetched only where that can matter.
    if !has_package_lists() {
        process::run(apt_get().arg("update"))?;
        return process::run(&mut install);
    }
    process::run(&mut install).or_else(|_| {
        process::run(apt_get().arg("update"))?;
        process::run(&mut install)
    })
}

fn apt_get() -> Command {
    let mut command = if is_root() {
        Command::new("apt-get")
    } else {
        let mut command = Command::new("sudo");
        command.arg("apt-get");
        command
    };
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("-q");
    command
}

fn agreed(command: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    eprint!("{command}\nRun this now? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn has_package_lists() -> bool {
    let entries = fs::read_dir("/var/lib/apt/lists").into_iter().flatten();
    entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains("Packages"))
}

fn is_root() -> bool {
    // The owner of a process's own folder is its effective user.
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt;
        fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}
