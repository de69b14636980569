//! `--show-drafts`: an answer coloured by where its tokens came from.

use std::io::IsTerminal;

use foretoken_engine::TokenProvenance;
use foretoken_engine::response::Piece;

use crate::args::Colour;

const RESET: &str = "\x1b[0m";

/// Colours text.
#[derive(Debug)]
pub struct Painter;

impl Painter {
    /// One that colours, if that was asked for and stdout shows colours.
    pub fn new(when: Option<Colour>) -> Option<Self> {
        let coloured = match when? {
            Colour::Always => true,
            Colour::Auto => std::io::stdout().is_terminal(),
        };
        coloured.then_some(Self)
    }

    /// What the colours mean, in one line.
    pub fn legend(&self) -> String {
        let entry = |from, words: &str| format!("{}{words}{RESET}", colour(from));
        format!(
            "{} · {} · {} · {}",
            entry(TokenProvenance::Plain, "not drafted"),
            entry(TokenProvenance::Draft, "draft accepted"),
            entry(TokenProvenance::Recovered, "in place of a wrong draft"),
            entry(TokenProvenance::Bonus, "after all drafts of a step"),
        )
    }

    /// A piece with each token's text in its colour. Text that came late, because it could have become a stop string or
    /// was half a character, has the colour of the token it came with.
    pub fn paint(&self, piece: &Piece) -> String {
        let mut painted = String::new();
        let mut start = 0;
        for (end, from) in piece.text_ends.iter().zip(&piece.provenance) {
            if let Some(text) = piece.text.get(start..*end).filter(|text| !text.is_empty()) {
                painted += &format!("{}{text}{RESET}", colour(*from));
            }
            start = *end;
        }
        painted += piece.text.get(start..).unwrap_or_default();
        painted
    }
}

fn colour(from: TokenProvenance) -> &'static str {
    match from {
        TokenProvenance::Prefill | TokenProvenance::Plain => "\x1b[39m",
        TokenProvenance::Draft => "\x1b[32m",
        TokenProvenance::Recovered => "\x1b[33m",
        TokenProvenance::Bonus => "\x1b[36m",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_has_its_colour_and_no_text_is_lost() {
        let piece = Piece {
            text: "one two!".to_owned(),
            text_ends: vec![3, 3, 7],
            provenance: vec![
                TokenProvenance::Draft,
                TokenProvenance::Draft,
                TokenProvenance::Bonus,
            ],
            ..Piece::default()
        };
        assert_eq!(
            Painter.paint(&piece),
            "\x1b[32mone\x1b[0m\x1b[36m two\x1b[0m!"
        );
        assert!(Painter.legend().contains("\x1b[33min place"));
    }
}
