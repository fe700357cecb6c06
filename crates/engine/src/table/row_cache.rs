//! The row cache: what tables have about single keys, so that a get need not search a table again,
//! nor even open it.
//!
//! A row is all that one table adds to a lookup of one key: the newest range tombstone that covers
//! the key, merge operands, and the record that ends the lookup. Rows are kept in a
//! [`BlockCache`], which may hold blocks, too.
//!
//! # Which row a lookup gets
//!
//! A table's file never changes, and its id is never reused, so a row stays correct for as long as
//! it exists. Rows of deleted files are not found any more, and the clock hand evicts them.
//!
//! - If the lookup sees all records of the table, it gets the row of all of them. Otherwise it gets
//!   the row that a lookup at the same sequence number left.
//! - A lookup that has found a range tombstone uses no row: what the table has may be older.
//! - A table that has nothing visible of the key leaves no row, and is searched each time.
//!
//! Source: `db/table_cache.cc` (`CreateRowCacheKeyPrefix`, `GetFromRowCache`). RocksDB's rows do
//! not hold range tombstones, so it refuses these while there is a row cache. Its lookups with a
//! snapshot at the table's highest sequence number have rows of their own.

use std::ptr;
use std::sync::Arc;

use tailwater_format::hash::hash64;
use tailwater_format::key::Sequence;
use tailwater_format::varint::{Reader, put_length_prefixed, put_varint64};

use crate::block_cache::{BlockCache, BlockRef};
use crate::cache::Key;
use crate::epoch;
use crate::error::{Error, Result};
use crate::stats::{Statistics, Ticker};
use crate::table::{FileMetadata, Lookup, Owner, Sink, Step};

/// Set in the keys of rows in the cache, and in no block's, since no file is that long.
const ROW: u64 = 1 << 63;
/// An odd number, half of whose bits are set, that spreads the views of a key.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The row cache, as the tables of a column family use it.
#[derive(Debug, Clone)]
pub(crate) struct RowCache {
    cache: Arc<BlockCache>,
    statistics: Option<Arc<Statistics>>,
}

/// What the row cache has for a lookup that has come to a table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Row {
    /// The row was found, and passed to the lookup, as a search of the table would have.
    Replayed(Step),
    /// The table is to be searched. Then the row, which was not found, is to be inserted
    /// ([`RowCache::keep`]). `None` if the lookup uses no row.
    Absent(Option<AbsentRow>),
}

/// A row that was not found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AbsentRow {
    key: Key,
    view: View,
    /// Number of operands of the lookup before it searched the table.
    operands: usize,
}

/// Which records of a table are visible: 0 for all of them, or else the sequence number of the
/// lookup, plus one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct View(u64);

impl View {
    fn of(file: &FileMetadata, snapshot: Sequence) -> Self {
        if snapshot >= file.largest_sequence() { Self(0) } else { Self(snapshot + 1) }
    }
}

impl RowCache {
    pub(crate) fn new(cache: Arc<BlockCache>, statistics: Option<Arc<Statistics>>) -> Self {
        Self { cache, statistics }
    }

    /// Looks for the row of a lookup's key in the table `file`. If there is one, passes it to the
    /// lookup, and counts a hit.
    #[inline(never)]
    pub(crate) fn replay<S: Sink>(
        &self,
        file: &FileMetadata,
        lookup: &mut Lookup<'_, S>,
    ) -> Result<Row> {
        if lookup.is_covered() {
            return Ok(Row::Absent(None));
        }
        let view = View::of(file, lookup.snapshot);
        let hash = hash64(lookup.user_key) ^ view.0.wrapping_mul(SPREAD);
        let key = Key { file: file.cache_id(), offset: hash | ROW };
        let guard = epoch::pin();
        if let Some(row) = self.cache.blocks.lookup(key, &guard) {
            let mut reader = Reader::new(row.bytes());
            if is_row_of(&mut reader, view, lookup.user_key).map_err(malformed)? {
                self.count(Ticker::RowCacheHit);
                let row = BlockRef::Borrowed(row);
                let step = lookup.replay(&mut reader, Owner::Block(&row))?;
                return Ok(Row::Replayed(step));
            }
        }
        Ok(Row::Absent(Some(AbsentRow { key, view, operands: lookup.mark() })))
    }

    /// Inserts an absent row, after the table was searched, and counts a miss.
    pub(crate) fn keep<S: Sink>(&self, absent: Option<AbsentRow>, lookup: &Lookup<'_, S>) {
        let Some(absent) = absent else { return };
        self.count(Ticker::RowCacheMiss);
        if lookup.has_found_since(absent.operands) {
            let mut row = Vec::new();
            put_varint64(&mut row, absent.view.0);
            put_length_prefixed(&mut row, lookup.user_key);
            lookup.put_row(absent.operands, &mut row);
            self.cache.insert_row(absent.key, row);
        }
    }

    /// Returns the bytes in use by the row cache; 0 if it is also the block cache `blocks`.
    pub(crate) fn usage_beside(&self, blocks: Option<&BlockCache>) -> usize {
        match blocks {
            Some(blocks) if ptr::eq(blocks, &*self.cache) => 0,
            _ => self.cache.usage(),
        }
    }

    fn count(&self, ticker: Ticker) {
        if let Some(statistics) = &self.statistics {
            statistics.add(ticker, 1);
        }
    }
}

/// Whether a row is that of a key and a view. Different ones may have the same key in the cache.
fn is_row_of(row: &mut Reader<'_>, view: View, user_key: &[u8]) -> tailwater_format::Result<bool> {
    let its_view = View(row.varint64("view of a row")?);
    Ok(row.length_prefixed("key of a row")? == user_key && its_view == view)
}

#[cold]
pub(super) fn malformed(error: tailwater_format::Error) -> Error {
    Error::internal(format!("a row in the row cache is malformed: {error}"))
}
