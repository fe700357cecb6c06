//! The dynamic symbols of the library.

use std::collections::BTreeSet;
use std::process::Command;
use tailwater_testkit::filesystem::say;

use crate::library::library;
use crate::signatures::functions;

/// Runs a tool of the binutils on the library; `None` if it is not installed.
fn tool(name: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(name).args(arguments).arg(library()).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_library_exports_the_interface_and_nothing_else() {
    let Some(symbols) = tool("nm", &["-D", "--defined-only"]) else {
        return say("LEFT OUT: exported symbols: nm is not installed");
    };
    let exported: BTreeSet<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let functions = functions();
    let declared: BTreeSet<&str> = functions.iter().map(|function| &*function.name).collect();
    assert_eq!(declared.len(), functions.len(), "a function is declared twice");
    let missing: Vec<_> = declared.difference(&exported).collect();
    let more: Vec<_> = exported.difference(&declared).collect();
    assert!(missing.is_empty() && more.is_empty(), "not exported {missing:?}, too many {more:?}");
}

#[test]
fn the_library_has_the_name_of_rocksdbs() {
    let Some(dynamic) = tool("readelf", &["-d"]) else {
        return say("LEFT OUT: the library's name: readelf is not installed");
    };
    assert!(dynamic.contains("[librocksdb.so.11]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}
