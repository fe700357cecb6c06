//! Entries that are too long are refused before anything is written.

use std::path::Path;

use tailwater::batch::{ENTRY_LENGTH_MAX, KEY_LENGTH_MAX};
use tailwater::for_tests::EntryLimit;
use tailwater::{Db, ErrorKind, FormatError, SstFileWriter, WriteBatch};
use tailwater_io::sim::SimStorage;

use crate::database::names;
use crate::support::{ENTRY, KEY, PATH, failure, simulated};

const MERGES: &str = "merge_operator=stringappend";

/// A function that adds an entry with a key and a value of these lengths to a batch.
type Add = fn(&mut WriteBatch, &[u8], &[u8]) -> Result<(), FormatError>;

const ADDITIONS: [(&str, Add); 5] = [
    ("put", |batch, key, value| batch.put(key, value)),
    ("merge", |batch, key, value| batch.merge(key, value)),
    ("entity", |batch, key, value| batch.put_entity_cf(0, key, value)),
    ("timed put", |batch, key, value| {
        let value = value.get(8..).unwrap_or_default();
        batch.timed_put_cf(0, key, value, 1)
    }),
    ("put in a family", |batch, key, value| batch.put_cf(7, key, value)),
];

/// Regression test: the lengths of key and value were limited separately, to 4 GiB each. A record
/// of a table that has both was not limited. So an acknowledged entry could make the database fail
/// to open, because no table could be written from its log.
#[test]
fn a_batch_refuses_entries_that_no_table_can_store() {
    let _limit = EntryLimit::of(ENTRY_LENGTH_MAX);
    // The zeros are neither read nor written, so the system does not back them with memory.
    let zeros = vec![0; ENTRY_LENGTH_MAX + 1];
    let limits = [
        (0, ENTRY_LENGTH_MAX + 1, "a key of 0 and a value of 4293918721 bytes"),
        (1, ENTRY_LENGTH_MAX, "a key of 1 and a value of 4293918720 bytes"),
        (300_000_000, 4_000_000_000, "a key of 300000000 and a value of 4000000000 bytes"),
        (KEY_LENGTH_MAX + 1, 8, "a key of 536739841 bytes"),
    ];
    for (key, value, named) in limits {
        for (name, add) in ADDITIONS {
            let mut batch = WriteBatch::new();
            batch.put("before", "1").expect("a put");
            let before = batch.clone();
            let error = add(&mut batch, &zeros[..key], &zeros[..value]).expect_err(name);
            assert!(error.to_string().contains(named), "{name}: {error}");
            assert_eq!(batch, before, "{name}");
        }
    }
    let mut batch = WriteBatch::new();
    let long = &zeros[..KEY_LENGTH_MAX + 1];
    for refused in [
        batch.delete(long),
        batch.single_delete(long),
        batch.delete_range(long, "z"),
        batch.delete_range("", long),
        batch.put_log_data(&zeros),
    ] {
        let text = refused.expect_err("too long").to_string();
        assert!(text.contains("more than the maximum of"), "{text}");
    }
    assert_eq!(batch, WriteBatch::new());
}

/// Regression test: see [`a_batch_refuses_entries_that_no_table_can_store`].
#[test]
fn a_database_refuses_entries_that_no_table_can_store() {
    let _limit = EntryLimit::of(ENTRY_LENGTH_MAX);
    let zeros = vec![0; ENTRY_LENGTH_MAX + 1];
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &simulated(&disk, MERGES)).expect("a database");
    for refused in [
        db.put("key", &zeros),
        db.put(&zeros[..300_000_000], &zeros[..4_000_000_000]),
        db.merge("key", &zeros),
        db.delete(&zeros[..KEY_LENGTH_MAX + 1]),
        db.delete_range("a", &zeros[..KEY_LENGTH_MAX + 1]),
    ] {
        let (kind, text) = failure(refused);
        assert_eq!(kind, ErrorKind::InvalidArgument, "{text}");
        assert!(text.contains("more than the maximum of"), "{text}");
    }
    assert_eq!(db.latest_sequence_number(), 0, "nothing was written");
    db.put("key", "value").expect("writes go on");
}

#[test]
fn a_database_refuses_batches_that_were_not_checked() {
    let limit = EntryLimit::of(ENTRY_LENGTH_MAX);
    let mut long = WriteBatch::new();
    long.put("a", "1").expect("a put");
    long.put("key", vec![b'v'; ENTRY]).expect("a put below the real maximum");
    let mut long_range = WriteBatch::new();
    long_range.delete_range("a", vec![b'z'; KEY + 1]).expect("a deletion");
    // The batch no longer knows that its methods have checked its records.
    let mut long = WriteBatch::from_data(long.data().to_vec()).expect("a batch that can be read");
    limit.set(ENTRY);
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &simulated(&disk, "")).expect("a database");
    for batch in [&mut long, &mut long_range] {
        let before = batch.clone();
        let (kind, text) = failure(db.write(batch));
        assert_eq!(kind, ErrorKind::InvalidArgument, "{text}");
        assert!(text.contains("more than the maximum of"), "{text}");
        assert_eq!(*batch, before);
    }
    assert_eq!((db.get("a").expect("a get"), db.latest_sequence_number()), (None, 0));
    let decoded = WriteBatch::from_data(long.data().to_vec()).expect("a batch that can be read");
    assert_eq!(decoded, long);
}

/// Regression test: see [`a_batch_refuses_entries_that_no_table_can_store`].
#[test]
fn a_writer_of_tables_refuses_entries_that_no_table_can_store() {
    let _limit = EntryLimit::of(ENTRY);
    let zeros = vec![0; ENTRY];
    let long = &zeros[..KEY + 1];
    let disk = SimStorage::new(1);
    let options = simulated(&disk, "");
    let mut writer = SstFileWriter::new(&options, "default").expect("a writer");
    writer.open("/file.sst").expect("a table");
    writer.put("a", "1").expect("a put");
    for refused in [
        writer.put("b", &zeros),
        writer.put(long, ""),
        writer.merge("b", &zeros),
        writer.delete(long),
        writer.delete_range(long, "b"),
        writer.delete_range("", long),
    ] {
        let (kind, text) = failure(refused);
        assert_eq!(kind, ErrorKind::InvalidArgument, "{text}");
        assert!(text.contains("/file.sst") && text.contains("more than the maximum of"), "{text}");
    }
    writer.put("b", "2").expect("the table is unchanged");
    assert_eq!(writer.finish().expect("a table").num_entries, 2);
    let db = Db::open(PATH, &options).expect("a database");
    db.ingest_external_file(&["/file.sst"]).expect("an ingestion");
    assert_eq!(db.get("b").expect("a get").as_deref(), Some(&b"2"[..]));

    writer.open("/refused.sst").expect("a table");
    writer.put("b", &zeros).expect_err("too long");
    drop(writer);
    assert!(!names(&disk, Path::new("/")).contains(&"refused.sst".to_owned()));
}
