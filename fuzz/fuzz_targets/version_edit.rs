//! Version edits. Checks that a decoded edit can be encoded, and that the result decodes to the
//! same edit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::version_edit::VersionEdit;
use tailwater_fuzz::allocation;

fuzz_target!(|bytes: &[u8]| {
    // A new file that is encoded in ten bytes takes about 400 bytes of memory.
    let Ok(edit) = allocation::within(128 * bytes.len(), || VersionEdit::decode(bytes)) else {
        return;
    };
    let mut written = Vec::new();
    if edit.encode(&mut written).is_err() {
        // Edits of old versions of RocksDB may contain a file without an epoch number. Such an edit
        // can be decoded, but not encoded.
        assert!(edit.new_files.iter().any(|file| file.epoch_number == 0) || has_progress(&edit));
        return;
    }
    let again = VersionEdit::decode(&written).expect("an encoded edit can be decoded");
    assert_eq!(comparable(again), comparable(edit));
});

fn has_progress(edit: &VersionEdit) -> bool {
    edit.subcompaction_progress.is_some()
}

/// Returns the edit without the fields that carry no information, which the encoder does not write.
fn comparable(mut edit: VersionEdit) -> VersionEdit {
    edit.wal_deletion = edit.wal_deletion.filter(|&number| number != 0);
    if let Some(progress) = &mut edit.subcompaction_progress {
        for level in [&mut progress.output_level, &mut progress.proximal_level] {
            // The encoder does not write a level without files.
            if level.output_files.is_empty() {
                level.output_records = 0;
            }
        }
    }
    edit
}
