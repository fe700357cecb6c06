//! OPTIONS files. Checks that a parsed document can be written as text, and that the result parses
//! to the same document.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::options_text::{Document, escape, unescape};
use tailwater_fuzz::allocation;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    assert_eq!(unescape(&escape(text)), text);
    // An entry of only two bytes of text takes 80 bytes of memory.
    let Ok(document) = allocation::within(128 * text.len(), || Document::parse(text)) else {
        return;
    };
    assert!(document.database().is_some());
    for name in document.column_families() {
        assert!(document.column_family(name).is_some());
        let _ = document.table(name);
    }
    let written = document.to_text();
    let again = Document::parse(&written).expect("written text can be parsed");
    assert_eq!(without_lines(again), without_lines(document));
});

/// Returns the document with all line numbers set to 0. They are not preserved, because the layout
/// of the text changes.
fn without_lines(mut document: Document) -> Document {
    for section in &mut document.sections {
        section.line = 0;
        section.entries.iter_mut().for_each(|entry| entry.line = 0);
    }
    document
}
