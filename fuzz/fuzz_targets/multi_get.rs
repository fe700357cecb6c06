//! Gets batches of keys of several column families from a database whose files the fuzzer's input
//! may have edited. The input also determines the keys. Each result must be that of a single get at
//! the same snapshot; if files were edited, both may fail.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater::{ColumnFamily, Db, ReadOptions, ValueBuffer};
use tailwater_format::file_name::FileKind;
use tailwater_format::record_log::RecoveryMode;
use tailwater_fuzz::database::{Database, MEMORY_MAX, key, open};
use tailwater_fuzz::{Choices, allocation};

/// Number of keys of a long batch.
const LONG: usize = 10_000;

fuzz_target!(|input: &[u8]| {
    let (mut choices, edits) = Choices::split(input);
    let flags = choices.byte();
    let database = Database::number(usize::from(flags >> 6));
    let is_table = |kind| matches!(kind, FileKind::Table(_) | FileKind::Blob(_));
    let files = database.edited(Choices::new(edits), flags & 1 == 0, is_table);
    allocation::within(MEMORY_MAX, || {
        let Ok(db) = open(&files, RecoveryMode::PointInTime) else { return };
        let options = ReadOptions::new()
            .with_snapshot(db.snapshot())
            .with_verify_checksums(flags & 2 == 0)
            .with_fill_cache(flags & 4 == 0)
            .with_optimize_multiget_for_io(flags & 8 == 0);
        let families = db.column_families();
        let is_long = flags & 32 != 0;
        let mut keys = Vec::new();
        while !choices.is_empty() {
            keys.push((choices.of(&families).clone(), key(&mut choices)));
        }
        if is_long && !keys.is_empty() {
            keys = keys.iter().cycle().take(LONG).cloned().collect();
        }
        check(&db, &keys, &options, edits.is_empty());
    });
});

fn check(db: &Db, keys: &[(ColumnFamily, Vec<u8>)], options: &ReadOptions, is_whole: bool) {
    let sought: Vec<_> = keys.iter().map(|(family, key)| (family, key)).collect();
    let values = db.multi_get_cf_opt(&sought, options);
    assert_eq!(values.len(), keys.len());
    for ((family, key), value) in keys.iter().zip(&values) {
        let single = db.get_cf_opt(family, key, options);
        match (value, single) {
            (Ok(value), Ok(single)) => assert_eq!(value.as_deref(), single.as_deref()),
            (value, single) => assert!(!is_whole, "{value:?}, {single:?}"),
        }
    }
    let Some((family, _)) = keys.first() else { return };
    let of_family: Vec<_> = keys.iter().filter(|(other, _)| other.id() == family.id()).collect();
    let sought: Vec<_> = of_family.iter().map(|(_, key)| key).collect();
    let mut copies = ValueBuffer::new();
    db.multi_get_into_cf_opt(family, &sought, options, &mut copies);
    for (at, key) in sought.iter().enumerate() {
        match (copies.get(at), db.get_cf_opt(family, key, options)) {
            (Ok(copy), Ok(single)) => assert_eq!(copy, single.as_deref()),
            (copy, single) => assert!(!is_whole, "{copy:?}, {single:?}"),
        }
    }
}
