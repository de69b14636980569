//! The composer: turns the files of `shaders/` into the WGSL of one kernel.
//!
//! A composed kernel is directives (`enable …;`, which every target wants differently), a prologue of
//! constants, and the op's file with its imports spliced in. Three line directives and one substitution are
//! all there is:
//!
//! - `#import lib/step.wgsl` splices a file, once; `#import quant` splices the file that fills the slot `quant`,
//!   wherever it stands;
//! - `#repeat r R` … `#end` repeats lines for r = 0, 1 … R − 1; `R` is a number, a constant or an expression of them;
//! - `{r}`, `{r/4}`, `{r%4*2+1}` inside a repetition: integers, evaluated from left to right.
//!
//! Every line of the result remembers the file and line it came from, so that a compiler's error names what
//! its author wrote.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::shaders;

/// A kernel's text and where each of its lines came from.
#[derive(Debug, Clone)]
pub struct Composed {
    /// The WGSL handed to the driver.
    pub source: String,
    /// For line `i + 1` of `source`: the file below `shaders/` and its line.
    pub line_map: Vec<(&'static str, u32)>,
}

impl Composed {
    /// `ops/matmul.wgsl:12` for a 1-based line of the composed text.
    pub fn origin(&self, line: u32) -> String {
        match self.line_map.get((line as usize).wrapping_sub(1)) {
            Some((file, line)) => format!("shaders/{file}:{line}"),
            None => format!("composed line {line}"),
        }
    }
}

/// What a compiler must be told before the first declaration. naga refuses `enable subgroups;`, Tint requires it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// wgpu natively.
    Naga,
    /// A browser whose compiler is Tint (and the WGSL specification).
    Tint,
}

impl Target {
    /// The target of this build.
    pub const fn here() -> Self {
        if cfg!(target_arch = "wasm32") {
            Target::Tint
        } else {
            Target::Naga
        }
    }
}

/// Everything that makes one kernel out of an op's file.
#[derive(Debug, Clone, Default)]
pub struct Recipe<'a> {
    /// The op's file below `shaders/`, `ops/matmul.wgsl`.
    pub file: &'a str,
    /// Slot → file.
    pub slots: &'a [(&'a str, &'a str)],
    /// Constants: they count repetitions and are declared as `const NAME = VALUEu;`.
    pub constants: &'a [(&'a str, u32)],
    /// Whether the kernel uses `f16`.
    pub f16: bool,
    /// Whether it uses subgroup operations.
    pub subgroups: bool,
}

/// Files that stand in for those of `shaders/`, by path: how a test swaps in a kernel that misbehaves.
pub type Overrides = HashMap<String, &'static str>;

/// Composes a kernel. Panics on a malformed shader file: they are part of the program, and a test composes
/// every one of them.
pub fn compose(recipe: &Recipe<'_>, target: Target, overrides: &Overrides) -> Composed {
    let mut composer = Composer {
        recipe,
        overrides,
        imported: Vec::new(),
        out: String::new(),
        map: Vec::new(),
    };
    if target == Target::Tint && recipe.subgroups {
        composer.line("enable subgroups;", "lib (directives)", 1);
    }
    if recipe.f16 {
        composer.line("enable f16;", "lib (directives)", 1);
    }
    let mut constant = String::new();
    for (name, value) in recipe.constants {
        constant.clear();
        let _ = write!(constant, "const {name} = {value}u;");
        composer.line(&constant, "constants", 1);
    }
    composer.file(recipe.file);
    Composed {
        source: composer.out,
        line_map: composer.map,
    }
}

struct Composer<'a> {
    recipe: &'a Recipe<'a>,
    overrides: &'a Overrides,
    imported: Vec<&'static str>,
    out: String,
    map: Vec<(&'static str, u32)>,
}

type Line<'l> = (u32, &'l str);

impl Composer<'_> {
    fn line(&mut self, text: &str, file: &'static str, line: u32) {
        self.out.push_str(text);
        self.out.push('\n');
        self.map.push((file, line));
    }

    fn file(&mut self, path: &str) {
        let (path, embedded) =
            shaders::find(path).unwrap_or_else(|| panic!("no shader file {path:?} in shaders/"));
        let text = self.overrides.get(path).copied().unwrap_or(embedded);
        let lines: Vec<Line<'_>> = (1..).zip(text.lines()).collect();
        self.block(path, &lines, &mut Vec::new());
    }

    fn block(
        &mut self,
        file: &'static str,
        lines: &[Line<'_>],
        variables: &mut Vec<(String, u32)>,
    ) {
        let mut at = 0;
        while let Some(&(number, text)) = lines.get(at) {
            at += 1;
            let directive = text.trim_start();
            if let Some(name) = directive.strip_prefix("#import ") {
                self.import(file, number, name.trim());
            } else if let Some(rest) = directive.strip_prefix("#repeat ") {
                let body = at;
                let end = matching_end(lines, at)
                    .unwrap_or_else(|| panic!("shaders/{file}:{number}: #repeat without #end"));
                at = end + 1;
                let mut words = rest.split_whitespace();
                let (Some(variable), Some(count)) = (words.next(), words.next()) else {
                    panic!("shaders/{file}:{number}: expected `#repeat variable count`");
                };
                let count = self.evaluate(count, &[]).unwrap_or_else(|| {
                    panic!("shaders/{file}:{number}: {count:?} is no number, constant or expression of them")
                });
                for value in 0..count {
                    variables.push((variable.to_owned(), value));
                    self.block(file, &lines[body..end], variables);
                    variables.pop();
                }
            } else if variables.is_empty() {
                self.line(text, file, number);
            } else {
                let text = self.substitute(text, variables);
                self.line(&text, file, number);
            }
        }
    }

    fn import(&mut self, file: &'static str, line: u32, name: &str) {
        let slot = self.recipe.slots.iter().find(|(slot, _)| *slot == name);
        if let Some((_, path)) = slot {
            return self.file(path);
        }
        let Some((path, _)) = shaders::find(name) else {
            panic!(
                "shaders/{file}:{line}: nothing fills {name:?} in {}",
                self.recipe.file
            );
        };
        if !self.imported.contains(&path) {
            self.imported.push(path);
            self.file(path);
        }
    }

    fn number(&self, word: &str) -> Option<u32> {
        word.parse().ok().or_else(|| {
            self.recipe
                .constants
                .iter()
                .find(|(name, _)| *name == word)
                .map(|(_, value)| *value)
        })
    }

    /// Replaces `{expression}` where the expression begins with a variable of a repetition.
    fn substitute(&self, text: &str, variables: &[(String, u32)]) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            out.push_str(before);
            let value = from
                .find('}')
                .and_then(|close| Some((self.evaluate(&from[1..close], variables)?, close)));
            match value {
                Some((value, close)) => {
                    let _ = write!(out, "{value}");
                    rest = &from[close + 1..];
                }
                None => {
                    out.push('{');
                    rest = &from[1..];
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// The value of an expression that begins with one of the variables or, where there are none, with a number or
    /// a constant.
    fn evaluate(&self, expression: &str, variables: &[(String, u32)]) -> Option<u32> {
        let operator = |c: char| matches!(c, '+' | '*' | '/' | '%');
        let end = expression.find(operator).unwrap_or(expression.len());
        let name = &expression[..end];
        let mut value = if variables.is_empty() {
            self.number(name)?
        } else {
            variables.iter().rev().find(|(n, _)| n == name)?.1
        };
        let mut rest = &expression[end..];
        while let Some(op) = rest.chars().next() {
            let tail = &rest[1..];
            let end = tail.find(operator).unwrap_or(tail.len());
            let operand = self.number(&tail[..end])?;
            value = match op {
                '+' => value.checked_add(operand)?,
                '*' => value.checked_mul(operand)?,
                '/' => value.checked_div(operand)?,
                _ => value.checked_rem(operand)?,
            };
            rest = &tail[end..];
        }
        Some(value)
    }
}

/// Index of the `#end` that closes a repetition whose body begins at `from`.
fn matching_end(lines: &[Line<'_>], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (index, (_, text)) in lines.iter().enumerate().skip(from) {
        let text = text.trim_start();
        if text.starts_with("#repeat ") {
            depth += 1;
        } else if text.trim_end() == "#end" {
            if depth == 0 {
                return Some(index);
            }
            depth -= 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(text: &'static str, constants: &[(&str, u32)]) -> Composed {
        let overrides = Overrides::from([("ops/embed.wgsl".to_owned(), text)]);
        let recipe = Recipe {
            file: "ops/embed.wgsl",
            constants,
            ..Recipe::default()
        };
        compose(&recipe, Target::Naga, &overrides)
    }

    #[test]
    fn repetitions_nest_and_substitute_from_left_to_right() {
        let text = "#repeat r R\n#repeat c 2\na_{r}_{c} {c*2+1} {r/R} { let x = {c}u; }\n#end\n#end\nlast {r}";
        let result = composed(text, &[("R", 2)]);
        let expected = "const R = 2u;\n\
            a_0_0 1 0 { let x = 0u; }\na_0_1 3 0 { let x = 1u; }\n\
            a_1_0 1 0 { let x = 0u; }\na_1_1 3 0 { let x = 1u; }\nlast {r}\n";
        assert_eq!(result.source, expected);
    }

    #[test]
    fn a_line_of_the_result_knows_its_author() {
        let result = composed(
            "first\n#repeat j 3\nbody {j}\n#end\n#import lib/glu_silu.wgsl\n#import lib/glu_silu.wgsl",
            &[],
        );
        assert_eq!(result.origin(1), "shaders/ops/embed.wgsl:1");
        assert_eq!(result.origin(4), "shaders/ops/embed.wgsl:3");
        assert_eq!(result.origin(5), "shaders/lib/glu_silu.wgsl:1");
        assert_eq!(
            result.source.matches("fn activate(").count(),
            1,
            "a file is spliced once"
        );
    }

    #[test]
    fn directives_are_the_targets() {
        let recipe = Recipe {
            file: "lib/glu_silu.wgsl",
            subgroups: true,
            f16: true,
            ..Recipe::default()
        };
        let tint = compose(&recipe, Target::Tint, &Overrides::new()).source;
        let naga = compose(&recipe, Target::Naga, &Overrides::new()).source;
        assert!(tint.starts_with("enable subgroups;\nenable f16;\n"));
        assert!(naga.starts_with("enable f16;\n"));
    }
}
