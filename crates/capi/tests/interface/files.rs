//! Generated files that are checked in.

use std::fs;

use crate::signatures::root;

/// Checks that a file of the crate has this text. With `TAILWATER_REWRITE=1`, writes it instead.
pub(crate) fn check(path: &str, text: &str) {
    let full = root().join(path);
    if std::env::var_os("TAILWATER_REWRITE").is_some() {
        fs::create_dir_all(full.parent().expect("a directory")).expect("a directory");
        fs::write(&full, text).expect("the file is written");
        return;
    }
    let found = fs::read_to_string(&full).unwrap_or_default();
    assert!(
        found == text,
        "{path} is outdated: run it again with TAILWATER_REWRITE=1 and look at the difference"
    );
}
