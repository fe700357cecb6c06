//! Overlaps of a file's key range with records of the database.
//!
//! A table whose key range overlaps that of a file may have no record inside the file's range. Such
//! a table does not conflict with the file, so each table that overlaps is searched for records.
//! The results are cached, since neither files nor tables change. Most tables are searched before
//! writes are blocked; only tables created since then are searched while writes wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailwater_format::key::{self, MAX_SEQUENCE, ValueType, pack_trailer};
use tailwater_io::Purpose;

use super::external_file::ExternalFile;
use crate::error::Result;
use crate::range_tombstone::FragmentedRangeTombstones;
use crate::table::{FileMetadata, ReadPlan, ReadProfile, TableCache, TableIterator};

/// Parameters of searches in tables of the database.
const PROFILE: ReadProfile = ReadProfile::new(Purpose::Ingestion, true);

/// A cache of overlaps: whether a table has records or range tombstones in the key range of a file
/// to be ingested.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    /// The results so far. A key is the pair of a file's index in the ingestion and a table's
    /// number. Its value is whether the table has records in the key range of the file.
    known: BTreeMap<(usize, u64), bool>,
}

impl Overlaps {
    /// Whether a table has records or range tombstones in the key range of `file`. `place` is the
    /// file's index in the ingestion. The result is cached under the pair of `place` and the
    /// table's number.
    pub(super) fn with_table(
        &mut self,
        place: usize,
        file: &ExternalFile,
        tables: &TableCache,
        table: &Arc<FileMetadata>,
    ) -> Result<bool> {
        let known = (place, table.number());
        if let Some(&answer) = self.known.get(&known) {
            return Ok(answer);
        }
        let answer = has_any(file, tables, table)?;
        self.known.insert(known, answer);
        Ok(answer)
    }
}

fn has_any(file: &ExternalFile, tables: &TableCache, table: &Arc<FileMetadata>) -> Result<bool> {
    let table = tables.open(table, PROFILE.purpose)?;
    if tombstones_overlap(table.range_tombstones(), file) {
        return Ok(true);
    }
    let comparator = tables.comparator();
    let mut iterator = TableIterator::new(table, PROFILE, &ReadPlan::growing());
    iterator.seek(&first_of(file.begin()))?;
    let key = key::user_key(iterator.key());
    Ok(iterator.valid() && comparator.compare(key, file.end()).is_le())
}

fn tombstones_overlap(tombstones: &FragmentedRangeTombstones, file: &ExternalFile) -> bool {
    let comparator = tombstones.comparator();
    tombstones.iter().any(|tombstone| {
        comparator.compare(tombstone.start, file.end()).is_le()
            && comparator.compare(file.begin(), tombstone.end).is_lt()
    })
}

/// Returns an internal key that sorts before all records of a user key.
fn first_of(user_key: &[u8]) -> Vec<u8> {
    let mut internal_key = Vec::new();
    let trailer = pack_trailer(MAX_SEQUENCE, ValueType::FOR_SEEK);
    key::put_internal_key(&mut internal_key, user_key, trailer);
    internal_key
}
