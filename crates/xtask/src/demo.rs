//! The demo page: assembled into `target/web`, and served with the default model.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::apt::Consent;
use crate::serve::{self, Mount};
use crate::wasm::Toolchain;
use crate::workspace::Workspace;
use crate::{model, web};

/// Compiles the page and copies it and the package, which has been built, into `target/web`: a static site.
pub fn assemble(workspace: &Workspace) -> Result<PathBuf> {
    let site = workspace.target.join("web");
    fs::remove_dir_all(&site).ok();
    fs::create_dir_all(&site)?;
    let source = workspace.root.join("web");
    web::compile(workspace, &source, &site)?;
    for file in ["index.html", "style.css"] {
        fs::copy(source.join(file), site.join(file))?;
    }
    for folder in ["dist", "wasm"] {
        let from = web::folder(workspace).join(folder);
        copy_files(&from, &site.join("foretoken").join(folder))?;
    }
    Ok(site)
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Builds everything, fetches the default model and serves the page until it is interrupted.
pub fn run(workspace: &Workspace, port: Option<u16>, consent: Consent) -> Result<()> {
    let toolchain = Toolchain::find(workspace, consent)?;
    web::build(workspace, &toolchain)?;
    let (listener, mounts) = open(workspace, port)?;
    println!("http://localhost:{}/", listener.local_addr()?.port());
    serve::serve(&listener, mounts)
}

/// Assembles the page and opens a port for it, with the default model beside it.
pub fn open(workspace: &Workspace, port: Option<u16>) -> Result<(TcpListener, &'static [Mount])> {
    let site = assemble(workspace)?;
    let model = model::fetch(model::DEFAULT)?;
    let models = model.parent().context("a model without a folder")?;
    let mounts = vec![
        Mount {
            prefix: "models",
            folder: models.to_owned(),
        },
        Mount {
            prefix: "",
            folder: site,
        },
    ];
    // Served as long as the process lives.
    Ok((serve::listen(port)?, mounts.leak()))
}
