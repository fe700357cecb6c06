//! Writes well-formed blocks, on which fuzz targets test cursors.
//!
//! The writer supports every variant of the block format: restart intervals, values in a separate
//! section, a hash index, and delta-encoded index values. It is simpler than the engine's writer,
//! and has no optimizations. `tailwater_format::block` describes the format.

use std::collections::BTreeMap;

use tailwater_format::block::IndexFormat;
use tailwater_format::hash::hash_index_hash;
use tailwater_format::key;
use tailwater_format::table::BlockHandle;
use tailwater_format::varint::{
    put_fixed32, put_length_prefixed, put_varint32, put_varint64, put_varsigned64,
};

/// The format of a block.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of entries in a restart interval, at least one.
    pub restart_interval: usize,
    /// Whether values are stored in a separate section, after the keys.
    pub values_apart: bool,
    /// Number of buckets of the hash index; 0 for no hash index. The hash index contains user keys,
    /// so the keys of the block must be internal keys.
    pub buckets: u16,
}

const VALUES_APART: u32 = 1 << 28;
const HASH_INDEX: u32 = 1 << 31;
const COLLISION: u8 = 254;
const NO_ENTRY: u8 = 255;
/// Maximum number of restart points in a block with a hash index. A bucket stores the number of a
/// restart point in one byte, and two values of the byte have a special meaning.
const RESTARTS_MAX: usize = 253;

/// An entry of an index block: a separator key, the location of the data block, and the data
/// block's first key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// The separator: a key at or after every key of the data block.
    pub key: Vec<u8>,
    /// The location of the data block.
    pub handle: BlockHandle,
    /// The first key of the data block; empty if the index does not store first keys.
    pub first_key: Vec<u8>,
}

/// A block under construction.
struct Writer {
    shape: Shape,
    entries: Vec<u8>,
    values: Vec<u8>,
    restarts: Vec<u32>,
    count: usize,
    last_key: Vec<u8>,
}

impl Writer {
    fn new(shape: Shape) -> Self {
        let (entries, values, restarts) = (Vec::new(), Vec::new(), Vec::new());
        Self { shape, entries, values, restarts, count: 0, last_key: Vec::new() }
    }

    /// Writes a key, preceded by its lengths. Returns the number of leading bytes that it shares
    /// with the previous key and that are not written.
    fn key(&mut self, key: &[u8], value_length: Option<usize>) -> usize {
        let at_restart = self.count.is_multiple_of(self.shape.restart_interval);
        let mut shared = 0;
        if at_restart {
            self.restarts.push(self.entries.len() as u32);
        } else {
            shared = self.last_key.iter().zip(key).take_while(|(a, b)| a == b).count();
        }
        put_varint32(&mut self.entries, shared as u32);
        put_varint32(&mut self.entries, (key.len() - shared) as u32);
        if let Some(length) = value_length {
            put_varint32(&mut self.entries, length as u32);
        }
        if self.shape.values_apart && at_restart {
            put_varint32(&mut self.entries, self.values.len() as u32);
        }
        self.entries.extend_from_slice(&key[shared..]);
        self.last_key = key.to_vec();
        self.count += 1;
        shared
    }

    fn value(&mut self, value: &[u8]) {
        let place = if self.shape.values_apart { &mut self.values } else { &mut self.entries };
        place.extend_from_slice(value);
    }

    fn finish(self, buckets: &[u8]) -> Vec<u8> {
        let mut block = self.entries;
        let values_at = block.len() as u32;
        block.extend_from_slice(&self.values);
        for restart in &self.restarts {
            put_fixed32(&mut block, *restart);
        }
        let mut footer = self.restarts.len() as u32;
        if !buckets.is_empty() {
            block.extend_from_slice(buckets);
            block.extend_from_slice(&(buckets.len() as u16).to_le_bytes());
            footer |= HASH_INDEX;
        }
        if self.shape.values_apart {
            put_fixed32(&mut block, values_at);
            footer |= VALUES_APART;
        }
        put_fixed32(&mut block, footer);
        block
    }
}

/// Returns a data or meta block that contains these entries, which must be in order.
pub fn data_block(shape: Shape, entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut writer = Writer::new(shape);
    let mut restart_of = BTreeMap::<&[u8], Option<usize>>::new();
    for (key, value) in entries {
        writer.key(key, Some(value.len()));
        writer.value(value);
        let restart = writer.restarts.len() - 1;
        restart_of
            .entry(key::user_key(key))
            .and_modify(|known| *known = known.filter(|&known| known == restart))
            .or_insert(Some(restart));
    }
    let mut buckets = vec![NO_ENTRY; usize::from(shape.buckets)];
    if writer.restarts.len() > RESTARTS_MAX {
        buckets.clear();
    }
    for (user_key, restart) in restart_of {
        let count = buckets.len().max(1);
        let Some(bucket) = buckets.get_mut(hash_index_hash(user_key) as usize % count) else {
            break;
        };
        *bucket = match restart {
            Some(restart) if *bucket == NO_ENTRY || *bucket == restart as u8 => restart as u8,
            _ => COLLISION,
        };
    }
    writer.finish(&buckets)
}

/// Returns an index block that contains these entries, which must be in order. If index values are
/// delta-encoded, the data blocks must be adjacent in the file.
pub fn index_block(shape: Shape, format: IndexFormat, entries: &[IndexEntry]) -> Vec<u8> {
    let mut writer = Writer::new(shape);
    let mut last = BlockHandle::default();
    for entry in entries {
        let mut first_key = Vec::new();
        if format.first_keys {
            put_length_prefixed(&mut first_key, &entry.first_key);
        }
        let mut value = Vec::new();
        if format.delta_values {
            if writer.key(&entry.key, None) == 0 {
                entry.handle.encode(&mut value);
            } else {
                put_varsigned64(&mut value, entry.handle.size.wrapping_sub(last.size) as i64);
            }
        } else {
            put_varint64(&mut value, entry.handle.offset);
            put_varint64(&mut value, entry.handle.size);
            writer.key(&entry.key, Some(value.len() + first_key.len()));
        }
        value.extend_from_slice(&first_key);
        writer.value(&value);
        last = entry.handle;
    }
    writer.finish(&[])
}
