//! The variables and files that the hub's own tools have, read as they read them.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::model_file::path_in;

/// The hub, where no other is named.
const ENDPOINT: &str = "https://huggingface.co";

/// Where the hub is, who asks, and where its files are kept.
pub struct Environment {
    /// `HF_ENDPOINT`, without a slash at its end.
    pub endpoint: String,
    /// `HF_TOKEN`, or what `HF_TOKEN_PATH` or the file `token` in the hub's folder holds.
    pub token: Option<String>,
    /// `HF_HUB_CACHE`, or `hub` in the hub's folder: `HF_HOME`, by default `~/.cache/huggingface`.
    pub cache: PathBuf,
    /// `HF_HUB_OFFLINE`: only what the cache has.
    pub offline: bool,
}

impl Environment {
    /// Reads it.
    pub fn read() -> Result<Self, Failure> {
        let invalid = |message: &str| Failure {
            code: "invalid_request",
            message: message.to_owned(),
        };
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        if !endpoint.starts_with("https://") && !endpoint.starts_with("http://") {
            return Err(invalid(&format!(
                "HF_ENDPOINT is {endpoint:?}: an address that begins with https:// is needed"
            )));
        }
        let home = || {
            path_in("HF_HOME")
                .or_else(|| path_in("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
                .or_else(|| {
                    let home = path_in("HOME").or_else(|| path_in("USERPROFILE"))?;
                    Some(home.join(".cache/huggingface"))
                })
        };
        let cache = path_in("HF_HUB_CACHE").or_else(|| Some(home()?.join("hub")));
        let token = text("HF_TOKEN").or_else(|| {
            let file = path_in("HF_TOKEN_PATH").or_else(|| Some(home()?.join("token")))?;
            std::fs::read_to_string(file).ok()
        });
        let token = token.map(|token| token.trim().to_owned());
        if let Some(token) = &token
            && !token.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(invalid(
                "the hub's token (HF_TOKEN, or the file that its tools keep it in) has characters that a token has not: set it anew",
            ));
        }
        Ok(Self {
            endpoint,
            token: token.filter(|token| !token.is_empty()),
            cache: cache.ok_or_else(|| {
                invalid("no folder to keep the hub's files in: set HF_HUB_CACHE or HF_HOME")
            })?,
            offline: text("HF_HUB_OFFLINE").is_some_and(|value| {
                matches!(&*value.to_ascii_lowercase(), "1" | "on" | "yes" | "true")
            }),
        })
    }
}
