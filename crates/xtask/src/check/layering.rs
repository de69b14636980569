//! Layering: the table in docs/ARCHITECTURE.md against what the manifests say.
//!
//! The table stands between `<!-- layering -->` and `<!-- /layering -->` and has the columns crate, one line, may use,
//! external. A crate may use crates of rows above its own only, so the arrow of dependency has one direction. An
//! external crate that any row names belongs to the rows that name it; one that none names is free to all.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace::{PREFIX, Package, Workspace};

const FILE: &str = "docs/ARCHITECTURE.md";
const START: &str = "<!-- layering -->";
const END: &str = "<!-- /layering -->";

/// Crates that stay where they are, whatever the table says.
const BOUND: &[(&str, &[&str])] = &[
    ("wgpu", &["gpu"]),
    ("web-sys", &["wasm", "gpu"]),
    ("js-sys", &["wasm", "gpu"]),
    ("anyhow", &["cli", "xtask", "tests"]),
];

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    name: String,
    may_use: BTreeSet<String>,
    external: BTreeSet<String>,
}

/// Holds every package of the workspace against its row.
pub fn check(workspace: &Workspace) -> Result<()> {
    let text = fs::read_to_string(workspace.root.join(FILE))
        .with_context(|| format!("cannot read {FILE}"))?;
    let rows = table(&text)?;
    let packages: Vec<&Package> = workspace.packages.values().collect();
    let faults = faults(&rows, &packages);
    if !faults.is_empty() {
        bail!(
            "{FILE} and the manifests disagree:\n  {}",
            faults.join("\n  ")
        );
    }
    Ok(())
}

fn table(text: &str) -> Result<Vec<Row>> {
    let missing = || format!("{FILE} has no table between {START} and {END}");
    let (_, text) = text.split_once(START).with_context(missing)?;
    let (text, _) = text.split_once(END).with_context(missing)?;
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with('|'));
    // The first two are the heading and the rule under it.
    let rows: Vec<Row> = lines.skip(2).map(row).collect::<Result<_>>()?;
    if rows.is_empty() {
        bail!(missing());
    }
    Ok(rows)
}

fn row(line: &str) -> Result<Row> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [name, _, may_use, external] = cells.as_slice() else {
        bail!(
            "{FILE}: a row of the layering table has {} cells, not 4: {line}",
            cells.len()
        );
    };
    Ok(Row {
        name: name.trim_matches('`').to_owned(),
        may_use: list(may_use),
        external: list(external),
    })
}

/// `a, b (with a remark)` is a and b; a dash is nothing.
fn list(cell: &str) -> BTreeSet<String> {
    let mut text = String::new();
    let mut depth = 0;
    for char in cell.chars() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => text.push(char),
            _ => {}
        }
    }
    let names = text.split(',').map(|name| name.trim().trim_matches('`'));
    let names = names.filter(|name| !matches!(*name, "" | "-" | "–" | "—"));
    names.map(str::to_owned).collect()
}

fn faults(rows: &[Row], packages: &[&Package]) -> Vec<String> {
    let mut faults = Vec::new();
    let named: BTreeSet<&String> = rows.iter().flat_map(|row| &row.external).collect();
    for (at, row) in rows.iter().enumerate() {
        if !packages
            .iter()
            .any(|package| package.short_name() == row.name)
        {
            faults.push(format!(
                "{}: the table names a crate that is not there",
                row.name
            ));
        }
        for used in &row.may_use {
            if !rows[..at].iter().any(|above| above.name == *used) {
                faults.push(format!(
                    "{}: may use {used}, which stands in no row above it",
                    row.name
                ));
            }
        }
    }
    for package in packages {
        let name = package.short_name();
        let Some(row) = rows.iter().find(|row| row.name == name) else {
            faults.push(format!("{name}: the table has no row for it"));
            continue;
        };
        for dependency in &package.dependencies {
            if let Some(ours) = dependency.strip_prefix(PREFIX) {
                if !row.may_use.contains(ours) {
                    faults.push(format!("{name}: uses {ours}, which its row does not allow"));
                }
                continue;
            }
            let bound = BOUND.iter().find(|(external, _)| external == dependency);
            if bound.is_some_and(|(_, places)| !places.contains(&name)) {
                faults.push(format!(
                    "{name}: uses {dependency}, which stays in {}",
                    bound.map_or(String::new(), |(_, places)| places.join(", "))
                ));
            } else if named.contains(dependency) && !row.external.contains(dependency) {
                faults.push(format!(
                    "{name}: uses {dependency}, which its row does not name"
                ));
            }
        }
    }
    faults.dedup();
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "
text
<!-- layering -->
| crate | one line | may use | external |
| --- | --- | --- | --- |
| `core` | ids | – | web-time |
| `gpu` | kernels | core | `wgpu` (no default features), bytemuck |
| `cli` | the binary | core, gpu | – |
<!-- /layering -->
| `other` | table | | |
";

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: format!("{PREFIX}{name}"),
            version: "0.1.0".to_owned(),
            license: String::new(),
            folder: std::path::PathBuf::new(),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
            is_library: true,
        }
    }

    fn faults_of(core: &[&str], gpu: &[&str], cli: &[&str]) -> Vec<String> {
        let packages = [
            package("core", core),
            package("gpu", gpu),
            package("cli", cli),
        ];
        faults(&table(TABLE).unwrap(), &packages.iter().collect::<Vec<_>>())
    }

    #[test]
    fn what_the_table_allows_passes() {
        let gpu = ["foretoken-core", "wgpu", "bytemuck", "thiserror"];
        let cli = ["foretoken-gpu", "anyhow"];
        assert_eq!(faults_of(&["web-time"], &gpu, &cli), [""; 0]);
    }

    #[test]
    fn every_kind_of_fault_is_found() {
        assert_eq!(
            faults_of(&["foretoken-gpu"], &[], &[]),
            ["core: uses gpu, which its row does not allow"]
        );
        assert_eq!(
            faults_of(&[], &[], &["wgpu"]),
            ["cli: uses wgpu, which stays in gpu"]
        );
        assert_eq!(
            faults_of(&[], &[], &["bytemuck"]),
            ["cli: uses bytemuck, which its row does not name"]
        );
        let rows = table(TABLE).unwrap();
        let extra = [package("core", &[]), package("text", &[])];
        assert_eq!(
            faults(&rows, &extra.iter().collect::<Vec<_>>()),
            [
                "gpu: the table names a crate that is not there",
                "cli: the table names a crate that is not there",
                "text: the table has no row for it",
            ]
        );
    }

    #[test]
    fn a_row_may_not_use_one_below_it() {
        let turned = TABLE.replace("| ids | –", "| ids | gpu");
        let packages = [
            package("core", &[]),
            package("gpu", &[]),
            package("cli", &[]),
        ];
        assert_eq!(
            faults(
                &table(&turned).unwrap(),
                &packages.iter().collect::<Vec<_>>()
            ),
            ["core: may use gpu, which stands in no row above it"]
        );
    }
}
