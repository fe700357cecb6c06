//! Calls every function of states 3 and 4, from a program in C that this test writes.

use std::fmt::Write as _;
use std::fs;

use crate::library::run;
use crate::signatures::{Function, functions};

/// Returns an argument: null or zero.
fn argument(name: &str, rust: &str) -> &'static str {
    match (name, rust) {
        ("errptr", _) => "&error",
        (_, rust) if rust.starts_with('*') || rust.starts_with("Option<") => "0",
        (_, rust) if rust.ends_with("_cb") => "0",
        _ => "0",
    }
}

/// Returns the call of a function with `first` as its first argument and `second` as its second.
fn call(function: &Function, first: &str, second: &str) -> String {
    let arguments: Vec<&str> = function
        .parameters
        .iter()
        .enumerate()
        .map(|(at, (name, rust))| match at {
            0 if !first.is_empty() => first,
            1 if !second.is_empty() => second,
            _ => argument(name, rust),
        })
        .collect();
    let called = format!("{}({})", function.name, arguments.join(", "));
    match (function.returns.as_str(), function.rule.as_deref()) {
        ("()", _) => format!("{called};"),
        (_, Some(rule)) if rule.starts_with("empty_copy") => format!("rocksdb_free({called});"),
        _ => format!("(void){called};"),
    }
}

/// Returns the call of a function that gets several keys, for two keys.
fn call_with_two_keys(function: &Function) -> String {
    let arguments: Vec<&str> = function
        .parameters
        .iter()
        .map(|(name, _)| match name.as_str() {
            "num_keys" => "2",
            "values_list" | "values" => "(void*)values",
            "errs" => "errors",
            _ => "0",
        })
        .collect();
    format!("{}({});", function.name, arguments.join(", "))
}

/// The object of a function, and a call that uses the object and has an `errptr`.
fn object(function: &Function) -> Option<(&'static str, &'static str)> {
    let (_, rust) = function.parameters.first()?;
    Some(match rust.rsplit(' ').next()? {
        "rocksdb_options_t" => (
            "options",
            "rocksdb_t* d = rocksdb_open(options, \"other\", &error); if (d) rocksdb_close(d);",
        ),
        "rocksdb_readoptions_t" => {
            ("reads", "rocksdb_free(rocksdb_get(db, reads, \"k\", 1, &length, &error));")
        }
        "rocksdb_writeoptions_t" => {
            ("writes", "rocksdb_put(db, writes, \"k\", 1, \"v\", 1, &error);")
        }
        "rocksdb_writebatch_t" => ("batch", "rocksdb_write(db, plain_writes, batch, &error);"),
        "rocksdb_flushoptions_t" => ("flush", "rocksdb_flush(db, flush, &error);"),
        "rocksdb_t" => {
            ("db", "rocksdb_free(rocksdb_get(db, plain_reads, \"k\", 1, &length, &error));")
        }
        _ => return None,
    })
}

/// Returns the statements that test a function.
fn test(function: &Function) -> String {
    let rule = function.rule.as_deref().unwrap_or_default();
    let name = &function.name;
    let plain = call(function, "", "");
    let (begin, end) = ("  { begin();", "end(); }\n");
    let kind = rule.split('(').next().unwrap_or_default();
    let refuses = matches!(kind, "mark" | "mark_if" | "mark_while") || rule.contains("Refuse");
    match (kind, object(function)) {
        ("refuse", _) => format!("{begin} {plain} refused(\"{name}\"); {end}"),
        (_, Some((variable, used))) if refuses => {
            let second = match kind {
                "mark_if" | "mark_while" => "(void*)buffer",
                "store" => "1",
                _ => "",
            };
            let marked = call(function, variable, second);
            format!("{begin} {marked} {used} refused(\"{name}\"); {end}")
        }
        ("note" | "note_if" | "store", Some((variable, used))) => {
            let second = match kind {
                "note_if" => "(void*)buffer",
                "store" => "3",
                _ => "",
            };
            let noted = call(function, variable, second);
            format!("{begin} {noted} {used} accepted(\"{name}\"); {end}")
        }
        ("refuse_each", _) => {
            format!("{begin} {} refused_each(\"{name}\"); {end}", call_with_two_keys(function))
        }
        _ => format!("{begin} {plain} accepted(\"{name}\"); {end}"),
    }
}

#[test]
fn every_function_without_implementation_does_what_its_rule_says() {
    let functions = functions();
    let mut program = String::from("#include \"missing.h\"\n\n");
    let missing = functions.iter().filter(|function| function.rule.is_some());
    let tests: Vec<String> = missing
        .filter(|function| function.name != "rocksdb_writebatch_wi_create_from")
        .map(test)
        .collect();
    for (at, tests) in tests.chunks(100).enumerate() {
        let _ = write!(program, "static void test_{at}(void) {{\n{}}}\n\n", tests.concat());
    }
    program.push_str("int main(void) {\n  set_up();\n");
    for at in 0..tests.chunks(100).len() {
        let _ = writeln!(program, "  test_{at}();");
    }
    program.push_str("  tear_down();\n  return 0;\n}\n");
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("missing.c");
    fs::write(&source, program).expect("the program is written");
    run("missing", &source, directory.path());
}
