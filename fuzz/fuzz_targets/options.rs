//! Options as values: what a document or an option string sets can be printed and sets the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater::options::{
    ColumnFamilyOptions, DbOptions, Options, UnknownOptions, check_column_family, check_database,
    set_mutable_options, set_options,
};
use tailwater_format::options_text::Document;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(document) = Document::parse(text)
        && let Ok(options) = Options::from_document(&document, UnknownOptions::IgnoreFromNewer)
    {
        check(&options);
    }
    for set in [set_options, set_mutable_options] {
        let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
        if set(&mut database, &mut family, text).is_ok() {
            let column_families = vec![("default".to_owned(), family)];
            check(&Options { database, column_families });
        }
    }
});

fn check(options: &Options) {
    let _ = check_database(&options.database);
    for (_, family) in &options.column_families {
        let _ = check_column_family(family, &options.database);
    }
    let text = options.to_document().to_text();
    let document = Document::parse(&text).expect("what is printed can be read");
    let again = Options::from_document(&document, UnknownOptions::Refuse);
    // Compared as text: some values are floating-point numbers, and one of those is not itself.
    let again = again.expect("what is printed can be set").to_document().to_text();
    assert_eq!(again, text);
}
