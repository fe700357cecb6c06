//! Verifies an edited database. Checks that the verification terminates, and that the database can
//! be read if the verification finds nothing, or only torn tails of logs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater::LeftOut;
use tailwater::verify::{Severity, verify};
use tailwater_format::record_log::RecoveryMode;
use tailwater_fuzz::database::{Database, MEMORY_MAX, directory, entries, open, options, storage};
use tailwater_fuzz::{Choices, allocation};

fuzz_target!(|input: &[u8]| {
    let (mut choices, edits) = Choices::split(input);
    let flags = choices.byte();
    let database = Database::number(usize::from(flags >> 6));
    let files = database.edited(Choices::new(edits), flags & 1 != 0, |_| true);
    allocation::within(MEMORY_MAX, || {
        let options = options(storage(&files), RecoveryMode::PointInTime);
        let report = verify(directory(), &options);
        // If there are findings other than torn tails, such as damage or unsupported features,
        // opening the database may fail.
        if report.findings.iter().all(|finding| finding.severity == Severity::TornTail) {
            let db = open(&files, RecoveryMode::PointInTime).expect("nothing is damaged");
            let missing = |left_out: &LeftOut| left_out.reason.contains("missing");
            assert!(!db.left_out().iter().any(missing), "{:?}", db.left_out());
            for family in &db.column_families() {
                entries(&db, family).expect("nothing is damaged");
            }
        }
    });
});
