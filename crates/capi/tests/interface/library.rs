//! The library under test, and programs in C that are linked with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::signatures::root;

/// Returns the path of the shared library that Cargo built for this test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test's path");
    let directory = test.parent().expect("a directory");
    let found = [directory, directory.parent().expect("a directory")]
        .map(|directory| directory.join("libtailwater_capi.so"))
        .into_iter()
        .find(|path| path.exists());
    found.expect("Cargo builds the shared library with the crate")
}

/// Compiles a program in C, links it with the library, and runs it in `directory`. Fails if the
/// program does.
pub(crate) fn run(name: &str, source: &Path, directory: &Path) {
    run_linked(name, source, directory, "-lrocksdb");
}

/// Like [`run`], but the program is not linked with the library. The macro `LIBRARY` is its path.
pub(crate) fn run_unlinked(name: &str, source: &Path, directory: &Path) {
    run_linked(name, source, directory, "-ldl");
}

fn run_linked(name: &str, source: &Path, directory: &Path, linked: &str) {
    let program = directory.join(name);
    let libraries = directory.join("lib");
    fs::create_dir_all(&libraries).expect("a directory");
    for alias in ["librocksdb.so", "librocksdb.so.11"] {
        let alias = libraries.join(alias);
        if !alias.exists() {
            std::os::unix::fs::symlink(library(), alias).expect("a symbolic link");
        }
    }
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    // A sanitizer's flags for the C compiler.
    let flags = std::env::var("TAILWATER_C_FLAGS").unwrap_or_default();
    let compiled = Command::new(compiler)
        .args(["-std=c11", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .arg("-I")
        .arg(root().join("include"))
        .arg("-I")
        .arg(root().join("tests/interface/c"))
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&libraries)
        .arg(linked)
        .arg(format!("-DLIBRARY=\"{}/librocksdb.so.11\"", libraries.display()))
        .arg(format!("-Wl,-z,now,-rpath,{}", libraries.display()))
        .args(flags.split_whitespace())
        .arg("-lpthread")
        .output()
        .expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).current_dir(directory).output().expect("the program");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{name}: {}\n{out}\n{err}", ran.status);
}
