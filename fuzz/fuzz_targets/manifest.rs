//! Opens a database whose MANIFEST consists of complete records with arbitrary version edits.
//! Checks that it is either refused, or can be read without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::file_name::{FileKind, parse_current};
use tailwater_format::record_log::{RecoveryMode, Writer};
use tailwater_format::varint::Reader;
use tailwater_fuzz::allocation;
use tailwater_fuzz::database::{Database, MEMORY_MAX, open, read_everything};

fuzz_target!(|edits: &[u8]| {
    let mut files = Database::number(0).files().clone();
    let number = parse_current(&files["CURRENT"]).expect("RocksDB wrote it");
    let mut manifest = Vec::new();
    let mut writer = Writer::new(number, false);
    let mut reader = Reader::new(edits);
    while let Ok(edit) = reader.length_prefixed("edit") {
        writer.add_record(edit, &mut manifest).expect("an uncompressed log");
    }
    files.insert(FileKind::Manifest(number).to_string(), manifest);
    allocation::within(MEMORY_MAX, || {
        if let Ok(db) = open(&files, RecoveryMode::PointInTime) {
            read_everything(&db);
        }
    });
});
