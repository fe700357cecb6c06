//! Parses the declarations of functions in the crate's sources: `entry!` blocks, and the lists of
//! `missing!`.

use std::fs;
use std::path::{Path, PathBuf};

/// A function of the interface.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The parameters in C: the name and the type in Rust.
    pub(crate) parameters: Vec<(String, String)>,
    /// The type of the result in Rust; `()` for none.
    pub(crate) returns: String,
    /// The rule of a function without implementation.
    pub(crate) rule: Option<String>,
    /// The path of the source file, below `src`.
    pub(crate) file: String,
}

/// A callback type.
#[derive(Debug, Clone)]
pub(crate) struct Callback {
    pub(crate) name: String,
    pub(crate) signature: String,
}

/// Returns the directory of the crate.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(directory: &Path, found: &mut Vec<(String, String)>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).expect("src").map(|entry| entry.expect("a file").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else {
            let name = path.strip_prefix(root().join("src")).expect("below src");
            let text = fs::read_to_string(&path).expect("a source file");
            found.push((name.display().to_string(), without_comments(&text)));
        }
    }
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).fold(
        String::new(),
        |mut all, line| {
            all.push_str(line);
            all.push('\n');
            all
        },
    )
}

/// Returns all functions, in the order of their names.
pub(crate) fn functions() -> Vec<Function> {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let mut functions = Vec::new();
    for (file, text) in files {
        if file.starts_with("boundary") {
            continue;
        }
        let mut rest = text.as_str();
        let mut before = 0;
        while let Some(at) = rest[before..].find("fn rocksdb_").map(|at| before + at) {
            let rule = file.starts_with("missing").then(|| rule(&rest[..at]));
            let (function, end) = parse(&rest[at + 3..], rule, &file);
            functions.push(function);
            rest = &rest[at + 3 + end..];
            before = 0;
        }
    }
    functions.sort_by(|a, b| a.name.cmp(&b.name));
    functions
}

/// Returns the rule at the end of a text: everything after the last item.
fn rule(text: &str) -> String {
    let from = text.rfind([';', '{']).map_or(0, |at| at + 1);
    text[from..].split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the text up to the bracket that closes `text`'s first one, exclusive, and its end.
fn bracketed(text: &str) -> (&str, usize) {
    let begin = text.find('(').expect("a bracket") + 1;
    let mut depth = 1;
    for (at, byte) in text.bytes().enumerate().skip(begin) {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&text[begin..at], at + 1);
        }
    }
    panic!("no closing bracket in {text}");
}

/// Splits a list at commas outside of brackets.
pub(crate) fn split(list: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut depth = 0;
    for character in list.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        items.last_mut().expect("an item").push(character);
    }
    let words = |item: String| item.split_whitespace().collect::<Vec<_>>().join(" ");
    items.into_iter().map(words).filter(|item| !item.is_empty()).collect()
}

fn parse(text: &str, rule: Option<String>, file: &str) -> (Function, usize) {
    let name = text.split('(').next().expect("a name").trim().to_owned();
    let (list, end) = bracketed(text);
    let after = &text[end..];
    let until = after.find(['{', ';']).expect("a body");
    let returns = after[..until].trim().trim_start_matches("->").trim();
    let returns = if returns.is_empty() { "()" } else { returns }.to_owned();
    let parameters = split(list).iter().flat_map(|item| parameter(item)).collect();
    let file = file.to_owned();
    (Function { name, parameters, returns, rule, file }, end + until)
}

/// Returns the parameters in C of a parameter of `entry!`.
fn parameter(item: &str) -> Vec<(String, String)> {
    let Some((name, kind)) = item.split_once(':') else {
        return vec![(item.to_owned(), "*mut *mut c_char".to_owned())];
    };
    let (name, kind) = (name.trim(), kind.trim());
    if name.starts_with("older_") {
        return Vec::new();
    }
    let one = |kind: String| vec![(name.to_owned(), kind)];
    if let Some(object) = kind.strip_prefix("&mut ") {
        return one(format!("*mut {object}"));
    }
    if let Some(object) = kind.strip_prefix('&') {
        return one(format!("*const {object}"));
    }
    for (prefix, pointer) in [
        ("shared ", "*mut"),
        ("maybe ", "*mut"),
        ("own ", "*mut"),
        ("out ", "*mut"),
        ("maybe_const ", "*const"),
        ("own_const ", "*const"),
    ] {
        if let Some(object) = kind.strip_prefix(prefix) {
            return one(format!("{pointer} {object}"));
        }
    }
    if kind == "text" {
        return one("*const c_char".to_owned());
    }
    let bytes = kind.strip_prefix("bytes[").or_else(|| kind.strip_prefix("option["));
    if let Some(length) = bytes.and_then(|rest| rest.strip_suffix(']')) {
        let mut both = one("*const c_char".to_owned());
        both.push((length.to_owned(), "usize".to_owned()));
        return both;
    }
    one(kind.to_owned())
}

/// Returns the callback types, in the order of their declarations.
pub(crate) fn callbacks() -> Vec<Callback> {
    let path = root().join("src/missing/types.rs");
    let text = without_comments(&fs::read_to_string(path).expect("the types"));
    let mut found = Vec::new();
    for item in text.split(';') {
        let declared = item.split_once("pub(crate) type ");
        if let Some((name, signature)) = declared.and_then(|(_, item)| item.split_once('=')) {
            let signature = signature.split_whitespace().collect::<Vec<_>>().join(" ");
            // The formatter may break the lines of a long signature.
            let signature = signature.replace("< ", "<").replace(", >", ">").replace("( ", "(");
            found.push(Callback { name: name.trim().to_owned(), signature });
        }
    }
    found
}
