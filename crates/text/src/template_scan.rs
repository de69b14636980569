//! What can be said of a template before it is parsed: how much its parser would nest, and whether its values could.
//!
//! The template engine parses and drops by recursion, in places without a bound, so a hostile template could exhaust the
//! stack. Real templates are far below these limits.

/// The most operators and words in one `{{ … }}` or `{% … %}`: the parser calls itself for each operator of a chain.
const MAX_TAG_TOKENS: usize = 500;
/// The most statements that hold others, `elif` included: the parser calls itself for each inside another.
const MAX_BLOCKS: usize = 500;
/// The statements that hold others.
const BLOCKS: [&str; 9] = [
    "if",
    "elif",
    "for",
    "macro",
    "call",
    "filter",
    "with",
    "autoescape",
    "block",
];

/// Refuses a template that would nest too deeply, or says nothing.
pub(crate) fn check(source: &str) -> Result<(), String> {
    let tags: Vec<Vec<Token<'_>>> = Tags { rest: source }.map(tokens).collect();
    let mut blocks = 0;
    for tag in &tags {
        if tag.len() > MAX_TAG_TOKENS {
            return Err(format!(
                "a tag has {} operators and words; at most {MAX_TAG_TOKENS} are supported",
                tag.len()
            ));
        }
        blocks +=
            usize::from(matches!(tag.first(), Some(Token::Word(word)) if BLOCKS.contains(word)));
    }
    if blocks > MAX_BLOCKS {
        return Err(format!(
            "the template has {blocks} statements that hold others; at most {MAX_BLOCKS} are supported"
        ));
    }
    check_namespaces(&tags)
}

/// Whether some `{% for … in … %}` goes through what is called `name`, as a variable, an attribute or a key.
pub(crate) fn loops_over(source: &str, name: &str) -> bool {
    Tags { rest: source }.any(|tag| {
        let mut words = tag
            .split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
            .filter(|word| !word.is_empty());
        words.next() == Some("for")
            && words
                .skip_while(|word| *word != "in")
                .any(|word| word == name)
    })
}

/// A namespace is the one value that can be changed after it was made, so the one that could come to hold itself; showing
/// or comparing such a value never ends. Real templates use namespaces by attribute only, and that much is taken:
/// `{% set ns = namespace(…) %}`, then `ns.name`.
fn check_namespaces(tags: &[Vec<Token<'_>>]) -> Result<(), String> {
    let defines = |tag: &[Token<'_>]| match tag {
        [
            Token::Word("set"),
            Token::Word(name),
            Token::Sign('='),
            Token::Word("namespace"),
            ..,
        ] => Some((*name).to_owned()),
        _ => None,
    };
    let names: Vec<String> = tags.iter().filter_map(|tag| defines(tag)).collect();
    for tag in tags {
        let defined = defines(tag);
        for (at, token) in tag.iter().enumerate() {
            let Token::Word(word) = token else { continue };
            if at > 0 && tag[at - 1] == Token::Sign('.') {
                continue;
            }
            let definition = defined.is_some() && (at == 1 || at == 3);
            if definition {
                continue;
            }
            let by_attribute = tag.get(at + 1) == Some(&Token::Sign('.'));
            if *word == "namespace" || (names.iter().any(|name| name == word) && !by_attribute) {
                return Err(format!(
                    "the template uses the namespace {word:?} other than by attribute, which is not supported"
                ));
            }
        }
    }
    Ok(())
}

/// A word, or one sign of anything else; strings are one quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'s> {
    Word(&'s str),
    Sign(char),
}

/// The insides of the tags of a template, comments and raw text left out.
struct Tags<'s> {
    rest: &'s str,
}

impl<'s> Iterator for Tags<'s> {
    type Item = &'s str;

    fn next(&mut self) -> Option<&'s str> {
        loop {
            let open = self.rest.find('{')?;
            self.rest = &self.rest[open + 1..];
            let close = match self.rest.as_bytes().first() {
                Some(b'{') => "}}",
                Some(b'%') => "%}",
                Some(b'#') => {
                    let end = self.rest.find("#}").map_or(self.rest.len(), |end| end + 2);
                    self.rest = &self.rest[end..];
                    continue;
                }
                _ => continue,
            };
            let inside = &self.rest[1..];
            let end = end_of_tag(inside, close);
            let tag = &inside[..end];
            self.rest = &inside[end..];
            let statement = tag.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+'));
            if close == "%}" && statement == "raw" {
                // Up to the tag that ends it; its own braces are found by the next round.
                let end = self.rest.find("endraw").unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
            }
            return Some(tag);
        }
    }
}

/// Where a tag ends: at the first `close` outside strings.
fn end_of_tag(inside: &str, close: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    for (at, letter) in inside.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if letter == '\\' => escaped = true,
            Some(mark) if letter == mark => quote = None,
            Some(_) => {}
            None if inside[at..].starts_with(close) => return at,
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            None => {}
        }
    }
    inside.len()
}

fn tokens(tag: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut letters = tag.char_indices().peekable();
    // Whitespace control belongs to the braces.
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    while let Some((at, letter)) = letters.next() {
        if is_word(letter) {
            let mut end = at + letter.len_utf8();
            while let Some((_, next)) = letters.next_if(|(_, next)| is_word(*next)) {
                end += next.len_utf8();
            }
            found.push(Token::Word(&tag[at..end]));
        } else if matches!(letter, '"' | '\'') {
            found.push(Token::Sign(letter));
            let mut escaped = false;
            for (_, inner) in letters.by_ref() {
                if escaped {
                    escaped = false;
                } else if inner == '\\' {
                    escaped = true;
                } else if inner == letter {
                    break;
                }
            }
        } else if !(letter.is_whitespace() || found.is_empty() && matches!(letter, '-' | '+')) {
            found.push(Token::Sign(letter));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{check, loops_over};

    #[test]
    fn loops_are_found_by_what_they_go_through() {
        for (source, found) in [
            ("{%- for c in message['content'] -%}", true),
            ("{% for c in message.content if c %}", true),
            ("{% for content in messages %}{{ content }}", false),
            ("{{ message.content }}", false),
            ("{# {% for c in content %} #}", false),
        ] {
            assert_eq!(loops_over(source, "content"), found, "{source}");
        }
    }

    #[test]
    fn ordinary_templates_pass() {
        for source in [
            "",
            "{{ x }} {# {{ ' #} {%- set ns = namespace(a=1, b=[]) -%}{% set ns.a = ns.a + 1 %}{{ ns.a }}",
            "{% raw %}{{ ns }}{% endraw %}{{ message.namespace }}",
            "{{ 'namespace' }} {{ \"}} {% \" }}",
        ] {
            assert_eq!(check(source), Ok(()), "{source}");
        }
    }

    #[test]
    fn deep_or_cyclic_ones_do_not() {
        let long = format!("1{}", "+1".repeat(60_000));
        for (source, word) in [
            (format!("{{{{ {long} }}}}"), "operators"),
            (
                format!("{{# {{{{ ' #}}{{{{ {long} }}}}{{# ' #}}"),
                "operators",
            ),
            (
                format!("{{% raw %}}{{{{ ' {{% endraw %}}{{{{ {long} }}}}"),
                "operators",
            ),
            (
                format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(20_000)),
                "statements",
            ),
            ("{% for a in b %}".repeat(501), "statements"),
            (
                "{% set ns = namespace() %}{% set ns.x = ns %}".to_owned(),
                "namespace",
            ),
            (
                "{% set ns = namespace() %}{% set y = [ns] %}".to_owned(),
                "namespace",
            ),
            (
                "{% set a, b = namespace(), namespace() %}".to_owned(),
                "namespace",
            ),
            ("{{ f(namespace()) }}".to_owned(), "namespace"),
            (
                "{%- set ns = namespace() -%}{{- ns -}}".to_owned(),
                "namespace",
            ),
        ] {
            let error = check(&source).expect_err(&source[..source.len().min(60)]);
            assert!(error.contains(word), "{error}");
        }
    }
}
