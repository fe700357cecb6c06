//! Verification of databases with a block beyond the end of its file, and with unreferenced files.

use tailwater::verify::Severity;
use tailwater_format::table::BlockHandle;

use crate::database::{Database, first_edit};
use crate::table::table;

#[test]
fn a_meta_block_beyond_the_end_of_its_file_is_reported() {
    // Regression test: if the recorded offset of a block was far beyond the end of the file,
    // verification tried to allocate a buffer up to that offset, and the process aborted.
    let far = BlockHandle { offset: 1 << 60, size: 10 };
    let file = table(&[(&[("a", 1, "v")], "b")], &[("far.away", far)]);
    let report = Database::new().with("000007.sst", &file).verify();
    let leaves = |message: &str| message.contains("extends beyond the end of the file");
    let found = report.findings.iter().any(|finding| {
        finding.severity == Severity::Damage
            && finding.path.ends_with("000007.sst")
            && leaves(&finding.message)
    });
    assert!(found, "{:?}", report.findings);
}

#[test]
fn unreferenced_files_are_reported_in_every_directory() {
    let stray = table(&[(&[("a", 1, "v")], "b")], &[]);
    let mut edit = first_edit();
    edit.log_number = Some(5);
    let database = Database::new()
        .with_manifest(&[edit])
        .with("000007.sst", &stray)
        .with("tables/000008.sst", &stray)
        .with("logs/000003.log", &[]);
    let report = database.verify_with("db_paths=/db/tables,1G;wal_dir=/db/logs");
    let mut left_over: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.message.starts_with("left over"))
        .map(|finding| finding.path.to_string_lossy().into_owned())
        .collect();
    left_over.sort();
    assert_eq!(left_over, ["/db/000007.sst", "/db/logs/000003.log", "/db/tables/000008.sst"]);
}
