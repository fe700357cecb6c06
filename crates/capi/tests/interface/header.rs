//! The header `include/rocksdb/c.h`: it is generated from the signatures, and agrees with the
//! header of RocksDB 11.8.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use tailwater_testkit::filesystem::say;

use crate::signatures::{Function, callbacks, functions, root, split};

/// Returns the type in C, in which `name` is declared, which may be empty.
fn c_type(rust: &str, name: &str) -> String {
    let rust = rust.trim();
    if let Some(function) = rust.strip_prefix("Option<unsafe extern \"C-unwind\" fn(") {
        let function = function.strip_suffix('>').expect("an option");
        let end = closing(function);
        let parameters: Vec<String> =
            split(&function[..end]).iter().map(|item| declared(item)).collect();
        let returns = function[end + 1..].trim().trim_start_matches("->").trim();
        let returns = c_type(if returns.is_empty() { "()" } else { returns }, "");
        return format!("{returns} (*{name})({})", or_void(&parameters.join(", ")));
    }
    let plain = plain_type(rust);
    if name.is_empty() { plain } else { format!("{plain} {name}") }
}

/// Returns the position of the bracket that closes the list that `text` begins with.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    panic!("no closing bracket in {text}");
}

/// Returns the declaration in C of a parameter of a function pointer, with or without a name.
fn declared(item: &str) -> String {
    match item.split_once(": ") {
        Some((name, rust)) => c_type(rust, name),
        None => c_type(item, ""),
    }
}

fn plain_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(to) = rust.strip_prefix("*mut ") {
        return format!("{}*", plain_type(to));
    }
    if let Some(to) = rust.strip_prefix("*const ") {
        return match to.starts_with('*') {
            true => format!("{} const*", plain_type(to)),
            false => format!("const {}*", plain_type(to)),
        };
    }
    match rust {
        "()" | "c_void" | "std::ffi::c_void" => "void",
        "c_char" | "std::ffi::c_char" => "char",
        "c_uchar" => "unsigned char",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_ulonglong" => "unsigned long long",
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "i32" => "int32_t",
        "i64" => "int64_t",
        "usize" => "size_t",
        "f64" => "double",
        "f32" => "float",
        other => other,
    }
    .to_owned()
}

fn or_void(parameters: &str) -> &str {
    if parameters.is_empty() { "void" } else { parameters }
}

fn prototype(function: &Function) -> String {
    let parameters: Vec<String> =
        function.parameters.iter().map(|(name, rust)| c_type(rust, name)).collect();
    let returns = plain_type(&function.returns);
    format!("{returns} {}({})", function.name, or_void(&parameters.join(", ")))
}

/// Returns the constants: enumerations of names and values.
fn constants() -> Vec<Vec<(String, i64)>> {
    let text = fs::read_to_string(root().join("constants.tsv")).expect("the constants");
    let mut all = vec![Vec::new()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split_once('\t') {
            None => all.push(Vec::new()),
            Some((name, value)) => {
                let value = value.parse().expect("a number");
                all.last_mut().expect("an enumeration").push((name.to_owned(), value));
            }
        }
    }
    all
}

/// Whether a function is in the header. Functions of earlier versions are not.
fn is_declared(function: &Function) -> bool {
    function.file != "older.rs" && function.name != "rocksdb_writebatch_wi_create_from"
}

fn header() -> String {
    let functions: Vec<Function> = functions().into_iter().filter(is_declared).collect();
    let mut objects = BTreeSet::new();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let texts = functions.iter().map(prototype);
    for text in texts.chain(callbacks().into_iter().map(|callback| callback.signature)) {
        let words = text.split(|c| !is_of_name(c));
        let names = words.filter(|word| word.starts_with("rocksdb_") && word.ends_with("_t"));
        objects.extend(names.map(str::to_owned));
    }
    // Objects that no function has.
    for name in ["filelock", "livefile", "randomfile", "seqfile", "writablefile"] {
        objects.insert(format!("rocksdb_{name}_t"));
    }
    objects.remove("rocksdb_slice_t");
    let mut text = String::from(
        "/* The C interface of RocksDB over Tailwater. Generated from the signatures in \
         crates/capi/src:\n   TAILWATER_REWRITE=1 cargo test -p tailwater-capi header */\n\n\
         #pragma once\n\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n\
         #ifndef ROCKSDB_LIBRARY_API\n#define ROCKSDB_LIBRARY_API\n#endif\n\n\
         #ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
    );
    for object in objects {
        let _ = writeln!(text, "typedef struct {object} {object};");
    }
    text.push_str("typedef struct rocksdb_slice_t {\n  const char* data;\n  size_t size;\n} rocksdb_slice_t;\n\n");
    for callback in callbacks() {
        let _ = writeln!(text, "typedef {};", c_type(&callback.signature, &callback.name));
    }
    for constants in constants() {
        text.push_str("\nenum {\n");
        for (name, value) in constants {
            let _ = writeln!(text, "  {name} = {value},");
        }
        text.push_str("};\n");
    }
    text.push('\n');
    for function in &functions {
        let _ = writeln!(text, "extern ROCKSDB_LIBRARY_API {};", prototype(function));
    }
    text.push_str("\n#ifdef __cplusplus\n}\n#endif\n");
    text
}

#[test]
fn the_header_is_up_to_date() {
    crate::files::check("include/rocksdb/c.h", &header());
}

/// Returns the header of RocksDB 11.8, without comments and directives; `None` if the crate that
/// contains it was not fetched.
fn original() -> Option<String> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")))?;
    for registry in fs::read_dir(home.join("registry/src")).ok()? {
        let krate = registry.ok()?.path().join("librocksdb-sys-0.19.0+11.8.1");
        if let Ok(text) = fs::read_to_string(krate.join("rocksdb/include/rocksdb/c.h")) {
            return Some(without_comments(&text));
        }
    }
    None
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        kept.push_str(&rest[..at]);
        rest = rest[at..].split_once("*/").map_or("", |(_, rest)| rest);
    }
    kept.push_str(rest);
    let lines = kept.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n")
}

/// Returns a declaration in a form that does not depend on the names of parameters.
fn normalized(declaration: &str) -> String {
    let spaced = declaration.replace('*', " * ").replace('(', " ( ").replace(')', " ) ");
    let text = spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(open) = text.find('(') else { return type_only(&text) };
    let (head, list) = text.split_at(open);
    let close = list.rfind(')').expect("a bracket");
    let parameters: Vec<String> =
        split(&list[1..close]).iter().map(|item| parameter_type(item)).collect();
    let parameters = parameters.join(",");
    let parameters = if parameters == "void" { String::new() } else { parameters };
    format!("{}({parameters})", head.trim())
}

/// Returns the type of a parameter in C, without its name.
fn parameter_type(item: &str) -> String {
    let Some(at) = item.find("( *") else { return type_only(item) };
    // A function pointer: `returns ( * name ) ( parameters )`.
    let returns = type_only(&item[..at]);
    let rest = item[at..].split_once(')').expect("a bracket").1.trim();
    let list = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).expect("a list");
    let parameters: Vec<String> = split(list).iter().map(|item| parameter_type(item)).collect();
    format!("{returns}(*)({})", parameters.join(","))
}

/// Returns a type without the name that it may end with.
fn type_only(text: &str) -> String {
    const WORDS: [&str; 10] =
        ["const", "char", "unsigned", "int", "void", "double", "bool", "long", "float", "struct"];
    let is_array = text.trim_end().ends_with("[]");
    let text = text.replace("[]", "");
    let mut words: Vec<&str> = text.split_whitespace().filter(|word| *word != "struct").collect();
    let is_type =
        |word: &str| WORDS.contains(&word) || word.ends_with("_t") || word.ends_with("_cb");
    if words.len() > 1 && words.last().is_some_and(|word| *word != "*" && !is_type(word)) {
        words.pop();
    }
    // A const parameter is the same type.
    while !is_array && words.last() == Some(&"const") {
        words.pop();
    }
    if !words.contains(&"*") && !is_array {
        words.retain(|word| *word != "const");
    }
    if is_array {
        words.push("*");
    }
    if words == ["unsigned"] {
        words.push("int");
    }
    words.join(" ").replace("uint8_t", "unsigned char")
}

/// Returns the prototypes of a header by the names of functions, in their normalized form.
fn prototypes(header: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for part in header.split("extern ROCKSDB_LIBRARY_API ").skip(1) {
        let declaration = part.split(';').next().unwrap_or_default();
        let declaration = declaration.split_whitespace().collect::<Vec<_>>().join(" ");
        let before = declaration.split('(').next().unwrap_or_default();
        let name = before.rsplit([' ', '*']).next().unwrap_or_default().to_owned();
        found.insert(name, normalized(&declaration));
    }
    found
}

/// Returns the constants of a header, by name.
fn enumerated(header: &str) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for part in header.split("enum {").skip(1) {
        let mut next = 0;
        for item in part.split('}').next().unwrap_or_default().split(',') {
            let Some((name, value)) = (match item.split_once('=') {
                Some((name, value)) => Some((name.trim(), number(value.trim(), &found))),
                None if item.trim().is_empty() => None,
                None => Some((item.trim(), next)),
            }) else {
                continue;
            };
            next = value + 1;
            found.insert(name.to_owned(), value);
        }
    }
    found
}

fn number(text: &str, known: &BTreeMap<String, i64>) -> i64 {
    if let Some((number_, shift)) = text.split_once("<<") {
        return number(number_.trim(), known) << number(shift.trim(), known);
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).expect("a number");
    }
    text.parse().ok().or_else(|| known.get(text).copied()).expect("a number")
}

/// Names of 11.9 that 11.8 does not have.
const LATER: [&str; 4] = [
    "rocksdb_batched_multi_get_pinned_cf",
    "rocksdb_pinnable_multi_get_count",
    "rocksdb_pinnable_multi_get_destroy",
    "rocksdb_pinnable_multi_get_result",
];

#[test]
fn every_declaration_agrees_with_rocksdb() {
    let Some(original) = original() else {
        let missing = "the crate librocksdb-sys 0.19.0+11.8.1 was not fetched";
        return say(&format!("LEFT OUT: the comparison with RocksDB's header: {missing}"));
    };
    let own = without_comments(&header());
    let (theirs, ours) = (prototypes(&original), prototypes(&own));
    let mut wrong = Vec::new();
    for (name, prototype) in &theirs {
        match ours.get(name) {
            None => wrong.push(format!("missing: {prototype}")),
            Some(own) if own != prototype => {
                wrong.push(format!("theirs {prototype}\n  ours {own}"));
            }
            Some(_) => {}
        }
    }
    for name in ours.keys().filter(|name| !theirs.contains_key(*name)) {
        if !LATER.contains(&name.as_str()) {
            wrong.push(format!("too many: {name}"));
        }
    }
    let later = |name: &String| name.starts_with("rocksdb_pinnable_multi_get_");
    let mut constants = enumerated(&own);
    constants.retain(|name, _| !later(name));
    let theirs = enumerated(&original);
    for (name, value) in &theirs {
        if constants.get(name) != Some(value) {
            wrong.push(format!("constant {name} is {value}, not {:?}", constants.get(name)));
        }
    }
    assert_eq!(constants.len(), theirs.len(), "the number of constants");
    let typedefs = |header: &str| {
        let words = header.split("typedef struct ").skip(1);
        words.map(|part| part.split([' ', '\n']).next().unwrap_or_default().to_owned()).collect()
    };
    let (theirs, ours): (BTreeSet<String>, BTreeSet<String>) =
        (typedefs(&original), typedefs(&own));
    for name in theirs.difference(&ours) {
        wrong.push(format!("no type {name}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
