//! Tests of block cursors. Each test moves a cursor over a block that RocksDB wrote and compares
//! the cursor's entries with a list of all entries of the block.

mod quick;
mod random;

use std::cmp::Ordering;

use super::golden::{self, Entry, IndexEntry, Table, entries, index_entries, table, tables};
use super::{Cursor, IndexCursor, IndexFormat, Layout, RestartPrefixes, Restarts, Target};
use crate::Result;
use crate::comparator::Comparator;
use crate::key::{self, MAX_SEQUENCE, ValueType, compare_internal, pack_trailer};

/// A cursor over a data block or an index block, together with that block and its layout.
trait Walk {
    /// The type of the block's entries.
    type Entry: Clone + PartialEq + std::fmt::Debug;

    fn first(&mut self) -> Result<()>;
    fn last(&mut self) -> Result<()>;
    fn next(&mut self) -> Result<()>;
    fn previous(&mut self) -> Result<()>;
    /// Moves to the first entry whose key is at or after `key`.
    fn seek(&mut self, key: &[u8], order: &Order) -> Result<()>;
    /// Returns the current entry.
    fn entry(&self) -> Option<Self::Entry>;
    fn key(entry: &Self::Entry) -> &[u8];
}

struct DataWalk<'a> {
    cursor: &'a mut Cursor,
    block: &'a [u8],
    layout: Layout,
}

struct IndexWalk<'a> {
    cursor: &'a mut IndexCursor,
    block: &'a [u8],
    layout: Layout,
    format: IndexFormat,
    /// Whether [`RestartPrefixes`] narrow the range of restart points that a seek searches.
    prefixes: bool,
}

impl<'a> DataWalk<'a> {
    fn new(cursor: &'a mut Cursor, block: &'a [u8]) -> Result<Self> {
        cursor.reset();
        Ok(Self { cursor, block, layout: Layout::parse(block)? })
    }
}

impl<'a> IndexWalk<'a> {
    fn new(cursor: &'a mut IndexCursor, block: &'a [u8], format: IndexFormat) -> Result<Self> {
        cursor.reset();
        Ok(Self { cursor, block, layout: Layout::parse(block)?, format, prefixes: false })
    }
}

impl Walk for DataWalk<'_> {
    type Entry = Entry;

    fn first(&mut self) -> Result<()> {
        self.cursor.seek_to_first(self.block, &self.layout)
    }

    fn last(&mut self) -> Result<()> {
        self.cursor.seek_to_last(self.block, &self.layout)
    }

    fn next(&mut self) -> Result<()> {
        self.cursor.next(self.block, &self.layout)
    }

    fn previous(&mut self) -> Result<()> {
        self.cursor.previous(self.block, &self.layout)
    }

    fn seek(&mut self, key: &[u8], order: &Order) -> Result<()> {
        let (user_key, trailer) = key::split(key).unwrap_or((key, 0));
        let target = Target { comparator: &order.comparator, user_key, trailer };
        self.cursor.seek(self.block, &self.layout, &target)
    }

    fn entry(&self) -> Option<Entry> {
        let value = self.cursor.value(self.block).to_vec();
        self.cursor.valid().then(|| {
            let range = self.cursor.value_range();
            assert_eq!(self.block[range.start as usize..range.end as usize], value);
            Entry { key: self.cursor.key().to_vec(), value, offset: self.cursor.entry_offset() }
        })
    }

    fn key(entry: &Entry) -> &[u8] {
        &entry.key
    }
}

impl Walk for IndexWalk<'_> {
    type Entry = IndexEntry;

    fn first(&mut self) -> Result<()> {
        self.cursor.seek_to_first(self.block, &self.layout, self.format)
    }

    fn last(&mut self) -> Result<()> {
        self.cursor.seek_to_last(self.block, &self.layout, self.format)
    }

    fn next(&mut self) -> Result<()> {
        self.cursor.next(self.block, &self.layout, self.format)
    }

    fn previous(&mut self) -> Result<()> {
        self.cursor.previous(self.block, &self.layout, self.format)
    }

    fn seek(&mut self, key: &[u8], order: &Order) -> Result<()> {
        let (block, layout) = (self.block, &self.layout);
        let among = match (&order.comparator, self.prefixes) {
            (Comparator::Bytewise, true) => {
                let delta_values = self.format.delta_values;
                let user_key = if order.user_keys { key } else { key::user_key(key) };
                RestartPrefixes::build(block, layout, delta_values, order.user_keys)?
                    .narrow(user_key)
            }
            _ => Restarts::all(layout),
        };
        self.cursor.seek(block, layout, self.format, among, |entry| order.compare(entry, key))
    }

    fn entry(&self) -> Option<IndexEntry> {
        self.cursor.valid().then(|| IndexEntry {
            key: self.cursor.key().to_vec(),
            handle: self.cursor.handle(),
            first_key: self.cursor.first_key(self.block).to_vec(),
        })
    }

    fn key(entry: &IndexEntry) -> &[u8] {
        &entry.key
    }
}

/// The order and the kind of the keys in a block.
struct Order {
    comparator: Comparator,
    /// Whether the block's keys are user keys instead of internal keys.
    user_keys: bool,
}

impl Order {
    const BYTEWISE: Self = Self { comparator: Comparator::Bytewise, user_keys: false };

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.user_keys {
            self.comparator.compare(a, b)
        } else {
            compare_internal(&self.comparator, a, b)
        }
    }
}

/// Runs `check` on every data block and every index block of every table. `check` receives a
/// [`Walk`] over the block and the list of the block's entries.
fn on_every_block(mut check: impl Check) {
    let (mut cursor, mut index_cursor) = (Cursor::default(), IndexCursor::default());
    for table in tables() {
        let order = Order { comparator: table.comparator(), user_keys: false };
        for block in table.data_blocks() {
            let mut walk = DataWalk::new(&mut cursor, block).unwrap();
            check.check(&mut walk, &entries(block), &order);
        }
        let order = Order { user_keys: table.properties.index_key_is_user_key, ..order };
        for block in table.index_blocks() {
            let format = table.index_format();
            for prefixes in [false, true] {
                let mut walk = IndexWalk::new(&mut index_cursor, block, format).unwrap();
                walk.prefixes = prefixes;
                check.check(&mut walk, &index_entries(block, format), &order);
            }
        }
    }
}

/// A test that runs on one block: `model` lists the entries that `walk` must visit.
trait Check {
    fn check<W: Walk>(&mut self, walk: &mut W, model: &[W::Entry], order: &Order);
}

struct BothDirections;

impl Check for BothDirections {
    fn check<W: Walk>(&mut self, walk: &mut W, model: &[W::Entry], _order: &Order) {
        walk.first().unwrap();
        for entry in model {
            assert_eq!(walk.entry().as_ref(), Some(entry));
            walk.next().unwrap();
        }
        assert_eq!(walk.entry(), None);
        walk.last().unwrap();
        for entry in model.iter().rev() {
            assert_eq!(walk.entry().as_ref(), Some(entry));
            walk.previous().unwrap();
        }
        assert_eq!(walk.entry(), None);
    }
}

#[test]
fn every_entry_is_visited_once_in_each_direction() {
    on_every_block(BothDirections);
    let mut cursor = Cursor::default();
    for table in tables() {
        for block in [table.metaindex(), table.meta_block("rocksdb.properties").unwrap()] {
            let mut walk = DataWalk::new(&mut cursor, block).unwrap();
            BothDirections.check(&mut walk, &entries(block), &Order::BYTEWISE);
        }
    }
}

/// Returns seek targets for a block with these keys: each key, keys slightly before and after it,
/// and two targets for the ends of the block.
fn targets<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut targets = vec![vec![0; 8], vec![0xff; 40]];
    for key in keys {
        let (head, trailer) = key.split_at(key.len().saturating_sub(8));
        targets.push(key.to_vec());
        targets.push([head, &[0], trailer].concat());
        targets.push([head, &[0xff; 8]].concat());
        targets.push([head, &[0; 8]].concat());
        targets.push([&head[..head.len() / 2], trailer].concat());
    }
    targets
}

struct SeekAgainstScan;

impl Check for SeekAgainstScan {
    fn check<W: Walk>(&mut self, walk: &mut W, model: &[W::Entry], order: &Order) {
        for target in targets(model.iter().map(W::key)) {
            walk.seek(&target, order).unwrap();
            let found = model.iter().find(|entry| order.compare(W::key(entry), &target).is_ge());
            assert_eq!(walk.entry().as_ref(), found, "sought {}", target.escape_ascii());
            // If the seek found no entry, a step back must lead to the last entry.
            let place = found.and_then(|found| model.iter().position(|entry| entry == found));
            let before = place.unwrap_or(model.len()).checked_sub(1);
            walk.previous().unwrap();
            assert_eq!(walk.entry().as_ref(), before.map(|place| &model[place]));
        }
    }
}

#[test]
fn a_seek_finds_what_a_scan_finds() {
    on_every_block(SeekAgainstScan);
}

struct RandomMoves(fastrand::Rng);

impl Check for RandomMoves {
    fn check<W: Walk>(&mut self, walk: &mut W, model: &[W::Entry], order: &Order) {
        let mut place = 0;
        walk.first().unwrap();
        for _ in 0..400 {
            match self.0.u8(..16) {
                0 => {
                    walk.first().unwrap();
                    place = 0;
                }
                1 => {
                    walk.last().unwrap();
                    place = model.len() - 1;
                }
                2 => {
                    place = self.0.usize(..model.len());
                    walk.seek(W::key(&model[place]), order).unwrap();
                }
                3..10 if place > 0 => {
                    walk.previous().unwrap();
                    place -= 1;
                }
                _ if place + 1 < model.len() => {
                    walk.next().unwrap();
                    place += 1;
                }
                _ => {}
            }
            assert_eq!(walk.entry().as_ref(), Some(&model[place]));
        }
    }
}

#[test]
fn random_moves_agree_with_a_list() {
    on_every_block(RandomMoves(random()));
}

/// Returns a random number generator and prints its seed; `TAILWATER_SEED` repeats a run.
fn random() -> fastrand::Rng {
    let given = std::env::var("TAILWATER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| fastrand::u64(..));
    println!("TAILWATER_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

#[test]
fn block_footers_match_the_table_properties() {
    for table in tables() {
        let properties = &table.properties;
        let interval = properties.data_block_restart_interval as usize;
        for block in table.data_blocks() {
            let layout = Layout::parse(block).unwrap();
            let count = entries(block).len().div_ceil(interval);
            assert_eq!(layout.restart_count() as usize, count, "{}", table.name);
            assert_eq!(layout.restart_count() as usize, golden::restarts(block).len());
            assert_eq!(layout.values_apart(), properties.separate_key_value_in_data_block);
            assert_eq!(layout.has_hash_index(), matches!(table.name, "hash" | "hash-apart"));
            assert!(!layout.is_empty() && !layout.keys_uniform());
        }
        let interval = properties.index_block_restart_interval as usize;
        for block in table.index_blocks() {
            let layout = Layout::parse(block).unwrap();
            let count = index_entries(block, table.index_format()).len().div_ceil(interval);
            assert_eq!(layout.restart_count() as usize, count, "{}", table.name);
            assert_eq!(layout.keys_uniform(), table.name == "uniform");
        }
    }
}

/// The trailer with which a get seeks the newest version of a key.
const FIRST: u64 = pack_trailer(MAX_SEQUENCE, ValueType::FOR_SEEK);

fn user_keys(table: &Table) -> Vec<Vec<u8>> {
    let entries = table.data_blocks().into_iter().flat_map(entries);
    entries.map(|entry| entry.key[..entry.key.len() - 8].to_vec()).collect()
}

#[test]
fn a_hash_index_finds_what_a_search_finds() {
    let mut cursor = Cursor::default();
    for table in tables() {
        let mut wanted = user_keys(&table);
        for number in 0..300 {
            wanted.push(format!("absent{number}").into_bytes());
        }
        for block in table.data_blocks() {
            let (layout, model) = (Layout::parse(block).unwrap(), entries(block));
            for user_key in &wanted {
                let target = Target { comparator: &table.comparator(), user_key, trailer: FIRST };
                cursor.seek_for_get(block, &layout, &target).unwrap();
                let has = |key: &[u8]| key[..key.len() - 8] == user_key[..];
                let expected = model.iter().find(|entry| has(&entry.key));
                let found = cursor.valid().then(|| cursor.key()).filter(|key| has(key));
                assert_eq!(found, expected.map(|entry| &entry.key[..]), "{}", table.name);
                if expected.is_none() && cursor.valid() {
                    // The key is absent, so the cursor must be on a later key. If the cursor were
                    // on an earlier key, the get would continue to search.
                    assert_eq!(target.compare(cursor.key()), Ordering::Greater);
                }
            }
        }
    }
}

/// Moves a cursor in every way over bytes that may not form a valid block. Checks only that no walk
/// is endless and that nothing panics; the entries may be arbitrary.
fn wander<W: Walk>(walk: &mut W, limit: usize, target: &[u8]) {
    let mut forwards = walk.first();
    for steps in 0.. {
        if forwards.is_err() || walk.entry().is_none() {
            break;
        }
        assert!(steps <= limit, "more entries than bytes");
        forwards = walk.next();
    }
    let mut backwards = walk.last();
    for steps in 0.. {
        if backwards.is_err() || walk.entry().is_none() {
            break;
        }
        assert!(steps <= limit, "more entries than bytes");
        backwards = walk.previous();
    }
    if walk.seek(target, &Order { user_keys: true, ..Order::BYTEWISE }).is_ok()
        && walk.entry().is_some()
    {
        let _ = walk.next();
        let _ = walk.previous();
        let _ = walk.previous();
    }
}

fn wander_data(cursor: &mut Cursor, block: &[u8], target: &[u8]) {
    let Ok(mut walk) = DataWalk::new(cursor, block) else { return };
    wander(&mut walk, block.len(), target);
    let layout = walk.layout;
    if cursor.seek_to_first(block, &layout).is_ok() {
        while cursor.next_key(block, &layout, MAX_SEQUENCE) {
            let _ = cursor.value(block);
        }
        while cursor.is_newest_value(block, &layout, MAX_SEQUENCE) && cursor.previous_decoded() {
            let _ = cursor.value(block);
        }
    }
    let target = Target { comparator: &Comparator::Bytewise, user_key: target, trailer: FIRST };
    if cursor.seek_for_get(block, &layout, &target).is_ok() {
        let _ = cursor.value(block);
    }
}

fn wander_index(cursor: &mut IndexCursor, block: &[u8], format: IndexFormat, target: &[u8]) {
    if let Ok(mut walk) = IndexWalk::new(cursor, block, format) {
        wander(&mut walk, block.len(), target);
    }
}

/// Calls `read` with every prefix and every suffix of `block`, and with each of its bits flipped.
fn damage(block: &[u8], mut read: impl FnMut(&[u8])) {
    for length in 0..block.len() {
        read(&block[..length]);
        read(&block[block.len() - length..]);
    }
    let mut damaged = block.to_vec();
    for bit in 0..block.len() * 8 {
        damaged[bit / 8] ^= 1 << (bit % 8);
        read(&damaged);
        damaged[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn no_damage_makes_a_cursor_panic_or_loop() {
    let (mut cursor, mut index_cursor) = (Cursor::default(), IndexCursor::default());
    for table in tables() {
        // The last block of a table is its smallest, and has the same format as the table's other
        // blocks.
        let block = table.data_blocks().pop().unwrap();
        let target = entries(block).swap_remove(0).key;
        damage(block, |damaged| wander_data(&mut cursor, damaged, &target));
        let block = table.index_blocks().pop().unwrap();
        let format = table.index_format();
        let target = index_entries(block, format).swap_remove(0).key;
        damage(block, |damaged| wander_index(&mut index_cursor, damaged, format, &target));
    }
}

#[test]
fn a_block_read_in_another_format_never_panics() {
    let (mut cursor, mut index_cursor) = (Cursor::default(), IndexCursor::default());
    for table in tables() {
        for block in table.index_blocks().into_iter().chain(table.data_blocks()) {
            wander_data(&mut cursor, block, b"user");
            for number in 0..4 {
                let format = IndexFormat { delta_values: number & 1 == 1, first_keys: number > 1 };
                wander_index(&mut index_cursor, block, format, b"user");
            }
        }
    }
}

#[test]
fn random_bytes_with_a_plausible_footer_are_survived() {
    let mut random = random();
    let (mut cursor, mut index_cursor) = (Cursor::default(), IndexCursor::default());
    for _ in 0..20_000 {
        let length = random.usize(..120);
        let mut block: Vec<u8> = (0..length).map(|_| random.u8(..) >> random.u8(..8)).collect();
        if random.bool() {
            block.extend_from_slice(&random.u32(..100).to_le_bytes());
        }
        let flags = u32::from(random.bool()) << 28 | u32::from(random.bool()) << 31;
        block.extend_from_slice(&(random.u32(..6) | flags).to_le_bytes());
        wander_data(&mut cursor, &block, b"key");
        let format = IndexFormat { delta_values: random.bool(), first_keys: random.bool() };
        wander_index(&mut index_cursor, &block, format, b"key");
    }
}

#[test]
fn one_cursor_serves_block_after_block() {
    let tables = [table("interval-3"), table("apart"), table("hash"), table("interval-16")];
    let mut random = random();
    let mut kept = Cursor::default();
    for _ in 0..200 {
        let blocks = random.choice(&tables).unwrap().data_blocks();
        let block = *random.choice(&blocks).unwrap();
        let model = entries(block);
        let place = random.usize(..model.len());
        let target = &model[place].key;
        // The call of `previous` below makes the cursor decode entries ahead and keep them. The
        // cursor must not return these entries after it moves to the next block.
        let mut walk = DataWalk::new(&mut kept, block).unwrap();
        walk.seek(target, &Order::BYTEWISE).unwrap();
        assert_eq!(walk.entry().as_ref(), Some(&model[place]));
        walk.previous().unwrap();
        assert_eq!(walk.entry().as_ref(), place.checked_sub(1).map(|place| &model[place]));
    }
}

#[test]
fn an_empty_block_has_no_entries() {
    for block in [&[0, 0, 0, 0][..], &[0, 0, 0, 0, 1, 0, 0, 0][..]] {
        let (mut cursor, mut index_cursor) = (Cursor::default(), IndexCursor::default());
        let mut walk = DataWalk::new(&mut cursor, block).unwrap();
        assert!(walk.layout.is_empty());
        BothDirections.check(&mut walk, &[], &Order::BYTEWISE);
        walk.seek(b"key", &Order::BYTEWISE).unwrap();
        assert_eq!(walk.entry(), None);
        let format = IndexFormat { delta_values: true, first_keys: false };
        let mut walk = IndexWalk::new(&mut index_cursor, block, format).unwrap();
        BothDirections.check(&mut walk, &[], &Order::BYTEWISE);
    }
    assert!(Layout::EMPTY.is_empty());
}
