//! Parses docs/format.md: finds its worked examples and its quotations from files.

use std::collections::BTreeMap;

/// A worked example in the document.
#[derive(Debug, Default)]
pub(crate) struct Example {
    pub(crate) name: String,
    /// Path of the file that contains the example's bytes, relative to `tests/golden`.
    pub(crate) file: String,
    pub(crate) offset: usize,
    /// If the example is a block trailer, the offset of its block in the file.
    pub(crate) block: Option<usize>,
    /// All bytes of the example.
    pub(crate) bytes: Vec<u8>,
    pub(crate) fields: Vec<Field>,
    /// The result of decoding the example, as the document states it.
    pub(crate) says: Vec<String>,
}

/// A line of an example.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) bytes: Vec<u8>,
    pub(crate) name: String,
    /// The type of the field, see [`super::fields::meaning`].
    pub(crate) kind: String,
    pub(crate) value: String,
}

impl Example {
    /// Returns the bytes of the file that contains the example.
    pub(crate) fn whole_file(&self) -> Vec<u8> {
        golden(&self.file)
    }
}

/// Returns the text of docs/format.md.
pub(crate) fn document() -> &'static str {
    include_str!("../../../../docs/format.md")
}

/// Returns the bytes of a file. `file` is its path relative to `tests/golden`.
#[expect(clippy::disallowed_methods, reason = "a test reads its golden files")]
pub(crate) fn golden(file: &str) -> Vec<u8> {
    let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the fenced blocks of the document: the info string and the lines of each.
fn fenced_blocks() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in document().lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((info, Vec::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// Returns the `name=value` words of an info string.
fn attributes(words: &str) -> BTreeMap<&str, &str> {
    words
        .split_whitespace()
        .map(|word| word.split_once('=').unwrap_or_else(|| panic!("{word} has no value")))
        .collect()
}

/// Returns the worked examples of the document, in order.
pub(crate) fn examples() -> Vec<Example> {
    let examples: Vec<Example> = fenced_blocks()
        .into_iter()
        .filter_map(|(info, lines)| Some((info.strip_prefix("hex ")?, lines)))
        .map(|(info, lines)| example(&attributes(info), &lines))
        .collect();
    assert!(!examples.is_empty());
    examples
}

/// Returns the passages that the document quotes from text files: the file and the text of each.
pub(crate) fn quotations() -> Vec<(String, String)> {
    fenced_blocks()
        .into_iter()
        .filter_map(|(info, lines)| Some((info.strip_prefix("text ")?, lines)))
        .map(|(info, lines)| (attributes(info)["file"].to_string(), lines.join("\n")))
        .collect()
}

fn example(attributes: &BTreeMap<&str, &str>, lines: &[&str]) -> Example {
    let mut example = Example {
        name: attributes["name"].to_string(),
        file: attributes["file"].to_string(),
        offset: attributes["offset"].parse().unwrap(),
        block: attributes.get("block").map(|offset| offset.parse().unwrap()),
        ..Example::default()
    };
    for line in lines {
        if let Some(said) = line.strip_prefix("= ") {
            example.says.push(said.to_string());
            continue;
        }
        let columns: Vec<&str> =
            line.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
        match columns[..] {
            [digits] => {
                let bytes = unhex(digits);
                example.bytes.extend_from_slice(&bytes);
                example.fields.last_mut().unwrap().bytes.extend_from_slice(&bytes);
            }
            [digits, name, kind, value] => {
                let bytes = unhex(digits);
                example.bytes.extend_from_slice(&bytes);
                let (name, kind, value) = (name.to_string(), kind.to_string(), value.to_string());
                example.fields.push(Field { bytes, name, kind, value });
            }
            _ => panic!("{}: a line does not have four columns: {line}", example.name),
        }
    }
    example
}

fn unhex(digits: &str) -> Vec<u8> {
    digits.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}
