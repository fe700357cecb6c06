//! Compares the results of a database's reads with its expected contents.

use tailwater::{ColumnFamily, Db, Error, ReadOptions, Snapshot, ValueBuffer};
use tailwater_testkit::dump::Entry;
use tailwater_testkit::model::Family;

/// Asserts that a database holds the entries of a dump and no others, when it is read forward,
/// backward, key by key, and all keys at once.
pub(crate) fn holds(db: &Db, dump: &[Entry], context: &str) {
    holds_at(db, None, dump, context);
}

/// Like [`holds`]; reads at `snapshot` if one is given.
pub(crate) fn holds_at(db: &Db, snapshot: Option<&Snapshot>, dump: &[Entry], context: &str) {
    let options = ReadOptions::new().with_snapshot(snapshot.cloned()).with_total_order_seek(true);
    let known = |entry: &Entry| db.cf_handle(&entry.family).is_ok();
    if let Some(entry) = dump.iter().find(|entry| !known(entry)) {
        panic!("{context}: there is no column family '{}'", entry.family);
    }
    for family in &db.column_families() {
        let model = Family::new(family.name(), family.comparator().clone(), dump);
        let context = format!("{context}, family '{}'", family.name());
        let otherwise = options.clone().with_pin_data(true).with_allow_unprepared_value(true);
        let otherwise = otherwise.with_async_io(true);
        for options in [&options, &otherwise] {
            forward(db, family, options, &model, &context);
            backward(db, family, options, &model, &context);
        }
        gets(db, family, &options, &model, &context);
        multi_get(db, family, &options, &model, &context);
    }
}

/// Gets all keys at once.
fn multi_get(db: &Db, family: &ColumnFamily, options: &ReadOptions, model: &Family, context: &str) {
    let keys: Vec<_> = model.entries.iter().map(|(key, _)| key).collect();
    let mut values = ValueBuffer::new();
    db.multi_get_into_cf_opt(family, &keys, options, &mut values);
    for (at, (key, value)) in model.entries.iter().enumerate() {
        let found = values.get(at).unwrap_or_else(|error| panic!("{context}, multi-get: {error}"));
        assert!(
            found == Some(value.as_slice()),
            "{context}: multi-get of '{}' found {:?} instead of {:?}",
            key.escape_ascii(),
            found.map(shortened),
            shortened(value),
        );
    }
}

fn forward(db: &Db, family: &ColumnFamily, options: &ReadOptions, model: &Family, context: &str) {
    let fail = |error: Error| -> ! { panic!("{context}, forward: {error}") };
    let mut iterator = db.raw_iterator_cf_opt(family, options).unwrap_or_else(|error| fail(error));
    iterator.seek_to_first().unwrap_or_else(|error| fail(error));
    for (at, (key, value)) in model.entries.iter().enumerate() {
        iterator.prepare_value().unwrap_or_else(|error| fail(error));
        let found = iterator.item();
        assert!(
            found == Some((key, value)),
            "{context}, forward: {}",
            difference(at, key, value, found)
        );
        iterator.next().unwrap_or_else(|error| fail(error));
    }
    assert!(!iterator.valid(), "{context}, forward: more than was written");
}

fn backward(db: &Db, family: &ColumnFamily, options: &ReadOptions, model: &Family, context: &str) {
    let fail = |error: Error| -> ! { panic!("{context}, backward: {error}") };
    let mut iterator = db.raw_iterator_cf_opt(family, options).unwrap_or_else(|error| fail(error));
    iterator.seek_to_last().unwrap_or_else(|error| fail(error));
    for (at, (key, value)) in model.entries.iter().enumerate().rev() {
        iterator.prepare_value().unwrap_or_else(|error| fail(error));
        let found = iterator.item();
        assert!(
            found == Some((key, value)),
            "{context}, backward: {}",
            difference(at, key, value, found)
        );
        iterator.prev().unwrap_or_else(|error| fail(error));
    }
    assert!(!iterator.valid(), "{context}, backward: more than was written");
}

fn gets(db: &Db, family: &ColumnFamily, options: &ReadOptions, model: &Family, context: &str) {
    let mut value = Vec::new();
    for (key, expected) in &model.entries {
        // Also gets two neighbours of each key in bytewise order. Most of the neighbours do not
        // exist.
        let longer = [key, &b"\0"[..]].concat();
        let shorter = &key[..key.len().saturating_sub(1)];
        let neighbours =
            [longer.as_slice(), shorter].map(|neighbour| (neighbour, model.get(neighbour)));
        for (key, expected) in
            [(key.as_slice(), Some(expected.as_slice()))].iter().chain(&neighbours)
        {
            let found = db.get_into_cf_opt(family, key, options, &mut value);
            let found = found.unwrap_or_else(|error| panic!("{context}, get: {error}"));
            assert!(
                found.then_some(value.as_slice()) == *expected,
                "{context}: get of '{}' found {:?} instead of {:?}",
                key.escape_ascii(),
                found.then(|| shortened(&value)),
                expected.map(shortened),
            );
        }
    }
}

fn difference(at: usize, key: &[u8], value: &[u8], found: Option<(&[u8], &[u8])>) -> String {
    let found = match found {
        Some((key, value)) => format!("'{}' = {}", key.escape_ascii(), shortened(value)),
        None => "nothing".to_owned(),
    };
    format!("entry {at}: '{}' = {}, found {found}", key.escape_ascii(), shortened(value))
}

fn shortened(value: &[u8]) -> String {
    let shown = &value[..value.len().min(40)];
    format!("'{}' ({} bytes)", shown.escape_ascii(), value.len())
}
