//! Short names between the wasm module and wasm-bindgen's JavaScript: what they import and export has names of forty letters,
//! which are a fifth of that JavaScript, and binaryen knows how to shorten them on its side.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The option of wasm-opt that shortens, and prints what it called things.
pub const OPTION: &str = "--minify-imports-and-exports-and-modules";
/// What that option calls every module.
const MODULE: &str = "a";

/// Calls things in wasm-bindgen's JavaScript as wasm-opt did.
///
/// # Errors
/// If something is not where wasm-bindgen puts it: once among the imports, and after `wasm.` wherever an export is used. The types that it
/// gives what wasm exports (`InitOutput`) keep the long names: nobody but its own JavaScript uses those.
pub fn apply(javascript: &str, printed: &str) -> Result<String> {
    let start = printed.find('{').context("wasm-opt printed no names")?;
    let mut names: Value = serde_json::from_str(&printed[start..]).context("wasm-opt's names")?;
    // Module, name, new name.
    let imports: Vec<(String, String, String)> = serde_json::from_value(names["imports"].take())?;
    // Name, new name.
    let mut exports: Vec<(String, String)> = serde_json::from_value(names["exports"].take())?;
    let mut text = javascript.to_owned();
    let mut once = |from: &str, to: &str| -> Result<()> {
        let count = text.matches(from).count();
        ensure!(
            count == 1,
            "wasm-bindgen's JavaScript has {from:?} {count} times"
        );
        text = text.replace(from, to);
        Ok(())
    };
    let modules: BTreeSet<&String> = imports.iter().map(|(module, ..)| module).collect();
    for module in &modules {
        once(&format!("\"{module}\":"), &format!("\"{MODULE}\":"))?;
    }
    ensure!(modules.len() <= 1, "several modules would have one name");
    for (_, name, short) in &imports {
        once(&format!(" {name}: "), &format!(" {short}: "))?;
    }
    // The longest first: one name may begin as another does.
    exports.sort_by_key(|(name, _)| Reverse(name.len()));
    for (name, short) in exports {
        text = text.replace(&format!("wasm.{name}"), &format!("wasm.{short}"));
        ensure!(
            !text.contains(&format!(".{name}(")),
            "wasm-bindgen's JavaScript calls {name} in another way than by `wasm.{name}`"
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::apply;

    const PRINTED: &str = r#"{ "imports": [ ["./x_bg.js", "__wbg_now_1", "b"] ], "exports": [ ["engine_new", "c"], ["engine_new_at", "d"] ] }"#;

    #[test]
    fn both_sides_have_one_name() {
        let javascript = "{ \"./x_bg.js\": {\n __wbg_now_1: () => 1 } } wasm.engine_new(); wasm.engine_new_at(1);";
        assert_eq!(
            apply(javascript, PRINTED).unwrap(),
            "{ \"a\": {\n b: () => 1 } } wasm.c(); wasm.d(1);"
        );
    }

    #[test]
    fn what_is_not_where_it_should_be_is_told() {
        let error = apply("{ \"./x_bg.js\": {} }", PRINTED).unwrap_err();
        assert!(error.to_string().contains("__wbg_now_1"), "{error}");
        assert!(apply("", "no names").is_err());
    }
}
