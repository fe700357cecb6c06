//! Random external tables, which either engine can build.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use tailwater::{OpenOptions, SstFileWriter};
use tailwater_format::Comparator;
use tailwater_testkit::oracle::Script;

use crate::model::Model;
use crate::random::{self, KEYS, Operands};
use crate::step::{Durability, Record, Step, Write};

/// Exclusive upper bound of the number of keys in a table.
const RECORDS: usize = 120;
/// Maximum length of a value, in bytes.
const LONGEST: usize = 400;

/// The engine that builds a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    Ours,
    RocksDb,
}

/// A table to be built outside of a database and ingested into the column family `family`.
#[derive(Debug, Clone)]
pub(crate) struct ExternalTable {
    pub(crate) family: String,
    pub(crate) path: PathBuf,
    /// The records. Range deletions come first; they do not delete the table's own keys. The other
    /// records follow in key order.
    records: Vec<Record>,
}

impl ExternalTable {
    /// Returns a random table for a column family with this name and these options. `maker` will
    /// build it at `path`. RocksDB's Java API cannot write range deletions into an external table,
    /// so a table of RocksDB has none.
    pub(crate) fn random(
        rng: &mut Rng,
        (family, options): (&str, &str),
        path: PathBuf,
        maker: Maker,
    ) -> Self {
        let order = if options.contains("ReverseBytewise") {
            Comparator::ReverseBytewise
        } else {
            Comparator::Bytewise
        };
        let operands = match options {
            _ if options.contains("UInt64AddOperator") => Operands::Numbers,
            _ if options.contains("StringAppendOperator") => Operands::Bytes,
            _ => Operands::None,
        };
        let mut keys = random_keys(rng);
        keys.sort_by(|a, b| order.compare(a, b));
        keys.dedup();
        let mut records = Vec::new();
        if maker == Maker::Ours && rng.u8(..3) == 0 {
            for _ in 0..rng.usize(1..4) {
                let (a, b) = (random::key(rng, KEYS), random::key(rng, KEYS));
                let (a, b) = if order.compare(&a, &b).is_le() { (a, b) } else { (b, a) };
                records.push(Record::DeleteRange(a, b));
            }
            if rng.u8(..4) == 0 {
                keys.clear();
            }
        }
        records.extend(keys.into_iter().map(|key| match rng.u8(..6) {
            0 => Record::Delete(key),
            1 if operands != Operands::None => Record::Merge(key, random::operand(rng, operands)),
            _ if operands == Operands::Numbers => Record::Put(key, random::operand(rng, operands)),
            _ => Record::Put(key, random::value(rng, LONGEST)),
        }));
        Self { family: family.to_owned(), path, records }
    }

    /// Builds the table file with Tailwater.
    pub(crate) fn write(&self, options: &OpenOptions) -> tailwater::Result<()> {
        let mut writer = SstFileWriter::new(options, &self.family)?;
        writer.open(&self.path)?;
        for record in &self.records {
            match record {
                Record::Put(key, value) | Record::TimedPut(key, value, _) => {
                    writer.put(key, value)?;
                }
                Record::Merge(key, operand) => writer.merge(key, operand)?,
                Record::Delete(key) | Record::SingleDelete(key) => writer.delete(key)?,
                Record::DeleteRange(from, to) => writer.delete_range(from, to)?,
            }
        }
        if self.records.iter().all(|record| matches!(record, Record::DeleteRange(a, b) if a == b)) {
            // All ranges are empty, so the table has no record yet, and a table without records
            // cannot be built.
            writer.delete(b"nothing has this key")?;
        }
        writer.finish().map(drop)
    }

    /// Adds to a script the commands with which RocksDB builds the table file. A database with the
    /// same column families must be open when the script runs.
    pub(crate) fn tell(&self, script: &mut Script) {
        script.line(&[&"external", &self.path.display(), &self.family]);
        for record in &self.records {
            match record {
                Record::Put(key, value) | Record::TimedPut(key, value, _) => {
                    script.put(&self.family, key, value);
                }
                Record::Merge(key, operand) => script.merge(&self.family, key, operand),
                Record::Delete(key) => script.delete(&self.family, key),
                other => panic!("RocksDB's Java API cannot write {other:?} into a table"),
            }
        }
        script.line(&[&"finish"]);
    }

    /// Applies to the model what ingesting the table does to a database.
    pub(crate) fn apply(&self, model: &mut Model) {
        let write = |record: &Record| Write { family: self.family.clone(), record: record.clone() };
        let writes = self.records.iter().map(write).collect();
        model.apply(&Step::Write(writes, Durability::Synced));
    }

    /// Returns the path of the table file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns random keys. They are either spread over the whole key space, or close to each other, or
/// after all keys of the database.
fn random_keys(rng: &mut Rng) -> Vec<Vec<u8>> {
    let count = rng.usize(1..RECORDS);
    match rng.u8(..3) {
        0 => (0..count).map(|_| random::key(rng, KEYS)).collect(),
        1 => {
            let near = random::key(rng, KEYS);
            (0..count % 8 + 1).map(|at| [&near[..], &[at as u8; 3]].concat()).collect()
        }
        _ => {
            let first = rng.u16(..);
            (0..count).map(|at| format!("z{first:05}{at:04}").into_bytes()).collect()
        }
    }
}

/// Adds to a script the command with which RocksDB ingests tables into one column family. `how` is
/// `copy` or `move`.
pub(crate) fn tell_ingestion(script: &mut Script, tables: &[ExternalTable], how: &str) {
    let paths: Vec<String> =
        tables.iter().map(|table| table.path().display().to_string()).collect();
    let mut words: Vec<&dyn std::fmt::Display> = vec![&"ingest", &tables[0].family, &how];
    words.extend(paths.iter().map(|path| path as &dyn std::fmt::Display));
    script.line(&words);
}
