//! Properties that report memory: memtables, the block cache, open tables, and memory pinned by
//! readers.

use std::fmt::Write as _;

use tailwater_io::buffer::aligned_buffer_bytes;
use tailwater_io::kernel::{Memory, System};

use super::saturating_sum;
use super::tables::open_table_bytes;
use crate::cache::AutoSizes;
use crate::column_family::{ColumnFamily, SuperVersion};
use crate::memtable::Counters;

/// Returns a numeric property of memtables or the block cache.
pub(super) fn number(family: &ColumnFamily, source: &SuperVersion, name: &str) -> Option<u64> {
    let (active, immutable) = source.memtables().split_first()?;
    let sum = |what: fn(&Counters) -> u64| {
        saturating_sum(immutable.iter().map(|memtable| what(&memtable.counters())))
    };
    let cache = || source.tables().context().block_cache.as_deref();
    Some(match name {
        "num-immutable-mem-table" => immutable.len() as u64,
        // Always 0, because a memtable is released as soon as it is flushed.
        "num-immutable-mem-table-flushed" => 0,
        "cur-size-active-mem-table" => active.memory_usage() as u64,
        "cur-size-all-mem-tables" => memtable_bytes(source),
        "size-all-mem-tables" => memtable_bytes(source) + pinned_bytes(family),
        "num-entries-active-mem-table" => active.counters().entries,
        "num-entries-imm-mem-tables" => sum(|counters| counters.entries),
        "num-deletes-active-mem-table" => active.counters().deletions,
        "num-deletes-imm-mem-tables" => sum(|counters| counters.deletions),
        "estimate-table-readers-mem" => open_table_bytes(source.version()),
        "block-cache-capacity" => cache().map_or(0, |cache| cache.capacity() as u64),
        "block-cache-usage" => cache().map_or(0, |cache| cache.usage() as u64),
        "block-cache-pinned-usage" => cache().map_or(0, |cache| cache.pinned_usage() as u64),
        _ => return None,
    })
}

/// Returns all uses of memory, one per line, in bytes unless the line states another unit.
pub(super) fn text(family: &ColumnFamily, source: &SuperVersion) -> String {
    let context = source.tables().context();
    let cache = context.block_cache.as_deref();
    let row_bytes = source.tables().rows().map_or(0, |rows| rows.usage_beside(cache));
    let rows = [
        ("memtables", memtable_bytes(source)),
        ("flushed memtables, pinned by readers", pinned_bytes(family)),
        ("block cache", cache.map_or(0, |cache| cache.usage() as u64)),
        ("block cache, pinned by readers", cache.map_or(0, |cache| cache.pinned_usage() as u64)),
        ("row cache, unless it is the block cache", row_bytes as u64),
        ("open tables, with their indexes and filters", open_table_bytes(source.version())),
        ("read-ahead of iterators", context.reader_memory.read_ahead_bytes()),
        ("users' reads in flight", context.in_flight.buffers().in_use() as u64),
        ("users' reads in flight, at most so far", context.in_flight.buffers().peak() as u64),
        ("number of iterators", context.reader_memory.iterators()),
        ("buffers of all databases for reading and writing", aligned_buffer_bytes() as u64),
        (
            "the whole process, without code and page cache",
            Memory::of_this_process(System::default()).anonymous().unwrap_or_default(),
        ),
    ];
    rows.iter().fold(String::new(), |mut text, (what, bytes)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{what:<49} {bytes:>16}");
        text
    })
}

/// Returns the capacity of a block cache that sizes itself, and the counts on which its sizing
/// depends, one number per line. Returns `None` for a cache with a fixed size.
pub(super) fn block_cache_size(source: &SuperVersion) -> Option<String> {
    let cache = source.tables().context().block_cache.as_deref()?;
    let AutoSizes { ceiling, grown, shrunk, ghosts } = cache.auto_sizes()?;
    Some(format!(
        "capacity {}\nusage {}\nceiling {ceiling}\ngrown {grown}\nshrunk {shrunk}\n\
         sampled inserts {}\nof them recently evicted {}\n",
        cache.capacity(),
        cache.usage(),
        ghosts.inserted,
        ghosts.near
    ))
}

/// Returns the total size in bytes of flushed memtables that reads keep in memory.
pub(super) fn pinned_bytes(family: &ColumnFamily) -> u64 {
    let pinned = family.pinned_memtables();
    saturating_sum(pinned.iter().map(|memtable| memtable.memory_usage() as u64))
}

fn memtable_bytes(source: &SuperVersion) -> u64 {
    saturating_sum(source.memtables().iter().map(|memtable| memtable.memory_usage() as u64))
}
