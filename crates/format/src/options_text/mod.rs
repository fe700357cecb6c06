//! Options as text: the OPTIONS file, and option strings.
//!
//! This module handles only syntax: names and values are text that the engine interprets. There are
//! two forms:
//!
//! - the OPTIONS file, a [`Document`]: sections of `name=value` lines;
//! - the option string, [`parse_option_string`]: `name=value;name={name=value;...};`, which is also
//!   used as a value in the file.
//!
//! Characters that would be read as syntax are escaped, see [`escape`]. Source:
//! `options/options_parser.cc`, `options/options_helper.cc`, `util/string_util.cc`.

mod document;
mod option_string;

use std::borrow::Cow;
use std::fmt;

pub use document::{Document, Entry, Section, SectionKind, Version};
pub use option_string::{
    Assignment, parse_option_string, split_list, strip_outer_braces, write_option_string,
};

/// The location of an error in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextLocation {
    /// The line with this number, counted from 1.
    Line(u32),
    /// The byte at this offset in the string, counted from 0.
    Byte(usize),
    /// The text as a whole.
    Whole,
}

/// A syntax error in the text of options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// Where the error is.
    pub place: TextLocation,
    /// The problem, with the name of the option if there is one.
    pub reason: Cow<'static, str>,
}

impl TextError {
    #[cold]
    fn new(place: TextLocation, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { place, reason: reason.into() }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            TextLocation::Line(line) => write!(f, "line {line}: {}", self.reason),
            TextLocation::Byte(byte) => write!(f, "at byte {byte}: {}", self.reason),
            TextLocation::Whole => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for TextError {}

/// Puts a backslash before each `\`, `#` and `:`, and writes line ends as `\n` and `\r`.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\\' | '#' | ':' => escaped.extend(['\\', character]),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Removes the backslashes of [`escape`]. A single backslash at the end is dropped.
pub fn unescape(text: &str) -> String {
    let mut unescaped = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, false) => unescaped.push(character),
            (_, true) => match characters.next() {
                Some('n') => unescaped.push('\n'),
                Some('r') => unescaped.push('\r'),
                Some(other) => unescaped.push(other),
                None => {}
            },
        }
    }
    unescaped
}

/// Trims white space at both ends, as defined by the C library: it includes the vertical tab.
fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}
