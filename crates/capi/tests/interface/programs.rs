//! Programs in C.

use crate::library::{run, run_unlinked};
use crate::signatures::root;

fn program(name: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let source = root().join(format!("tests/interface/c/{name}.c"));
    run(name, &source, directory.path());
}

#[test]
fn basics() {
    program("basics");
}

#[test]
fn families() {
    program("families");
}

#[test]
fn callbacks() {
    program("callbacks");
}

#[test]
fn objects() {
    program("objects");
}

#[test]
fn background() {
    program("background");
}

#[test]
fn batches() {
    program("batches");
}

#[test]
fn options() {
    program("options");
}

#[test]
fn write_buffer_manager() {
    program("write_buffer_manager");
}

#[test]
fn errors() {
    program("errors");
}

#[test]
fn files() {
    program("files");
}

#[test]
fn caches() {
    program("caches");
}

#[test]
fn env() {
    program("env");
}

#[test]
fn sharing() {
    program("sharing");
}

#[test]
fn lifetimes() {
    program("lifetimes");
}

#[test]
fn unloading() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = root().join("tests/interface/c/unloading.c");
    run_unlinked("unloading", &source, directory.path());
}

/// Only debug builds know which objects exist.
#[cfg(debug_assertions)]
#[test]
fn misuse() {
    program("misuse");
}
