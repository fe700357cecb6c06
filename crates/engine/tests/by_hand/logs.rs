//! Write-ahead logs that end prematurely, and obsolete logs.

use tailwater::ErrorKind;
use tailwater::ReadOptions;
use tailwater::verify::{Finding, Severity};
use tailwater_format::batch::{HEADER_LENGTH, WriteBatch};
use tailwater_format::blob::{BlobIndex, BlobLocation};
use tailwater_format::compress::Compression;
use tailwater_format::key::MAX_SEQUENCE;
use tailwater_format::record_log::{PredecessorWal, Writer};
use tailwater_format::version_edit::{VersionEdit, WalAddition};

use crate::database::{Database, first_edit, log, log_by, new_file};
use crate::table::{internal_key, table};

/// Returns a database with two column families. The default family needs log 5 and later logs. The
/// table of the other family holds all of that family's writes in logs before log 6.
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
fn a_log_torn_before_writes_that_tables_contain_is_damage() {
    // Regression test: verification took the premature end of a log for an incomplete last record,
    // although a column family's tables held later writes. The database failed to open, but
    // verification had found no damage.
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
fn exhausted_sequence_numbers_refuse_only_writes() {
    // Regression test: after all sequence numbers had been used, writes failed with an I/O error
    // instead of `LimitReached`.
    let mut edit = first_edit();
    edit.last_sequence = Some(MAX_SEQUENCE - 2);
    let db = Database::new().with_manifest(&[edit]).open_for_writing().expect("a database");
    db.put("last", "1").expect("a number is left");
    for _ in 0..2 {
        let error = db.put("another", "1").expect_err("no number is left");
        assert_eq!(error.kind(), ErrorKind::LimitReached, "{error}");
    }
    assert!(db.background_error().is_none());
    db.flush().expect("a flush needs no number");
    assert!(db.get("last").expect("a get").is_some());
    db.close().expect("nothing failed");
}

#[test]
fn the_truncated_last_log_is_a_torn_tail() {
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
    // Regression test: a log that is no longer needed according to the MANIFEST was replayed for
    // column families whose own log number had not advanced. Damage in the log then prevented
    // opening the database. RocksDB skips such logs.
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
    let get = |key: &str| db.get_cf_opt(family, key.as_bytes(), &ReadOptions::default());
    assert_eq!(get("new").expect("it is in memory"), Some(b"value".to_vec()));
    assert_eq!(get("old").expect("it is in memory"), None);
}

#[test]
fn an_empty_batch_at_sequence_zero_opens() {
    // Regression test: for an empty batch at sequence number 0, the last sequence number was
    // computed as 0 - 1.
    let mut bytes = Vec::new();
    let mut batch = WriteBatch::new();
    batch.set_sequence(0);
    Writer::new(5, false).add_record(batch.data(), &mut bytes).expect("room");
    let edit = VersionEdit { last_sequence: Some(0), ..first_edit() };
    let database = Database::new().with_manifest(&[edit]).with("000005.log", &bytes);
    let db = database.open().expect("nothing is wrong with it");
    assert_eq!(db.latest_sequence_number(), 0);
}

/// Regression test: when a database was opened for writing, a blob file was removed as obsolete if
/// only a log referred to it, and not yet the MANIFEST.
#[test]
fn logs_with_references_to_unrecorded_blob_files_prevent_opening_for_writing() {
    let place = BlobIndex::Blob(BlobLocation {
        file_number: 9,
        offset: 62,
        size: 5,
        compression: Compression::None,
        expiration: None,
    });
    let mut index = Vec::new();
    place.encode(&mut index);
    let mut batch = WriteBatch::new();
    batch.put_blob_index_cf(0, b"large", &index).expect("room");
    batch.set_sequence(101);
    let mut bytes = Vec::new();
    Writer::new(5, false).add_record(batch.data(), &mut bytes).expect("room");
    let database = || {
        let database = Database::new().with_manifest(&[first_edit()]);
        database.with("000005.log", &bytes).with("000009.blob", b"not closed yet")
    };
    let written = database();
    let error = written.open_for_writing().expect_err("the blob file is not the database's");
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.message().contains("blob file 9 of column family 'default'"), "{error}");
    assert!(written.has("000009.blob") && written.has("000005.log"));
    database().open().expect("it can be read");
}

#[test]
fn a_tracked_log_that_is_missing_or_short_is_damage() {
    // Regression test: the MANIFEST recorded the synced lengths of logs, but these lengths were
    // ignored, and a database whose logs had a gap was opened. RocksDB checks these lengths only if
    // `track_and_verify_wals_in_manifest` is set.
    let tracked = VersionEdit {
        wal_additions: vec![WalAddition { log_number: 5, synced_size: Some(40) }],
        ..VersionEdit::default()
    };
    let database = || {
        let database = Database::new().with_manifest(&[first_edit(), tracked.clone()]);
        database.with("000006.log", &log(6, &[(102, "new")]))
    };
    for options in ["track_and_verify_wals_in_manifest=true", ""] {
        let missing = database().open_with(options).expect_err("log 5 was synced and is gone");
        assert!(missing.to_string().contains("000005.log"), "{missing}");
        let short = database().with("000005.log", &log(5, &[])).open_with(options);
        let message = short.expect_err("log 5 lost what was synced").to_string();
        assert!(message.contains("40 bytes were synced, but it has 0"), "{message}");
    }
}

#[test]
fn a_log_recorded_as_the_predecessor_of_another_must_match() {
    // Regression test: a record in which a log describes its predecessor was ignored.
    let before = log(5, &[(101, "old")]);
    let size = before.len() as u64;
    let recorded = PredecessorWal { log_number: 5, size, last_sequence: 101 };
    let mut after = Vec::new();
    let mut writer = Writer::new(6, false);
    writer.add_predecessor(recorded, &mut after);
    let mut batch = WriteBatch::new();
    batch.put_cf(0, b"new", b"value").expect("room");
    batch.set_sequence(102);
    writer.add_record(batch.data(), &mut after).expect("room");
    let database = |before: &[u8]| {
        let database = Database::new().with_manifest(&[first_edit()]);
        database.with("000005.log", before).with("000006.log", &after)
    };
    let tracking = "track_and_verify_wals=true";
    let db = database(&before).open_with(tracking).expect("the log matches its description");
    assert_eq!((db.latest_sequence_number(), db.left_out().len()), (102, 0));
    let db = database(&[]).open_with(tracking).expect("what comes before is taken");
    assert_eq!(db.latest_sequence_number(), 100);
    assert!(db.left_out()[0].reason.contains("log 5 was before this one"), "{:?}", db.left_out());
    let strict = format!("{tracking};wal_recovery_mode=kAbsoluteConsistency");
    database(&[]).open_with(&strict).expect_err("nothing may be wrong");
    let had_one = VersionEdit { log_number: Some(5), ..first_edit() };
    let none = Database::new().with_manifest(&[had_one]).open_with(tracking);
    none.expect_err("a database that tracks its logs has a log");
    // Point-in-time recovery does not continue after a missing log, even without
    // `track_and_verify_wals`.
    for (before, reason) in [(&before[..], None), (&[][..], Some("log 5 was before this one"))] {
        let db = database(before).open_with("").expect("what comes before is taken");
        let left_out = db.left_out().first();
        assert_eq!(left_out.is_some(), reason.is_some(), "{left_out:?}");
        assert!(left_out.is_none_or(|it| it.torn_tail && it.reason.contains(reason.unwrap_or(""))));
    }
    let tolerant = "wal_recovery_mode=kTolerateCorruptedTailRecords";
    let db = database(&[]).open_with(tolerant).expect("this mode ignores missing logs");
    assert_eq!(db.latest_sequence_number(), 102);
}

#[test]
fn a_recycled_log_that_ends_before_writes_that_tables_contain_is_damage() {
    // Regression test: a database was opened although a column family's tables held later writes
    // than the remaining logs. Here log 5 was written into the recycled file of log 3 and lost its
    // unsynced end. So the remaining records of log 5 are followed by a record of log 3.
    let recycled = |number, puts: &[(u64, &str)]| log_by(Writer::new(number, true), puts);
    let mut bytes = recycled(5, &[(1, "k1"), (2, "k2")]);
    let end = bytes.len();
    bytes.extend(recycled(3, &[(0, "older")]));
    let database = two_families().with("000005.log", &bytes).with("000006.log", &[]);
    let error = database.open().expect_err("later writes would show without earlier ones");
    assert!(error.to_string().contains(&format!("000005.log at offset {end}")), "{error}");
    let damaged = |finding: &Finding| {
        finding.severity == Severity::Damage && finding.path.ends_with("000005.log")
    };
    assert!(database.verify().findings.iter().any(damaged));
}

/// Regression test: a log had a put with a write time, but the record of the put was too short to
/// contain the time. The put went into the memtable and from there into a table. After that, no
/// compaction could read the table.
#[test]
fn a_timed_put_too_short_for_its_time_is_damage() {
    for (tag, value) in [(0x18, &b"7bytes."[..]), (0x16, b"no entity"), (0x11, b"no index")] {
        let mut batch = WriteBatch::new();
        batch.put_cf(0, b"key", value).expect("room");
        batch.set_sequence(102);
        let mut bytes = batch.data().to_vec();
        bytes[HEADER_LENGTH] = tag;
        let mut log = log(5, &[(101, "whole")]);
        let offset = log.len();
        // Both records fit into the log's first block.
        Writer::new(5, false).add_record(&bytes, &mut log).expect("room");
        for mode in ["kPointInTimeRecovery", "kSkipAnyCorruptedRecords"] {
            let database = Database::new().with_manifest(&[first_edit()]).with("000005.log", &log);
            let opened = database.open_with(&format!("wal_recovery_mode={mode}"));
            let error = opened.expect_err("no mode accepts a batch that does not decode");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{tag:#x}: {error}");
            assert!(
                error.to_string().contains(&format!("000005.log at offset {offset}")),
                "{error}"
            );
            let found = database.verify().findings;
            assert!(found.iter().any(|it| it.severity == Severity::Damage), "{tag:#x}: {found:?}");
        }
    }
}

/// Regression test: an opening recycled the file of an older log for a new log. A crash followed
/// before the new log had records of its own. The next opening, with other options, treated the
/// records of the older log as damage.
#[test]
fn a_log_recycled_by_an_earlier_opening_may_be_empty() {
    let database = |number| {
        let recycled = log_by(Writer::new(number, true), &[(50, "of another log")]);
        Database::new().with_manifest(&[first_edit()]).with("000006.log", &recycled)
    };
    let db = database(5).open().expect("log 6 was log 5 before");
    assert_eq!((db.latest_sequence_number(), db.left_out().len()), (100, 0), "{:?}", db.left_out());
    let findings = database(5).verify().findings;
    assert!(findings.iter().all(|it| it.severity != Severity::Damage), "{findings:?}");
    // A recycled file only has records of logs with lower numbers, so a record of log 9 in log 6 is
    // damage.
    let db = database(9).open().expect("what comes before is taken");
    assert!(db.left_out()[0].reason.contains("a record of a later log"), "{:?}", db.left_out());
    let findings = database(9).verify().findings;
    assert!(findings.iter().any(|it| it.severity == Severity::Damage), "{findings:?}");
}
