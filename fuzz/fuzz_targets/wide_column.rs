//! Wide-column entities. Checks that all functions that read an entity agree, and that a decoded
//! entity can be encoded and decodes to the same columns.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::wide_column::{
    DEFAULT_COLUMN, decode, default_column, encode, has_blob_columns,
};
use tailwater_fuzz::allocation;

fuzz_target!(|entity: &[u8]| {
    // A column takes 40 bytes of memory, and may be encoded in only four bytes: a factor of 10. The
    // limit is higher, because decoding also needs memory for intermediate results.
    let Ok(columns) = allocation::within(64 * entity.len(), || decode(entity)) else {
        let _ = (default_column(entity), has_blob_columns(entity));
        return;
    };
    let first = columns.first().filter(|column| column.name == DEFAULT_COLUMN);
    assert_eq!(default_column(entity), Ok(first.copied()));
    let any_blob = columns.iter().any(|column| column.is_blob_index);
    assert_eq!(has_blob_columns(entity), Ok(any_blob));
    let mut written = Vec::new();
    assert_eq!(encode(&columns, &mut written), Ok(()));
    assert_eq!(decode(&written), Ok(columns));
});
