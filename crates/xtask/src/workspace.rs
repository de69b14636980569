//! What `cargo metadata` says about the workspace, and where this project keeps its caches.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The prefix of every package name of the workspace.
pub const PREFIX: &str = "foretoken-";

/// The workspace that this program was built in.
pub struct Workspace {
    /// Its folder.
    pub root: PathBuf,
    /// Where cargo builds to.
    pub target: PathBuf,
    /// Its packages, by name.
    pub packages: BTreeMap<String, Package>,
}

/// A package, of the workspace or of a registry.
pub struct Package {
    /// As in its manifest.
    pub name: String,
    /// As in its manifest.
    pub version: String,
    /// The licence expression; empty where the manifest has none.
    pub license: String,
    /// What it depends on when it is built to be used: development dependencies are not among them.
    pub dependencies: Vec<String>,
    /// Whether it has a library that others can use.
    pub is_library: bool,
    /// Where its manifest is.
    pub folder: PathBuf,
}

impl Package {
    fn from_json(value: &Value) -> Result<Package> {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let list = |key: &str| value[key].as_array().cloned().unwrap_or_default();
        let name = text("name").context("cargo metadata: a package without a name")?;
        let manifest =
            text("manifest_path").context("cargo metadata: a package without a manifest")?;
        Ok(Package {
            folder: Path::new(&manifest)
                .parent()
                .map(Path::to_owned)
                .unwrap_or_default(),
            version: text("version").context("cargo metadata: a package without a version")?,
            license: text("license").unwrap_or_default(),
            dependencies: list("dependencies")
                .iter()
                .filter(|dependency| dependency["kind"] != "dev")
                .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
                .collect(),
            is_library: list("targets").iter().any(|target| {
                let kinds = target["kind"].as_array();
                kinds
                    .is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib" || kind == "cdylib"))
            }),
            name,
        })
    }

    /// The folder under `crates/` (or `tests`) of a package of the workspace.
    pub fn short_name(&self) -> &str {
        self.name.strip_prefix(PREFIX).unwrap_or(&self.name)
    }
}

impl Workspace {
    /// Asks cargo; needs no network.
    pub fn find() -> Result<Workspace> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .context("this program was not built in crates/xtask of the workspace")?;
        let metadata = metadata(root, &["--no-deps", "--offline"])?;
        let mut packages = BTreeMap::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let package = Package::from_json(package)?;
            packages.insert(package.name.clone(), package);
        }
        let target = metadata["target_directory"]
            .as_str()
            .context("cargo metadata: no target_directory")?;
        Ok(Workspace {
            root: root.to_owned(),
            target: target.into(),
            packages,
        })
    }

    /// Every package that any platform's build may use. Cargo fetches the manifests that are not there yet.
    pub fn all_packages(&self) -> Result<Vec<Package>> {
        let metadata =
            metadata(&self.root, &["--offline"]).or_else(|_| metadata(&self.root, &[]))?;
        let packages = metadata["packages"].as_array();
        packages
            .into_iter()
            .flatten()
            .map(Package::from_json)
            .collect()
    }

    /// The packages of others whose code a build of `root` for `platform` links: build and development dependencies and
    /// procedural macros are not among them. By name and version.
    pub fn linked_packages(&self, root: &str, platform: &str) -> Result<Vec<Package>> {
        let options = ["--filter-platform", platform];
        let metadata = metadata(&self.root, &[&options[..], &["--offline"]].concat())
            .or_else(|_| metadata(&self.root, &options))?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let packages = list(&metadata["packages"]);
        let by_id: BTreeMap<&str, &Value> = packages
            .iter()
            .filter_map(|package| Some((package["id"].as_str()?, package)))
            .collect();
        let nodes = list(&metadata["resolve"]["nodes"]);
        let node_of: BTreeMap<&str, &Value> = nodes
            .iter()
            .filter_map(|node| Some((node["id"].as_str()?, node)))
            .collect();
        let is_macro = |package: &Value| {
            list(&package["targets"]).iter().any(|target| {
                list(&target["kind"])
                    .iter()
                    .any(|kind| kind == "proc-macro")
            })
        };
        let mut waiting: Vec<&str> = by_id
            .iter()
            .filter(|(_, package)| package["name"] == root)
            .map(|(id, _)| *id)
            .collect();
        let mut found = BTreeMap::new();
        while let Some(id) = waiting.pop() {
            let Some(package) = by_id.get(id).filter(|package| !is_macro(package)) else {
                continue;
            };
            if found.contains_key(id) {
                continue;
            }
            found.insert(id, Package::from_json(package)?);
            let Some(node) = node_of.get(id) else {
                continue;
            };
            for dependency in node["deps"].as_array().into_iter().flatten() {
                let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
                if kinds.into_iter().any(|kind| kind["kind"].is_null()) {
                    waiting.extend(dependency["pkg"].as_str());
                }
            }
        }
        let mut linked: Vec<Package> = found
            .into_values()
            .filter(|package| !self.packages.contains_key(&package.name))
            .collect();
        linked.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(linked)
    }

    /// The library crates: what a browser's build may hold. The tests, this program and the binaries are not among them.
    pub fn library_packages(&self) -> Vec<&str> {
        let packages = self.packages.values();
        packages
            .filter(|package| package.is_library && package.short_name() != "tests")
            .map(|package| package.name.as_str())
            .collect()
    }

    /// A `cargo` command in the workspace's folder.
    pub fn cargo(&self, subcommand: &str) -> Command {
        let mut command = Command::new(cargo_program());
        command.current_dir(&self.root).arg(subcommand);
        command
    }
}

fn cargo_program() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

fn metadata(root: &Path, options: &[&str]) -> Result<Value> {
    let mut command = Command::new(cargo_program());
    command
        .current_dir(root)
        .args(["metadata", "--format-version", "1"])
        .args(options);
    serde_json::from_str(&process::output(&mut command)?)
        .context("cargo metadata did not print JSON")
}

/// The folder for what outlives a clone: models, tools and the wasm standard library.
pub fn cache_folder() -> Result<PathBuf> {
    let home = env::var_os("HOME").or_else(|| env::var_os("USERPROFILE"));
    let home =
        home.context("HOME is not set: set it to a folder that can hold .cache/foretoken")?;
    Ok(PathBuf::from(home).join(".cache").join("foretoken"))
}
