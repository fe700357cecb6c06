//! One operation on a database, which Tailwater or RocksDB performs.

use tailwater::options::{self, ColumnFamilyOptions, DbOptions};
use tailwater::{Db, Result, WriteBatch, WriteOptions};
use tailwater_testkit::oracle::Script;

/// One operation on a database.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Writes a batch atomically.
    Write(Vec<Write>, Durability),
    /// Flushes the column family with this name and waits.
    Flush(String),
    /// Creates a column family with this name and these options.
    Create(String, String),
    /// Drops the column family with this name.
    Drop(String),
}

/// A write, and the name of the column family to which it goes.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) family: String,
    pub(crate) record: Record,
}

/// A write, without its column family.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    Put(Vec<u8>, Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    SingleDelete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    /// A key, a value and the time of its write, in seconds since 1970.
    TimedPut(Vec<u8>, Vec<u8>, u64),
}

/// How durable a write is when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    Unlogged,
    Logged,
    Synced,
}

/// Returns the default options of a column family, changed by an option string.
pub(crate) fn family_options(text: &str) -> ColumnFamilyOptions {
    let mut family = ColumnFamilyOptions::default();
    options::set_from_string(&mut DbOptions::default(), &mut family, text)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    family
}

impl Step {
    /// Performs the step on a Tailwater database.
    pub(crate) fn perform(&self, db: &Db) -> Result<()> {
        match self {
            Self::Write(writes, durability) => perform_writes(db, writes, *durability),
            Self::Flush(family) => db.flush_cf(&db.cf_handle(family)?),
            Self::Create(family, text) => db.create_cf(family, &family_options(text)).map(drop),
            Self::Drop(family) => db.drop_cf(&db.cf_handle(family)?),
        }
    }

    /// Adds the step to a script for RocksDB.
    pub(crate) fn tell(&self, script: &mut Script) {
        match self {
            Self::Write(writes, durability) => tell_writes(script, writes, *durability),
            Self::Flush(family) => script.flush(family),
            Self::Create(family, text) => script.line(&[&"create", family, text]),
            Self::Drop(family) => script.line(&[&"drop", family]),
        }
    }
}

fn perform_writes(db: &Db, writes: &[Write], durability: Durability) -> Result<()> {
    let options = WriteOptions::new()
        .with_sync(durability == Durability::Synced)
        .with_disable_wal(durability == Durability::Unlogged);
    // A batch of one write is written by the method for that kind of write, if there is one.
    if let [Write { family, record }] = writes
        && !matches!(record, Record::TimedPut(..))
    {
        let family = db.cf_handle(family)?;
        return match record {
            Record::Put(key, value) => db.put_cf_opt(&family, key, value, &options),
            Record::Merge(key, operand) => db.merge_cf_opt(&family, key, operand, &options),
            Record::Delete(key) => db.delete_cf_opt(&family, key, &options),
            Record::SingleDelete(key) => db.single_delete_cf_opt(&family, key, &options),
            Record::DeleteRange(from, to) => db.delete_range_cf_opt(&family, from, to, &options),
            Record::TimedPut(..) => unreachable!("it is written in a batch"),
        };
    }
    let mut batch = WriteBatch::new();
    for Write { family, record } in writes {
        let id = db.cf_handle(family)?.id();
        let added = match record {
            Record::Put(key, value) => batch.put_cf(id, key, value),
            Record::Merge(key, operand) => batch.merge_cf(id, key, operand),
            Record::Delete(key) => batch.delete_cf(id, key),
            Record::SingleDelete(key) => batch.single_delete_cf(id, key),
            Record::DeleteRange(from, to) => batch.delete_range_cf(id, from, to),
            Record::TimedPut(key, value, time_s) => batch.timed_put_cf(id, key, value, *time_s),
        };
        added.expect("a batch within its bounds");
    }
    db.write_opt(&mut batch, &options)
}

fn tell_writes(script: &mut Script, writes: &[Write], durability: Durability) {
    script.line(&[&"log", &if durability == Durability::Unlogged { "off" } else { "on" }]);
    script.line(&[&"sync", &if durability == Durability::Synced { "on" } else { "off" }]);
    script.line(&[&"begin"]);
    for Write { family, record } in writes {
        match record {
            Record::Put(key, value) => script.put(family, key, value),
            Record::Merge(key, operand) => script.merge(family, key, operand),
            Record::Delete(key) => script.delete(family, key),
            Record::SingleDelete(key) => script.single_delete(family, key),
            Record::DeleteRange(from, to) => script.delete_range(family, from, to),
            Record::TimedPut(key, value, time_s) => script.timed_put(family, key, value, *time_s),
        }
    }
    script.line(&[&"commit"]);
}
