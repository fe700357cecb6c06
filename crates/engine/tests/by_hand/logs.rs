//! Write-ahead logs that end too early, or are not needed any longer.

use tailwater::ErrorKind;
use tailwater::ReadOptions;
use tailwater::verify::Severity;
use tailwater_format::version_edit::VersionEdit;

use crate::database::{Database, first_edit, log, new_file};
use crate::table::{internal_key, table};

/// A database with two column families: the default one, whose logs are needed from number 5 on,
/// and another, whose table holds everything up to log 6.
fn two_families() -> Database {
    let file = table(&[(&[("a", 4, "v")], "b")], &[]);
    let mut first = first_edit();
    first.log_number = Some(5);
    let other = VersionEdit {
        column_family: 1,
        column_family_add: Some("other".to_owned()),
        comparator: first.comparator.clone(),
        log_number: Some(6),
        max_column_family: Some(1),
        new_files: vec![new_file(7, &file, internal_key("a", 4), internal_key("a", 4))],
        ..VersionEdit::default()
    };
    Database::new().with_manifest(&[first, other]).with("000007.sst", &file)
}

#[test]
fn a_torn_log_before_what_tables_hold_is_damage() {
    // Verification took the end of a log for a torn tail although a column family's tables held
    // later writes, so that the database, in which only that was found, did not open.
    let whole = log(5, &[(1, "k1"), (2, "k2")]);
    let database = two_families().with("000005.log", &whole[..whole.len() - 3]);
    let error = database.open().expect_err("later writes would show without earlier ones");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let report = database.verify();
    let named = |path: &std::path::Path| path.ends_with("000005.log");
    let damage = report
        .findings
        .iter()
        .find(|finding| finding.severity == Severity::Damage && named(&finding.path));
    let message = &damage.expect("the log is damaged").message;
    assert!(message.contains("column family 'other' hold later writes"), "{message}");
}

#[test]
fn a_torn_last_log_is_a_torn_tail() {
    let whole = log(6, &[(5, "k1"), (6, "k2")]);
    let database = two_families().with("000006.log", &whole[..whole.len() - 3]);
    database.open().expect("a crash leaves such a log");
    let of_log = |report: tailwater::verify::Report| {
        let findings = report.findings.into_iter();
        findings.filter(|finding| finding.path.ends_with("000006.log")).collect::<Vec<_>>()
    };
    let findings = of_log(database.verify());
    assert!(matches!(&findings[..], [one] if one.severity == Severity::TornTail), "{findings:?}");
}

#[test]
fn logs_that_no_column_family_needs_are_not_read() {
    // A log that the MANIFEST says is not kept any longer was replayed for column families whose
    // own log number had not been moved on, and damage in it kept the database closed. RocksDB
    // passes such logs by.
    let mut edit = first_edit();
    edit.min_log_number_to_keep = Some(6);
    let mut obsolete = log(5, &[(1, "old")]);
    obsolete[10] ^= 1;
    let database = Database::new()
        .with_manifest(&[edit])
        .with("000005.log", &obsolete)
        .with("000006.log", &log(6, &[(101, "new")]));
    let db = database.open().expect("the log that is needed is whole");
    assert!(db.left_out().is_empty(), "{:?}", db.left_out());
    let family = &db.column_families()[0];
    let get = |key: &str| db.get(family, key.as_bytes(), &ReadOptions::default());
    assert_eq!(get("new").expect("it is in memory"), Some(b"value".to_vec()));
    assert_eq!(get("old").expect("it is in memory"), None);
}
