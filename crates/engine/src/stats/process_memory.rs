//! The memory of all databases of the process.

use std::fmt;

use tailwater_io::buffer::aligned_buffer_bytes;
use tailwater_io::kernel::{Memory, System};

use crate::block_cache;
use crate::memory_counters::Consumer;

/// The memory that all databases of the process use, at one time. What databases share, such as
/// caches, counts once. Memory counts until it is freed, even if the database was closed: an
/// iterator or a value that is held without a copy may keep it.
///
/// Not counted: stacks of threads, iterators without their read-ahead, blocks that a cache without
/// a strict capacity limit refused and that are being read, blocks of a table being written that
/// are not yet in the cache, write batches, statistics, and what the allocator keeps.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use tailwater::{Db, ProcessMemory};
///
/// let first = Db::open_default(directory.join("first"))?;
/// let second = Db::open_default(directory.join("second"))?;
/// first.put("key", vec![0; 1 << 20])?;
/// second.put("key", vec![0; 1 << 20])?;
/// let memory = ProcessMemory::now();
/// assert!(memory.sum() > 2 << 20);
/// print!("{memory}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ProcessMemory {
    parts: [Part; 6],
    anonymous: Option<u64>,
}

/// The memory of one consumer.
#[derive(Debug, Clone, Copy)]
struct Part {
    label: &'static str,
    /// What [`fmt::Display`] calls it.
    name: &'static str,
    bytes: usize,
}

impl ProcessMemory {
    /// Determines the memory. Takes locks that insertions into caches take, but no lock of a read
    /// that finds its block.
    pub fn now() -> Self {
        let part = |label, name, bytes| Part { label, name, bytes };
        let caches = block_cache::memory_of_all();
        Self {
            parts: [
                part("memtables", "memtables", Consumer::MemTables.bytes()),
                part("caches", "block caches and row caches", caches.entries),
                part("cache_slots", "free slots of these caches", caches.spare),
                part(
                    "open_tables",
                    "open tables, beside the block caches",
                    Consumer::Tables.bytes(),
                ),
                part(
                    "new_tables",
                    "indexes and filters of tables being written",
                    Consumer::NewTables.bytes(),
                ),
                part("buffers", "buffers for reading and writing", aligned_buffer_bytes()),
            ],
            anonymous: Memory::of_this_process(System::default()).anonymous(),
        }
    }

    /// Returns the sum of the parts, in bytes.
    pub fn sum(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes as u64).sum()
    }

    /// Returns the parts, which do not overlap, in bytes, each with its label: `memtables`,
    /// `caches` (block caches and row caches), `cache_slots` (free slots in their memory),
    /// `open_tables` (without their blocks in caches), `new_tables` (indexes and filters of tables
    /// being written) and `buffers` (for reading and writing).
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.parts.iter().map(|part| (part.label, part.bytes as u64))
    }

    /// Returns the memory of the whole process in bytes, without code and page cache; `None` if the
    /// system does not tell it. The difference to [`Self::sum`] is what is not counted, and the
    /// memory of the rest of the program.
    pub fn anonymous(&self) -> Option<u64> {
        self.anonymous
    }

    /// Returns the parts and their sum in Prometheus's text format.
    pub fn to_prometheus(&self) -> String {
        let mut text = String::from(
            "# HELP tailwater_process_memory_bytes Memory of all databases of the process.\n\
             # TYPE tailwater_process_memory_bytes gauge\n",
        );
        for Part { label, bytes, .. } in self.parts {
            text += &format!("tailwater_process_memory_bytes{{part=\"{label}\"}} {bytes}\n");
        }
        if let Some(anonymous) = self.anonymous {
            text += &format!(
                "# HELP tailwater_process_anonymous_bytes Anonymous memory of the process.\n\
                 # TYPE tailwater_process_anonymous_bytes gauge\n\
                 tailwater_process_anonymous_bytes {anonymous}\n"
            );
        }
        text
    }
}

impl fmt::Display for ProcessMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, bytes: u64| writeln!(f, "{name:<49} {bytes:>16}");
        for Part { name, bytes, .. } in self.parts {
            line(name, bytes as u64)?;
        }
        line("sum", self.sum())?;
        match self.anonymous {
            Some(bytes) => line("the whole process, without code and page cache", bytes),
            None => Ok(()),
        }
    }
}
