//! Loading several blocks together: those that are not in the cache are read with several requests
//! in flight.

use std::sync::Arc;

use tailwater_format::table::BlockHandle;
use tailwater_io::in_flight::Span;

use crate::block_cache::{Block, BlockKind};
use crate::cache::Cached;
use crate::error::{Error, Result};
use crate::stats::{Histogram, Statistics};
use crate::table::reader::{ReadProfile, TableReader};

/// A block to load.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) table: Arc<TableReader>,
    pub(crate) handle: BlockHandle,
    pub(crate) kind: BlockKind,
    /// Whether the block was found not to be in the cache, and counted as a miss.
    pub(crate) is_absent: bool,
}

/// Loads blocks for a user's read, and passes each to `receive`, with its index in `wanted`, in any
/// order.
pub(crate) fn load_together(
    wanted: &[Wanted],
    profile: &ReadProfile,
    mut receive: impl FnMut(usize, Result<Arc<Cached<Block>>>),
) {
    let (mut spans, mut absent) = (Vec::new(), Vec::new());
    for (at, Wanted { table, handle, kind, is_absent }) in wanted.iter().enumerate() {
        if !is_absent && let Some(block) = table.resident(*handle, *kind, profile.purpose) {
            receive(at, Ok(block));
            continue;
        }
        match table.file.length_with_trailer(*handle) {
            Ok(length) => {
                let file = Arc::clone(table.file.handle());
                spans.push(Span { file, offset: handle.offset, length });
                absent.push(at);
            }
            Err(error) => receive(at, Err(error)),
        }
    }
    let Some(first) = absent.first() else { return };
    let context = &wanted[*first].table.context;
    let statistics = context.statistics.as_deref();
    let started = statistics.map(Statistics::start);
    context.in_flight.read_together(&spans, profile.purpose, |at, bytes| {
        let block = wanted[absent[at]].unpack(bytes, profile);
        if let (Some(statistics), Some(started)) = (statistics, started) {
            statistics.record_since(Histogram::ReadBlockGet, started);
        }
        receive(absent[at], block);
    });
}

impl Wanted {
    fn unpack(
        &self,
        read: tailwater_io::Result<&[u8]>,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        let Self { table, handle, kind, .. } = self;
        let (file, dictionary) = (&table.file, table.dictionary_for(*kind));
        let raw = read.map_err(Error::from)?;
        file.check_whole(raw, *handle)?;
        let bytes = file.unpack_block(raw, *handle, dictionary, profile.verify_checksums)?;
        table.keep_read(*handle, *kind, bytes, profile)
    }
}
