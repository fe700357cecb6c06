//! Tests of block cursors on blocks with random keys and options: a seek must find the entry that a
//! scan of the block finds.

use super::{Check, DataWalk, IndexWalk, Order, RandomMoves, SeekAgainstScan, random, targets};
use crate::block::golden::{entries, index_entries};
use crate::block::{
    Builder, BuilderOptions, Cursor, IndexBuilder, IndexBuilderOptions, IndexCursor, IndexFormat,
    Layout, Target,
};
use crate::comparator::Comparator;
use crate::key::{self, MAX_SEQUENCE, pack_trailer};
use crate::table::{BLOCK_TRAILER_LENGTH, BlockHandle};

/// Returns a random element of `choices`.
pub(super) fn one<T: Copy>(random: &mut fastrand::Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

/// Returns sorted random internal keys. Many user keys are prefixes of others, consist of bytes
/// that also occur in trailers, and have several versions.
pub(super) fn random_keys(random: &mut fastrand::Rng, order: &Order) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for _ in 0..random.usize(1..40) {
        let mut user_key =
            one(random, &["", "a", "aaaaaaaa", "aaaaaaaaaaaaaaaa"]).as_bytes().to_vec();
        let bytes = random.usize(..8);
        user_key.extend((0..bytes).map(|_| one(random, &[0, 1, b'a', 0xff])));
        for _ in 0..one(random, &[1, 1, 5]) {
            let any = random.u64(..=MAX_SEQUENCE);
            let sequence = one(random, &[0, 1, 0x0101_0101, MAX_SEQUENCE, any]);
            let mut key = Vec::new();
            key::put_internal_key(&mut key, &user_key, pack_trailer(sequence, 1));
            keys.push(key);
        }
    }
    keys.sort_by(|a, b| order.compare(a, b));
    keys.dedup();
    keys
}

/// Checks that a get finds the entry that a scan finds, for keys in the block and near them.
fn check_gets(cursor: &mut Cursor, block: &[u8], keys: &[Vec<u8>], order: &Order) {
    let layout = Layout::parse(block).unwrap();
    for sought in targets(keys.iter().map(Vec::as_slice)) {
        let (user_key, trailer) = key::split(&sought).unwrap();
        let target = Target { comparator: &order.comparator, user_key, trailer };
        cursor.seek_for_get(block, &layout, &target).unwrap();
        let has = |key: &&[u8]| key::user_key(key) == user_key;
        let first = keys.iter().find(|key| order.compare(key, &sought).is_ge());
        let found = cursor.valid().then(|| cursor.key()).filter(has);
        assert_eq!(found, first.map(Vec::as_slice).filter(has), "got {}", sought.escape_ascii());
        // If the cursor is past the end, the get continues in the next block. That is wrong if the
        // sought user key sorts before the last user key of this block.
        let last = key::user_key(keys.last().unwrap());
        assert!(cursor.valid() || order.comparator.compare(last, user_key).is_le());
    }
}

#[test]
fn a_seek_in_a_block_of_any_form_finds_what_a_scan_finds() {
    let mut random = random();
    let mut moves = RandomMoves(random.fork());
    let (mut cursor, mut index_cursor) = (Cursor::default(), IndexCursor::default());
    for round in 0..600 {
        let comparator = match round % 4 {
            0 => Comparator::ReverseBytewise,
            _ => Comparator::Bytewise,
        };
        let order = Order { comparator, user_keys: false };
        let mut keys = random_keys(&mut random, &order);
        let options = BuilderOptions {
            restart_interval: one(&mut random, &[1, 2, 3, 16, 1000]),
            delta_keys: random.u8(..5) > 0,
            values_apart: random.u8(..4) == 0,
            hash_index_utilization: random.bool().then_some(0.75),
        };
        let (mut builder, mut block) = (Builder::new(options), Vec::new());
        keys.iter().for_each(|key| builder.add(key, &key[..random.usize(..=key.len())]));
        builder.finish(&mut block).unwrap();
        let mut walk = DataWalk::new(&mut cursor, &block).unwrap();
        let model = entries(&block);
        SeekAgainstScan.check(&mut walk, &model, &order);
        moves.check(&mut walk, &model, &order);
        check_gets(&mut cursor, &block, &keys, &order);

        let order = Order { user_keys: random.bool(), ..order };
        if order.user_keys {
            keys.dedup_by(|a, b| key::user_key(a) == key::user_key(b));
        }
        let format = IndexFormat { delta_values: random.bool(), first_keys: random.bool() };
        let mut builder = IndexBuilder::new(IndexBuilderOptions {
            restart_interval: one(&mut random, &[1, 2, 3, 100]),
            format,
            internal_keys: !order.user_keys,
        });
        let mut offset = 0;
        for key in &keys {
            let size = random.u64(1..5000);
            builder.add(key, BlockHandle { offset, size }, key);
            offset += size + BLOCK_TRAILER_LENGTH as u64 + one(&mut random, &[0, 0, 3]);
        }
        block.clear();
        builder.finish(&mut block).unwrap();
        let model = index_entries(&block, format);
        for prefixes in [false, true] {
            let mut walk = IndexWalk::new(&mut index_cursor, &block, format).unwrap();
            walk.prefixes = prefixes;
            SeekAgainstScan.check(&mut walk, &model, &order);
            moves.check(&mut walk, &model, &order);
        }
    }
}
