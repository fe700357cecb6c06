//! Opens a database whose logs were edited at random, in each recovery mode. If the strictest mode
//! accepts the logs, checks that the mode that tolerates a torn tail recovers the same entries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater::{Db, Error};
use tailwater_format::file_name::FileKind;
use tailwater_format::record_log::RecoveryMode;
use tailwater_fuzz::database::{Database, Entries, MEMORY_MAX, entries, open};
use tailwater_fuzz::{Choices, allocation, walk};
use tailwater_fuzz_seeds::Files;

fuzz_target!(|input: &[u8]| {
    let (mut choices, edits) = Choices::split(input);
    let flags = choices.byte();
    let database = Database::number(usize::from(flags >> 6));
    let is_log = |kind| matches!(kind, FileKind::Wal(_));
    let files = database.edited(Choices::new(edits), flags & 1 != 0, is_log);
    allocation::within(MEMORY_MAX, || check(&files));
});

fn check(files: &Files) {
    let opened = walk::MODES.map(|mode| (mode, open(files, mode)));
    for (_, db) in &opened {
        if let Ok(db) = db {
            check_left_out(db, files);
        }
    }
    let in_mode = |wanted: RecoveryMode| -> Result<Vec<Entries>, Error> {
        let (_, db) =
            opened.iter().find(|(mode, _)| *mode == wanted).expect("every mode was tried");
        let db = db.as_ref().map_err(Error::clone)?;
        db.column_families().iter().map(|family| entries(db, family)).collect()
    };
    // If the strictest mode accepts the logs, the mode that tolerates a torn tail must recover the
    // same entries.
    if let Ok(strict) = in_mode(RecoveryMode::AbsoluteConsistency) {
        let tolerant = in_mode(RecoveryMode::TolerateCorruptedTailRecords);
        assert_eq!(tolerant.expect("the stricter mode opened it"), strict);
    }
}

/// Recovery reports the parts of logs that it has not recovered. Checks that the log of each part
/// exists, and that the part does not begin beyond the end of the log.
fn check_left_out(db: &Db, files: &Files) {
    for left_out in db.left_out() {
        let name = left_out.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let log = name.and_then(|name| files.get(&name)).expect("an existing log");
        assert!(left_out.offset <= log.len() as u64, "{left_out:?}");
    }
}
