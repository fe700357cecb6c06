//! Options. Sets options from a document or an option string, and prints them. Checks that the
//! printed text sets the same values.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tailwater::for_tests::{change_column_family, change_database, check_column_family, check_database};
use tailwater::options::{ColumnFamilyOptions, DbOptions, Options, UnknownOptions, set_from_string};
use tailwater_format::options_text::Document;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(document) = Document::parse(text)
        && let Ok(options) = Options::from_document(&document, UnknownOptions::IgnoreFromNewer)
    {
        check(&options);
    }
    let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
    if set_from_string(&mut database, &mut family, text).is_ok() {
        check(&Options { database, column_families: vec![("default".to_owned(), family)] });
    }
    change(text);
});

/// Changes options in the same way as in an open database. Each line of `text` is a change in the
/// form `name=value`.
fn change(text: &str) {
    let changes: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
    if let Ok(changed) = change_database(&database, Path::new("/db"), &changes) {
        database = changed;
    }
    if let Ok(changed) = change_column_family(&family, &database, &changes) {
        family = changed;
    }
    check(&Options { database, column_families: vec![("default".to_owned(), family)] });
}

fn check(options: &Options) {
    let _ = check_database(&options.database);
    for (_, family) in &options.column_families {
        let _ = check_column_family(family, &options.database);
    }
    let text = options.to_document().to_text();
    let document = Document::parse(&text).expect("printed text can be parsed");
    let again = Options::from_document(&document, UnknownOptions::Refuse);
    // The options are compared as text, because a value may be NaN, which is not equal to itself.
    let again = again.expect("printed options can be set").to_document().to_text();
    assert_eq!(again, text);
}
