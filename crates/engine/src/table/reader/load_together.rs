//! Loading several blocks together: those that are not in the cache are read with several requests
//! in flight.

use std::sync::Arc;

use tailwater_format::table::BlockHandle;
use tailwater_io::charge_reads;
use tailwater_io::in_flight::{Span, Together};

use crate::block_cache::{Block, BlockKind};
use crate::cache::Cached;
use crate::error::{Error, Result};
use crate::stats::{Histogram, Started, Statistics};
use crate::table::reader::{ReadProfile, TableContext, TableReader};

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
    let timer = Timer::start(context);
    let _charged = charge_reads(profile.charged);
    context.in_flight.read_together(&spans, profile.purpose, |at, bytes| {
        let block = wanted[absent[at]].unpack(bytes, profile);
        timer.record();
        receive(absent[at], block);
    });
}

/// Blocks to load for a user's read that become known one after the other, and are not in the
/// cache. Each is read from the moment when it is known.
pub(crate) struct LoadTogether<'a> {
    context: &'a TableContext,
    profile: &'a ReadProfile,
    wanted: Vec<Wanted>,
    /// The indices of the blocks that are read.
    read: Vec<usize>,
    failed: Vec<(usize, Error)>,
    reads: Together<'a>,
    /// Begun with the first block.
    timer: Option<Timer<'a>>,
}

impl<'a> LoadTogether<'a> {
    pub(crate) fn new(context: &'a TableContext, profile: &'a ReadProfile) -> Self {
        Self {
            context,
            profile,
            wanted: Vec::new(),
            read: Vec::new(),
            failed: Vec::new(),
            reads: context.in_flight.begin_together(profile.purpose),
            timer: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Adds a block, and begins to read it if it is not the only one.
    pub(crate) fn add(&mut self, wanted: Wanted) {
        let _charged = charge_reads(self.profile.charged);
        self.timer.get_or_insert_with(|| Timer::start(self.context));
        let (at, file) = (self.wanted.len(), &wanted.table.file);
        match file.length_with_trailer(wanted.handle) {
            Ok(length) => {
                let (file, offset) = (Arc::clone(file.handle()), wanted.handle.offset);
                self.reads.add(Span { file, offset, length });
                self.read.push(at);
            }
            Err(error) => self.failed.push((at, error)),
        }
        self.wanted.push(wanted);
    }

    /// Passes each block to `receive`, with its index in the order in which they were added, in any
    /// order.
    pub(crate) fn finish(
        self,
        mut receive: impl FnMut(usize, &Wanted, Result<Arc<Cached<Block>>>),
    ) {
        let Self { profile, wanted, read, failed, reads, timer, .. } = self;
        for (at, error) in failed {
            receive(at, &wanted[at], Err(error));
        }
        let _charged = charge_reads(profile.charged);
        reads.finish(|number, bytes| {
            let at = read[number];
            let block = wanted[at].unpack(bytes, profile);
            if let Some(timer) = &timer {
                timer.record();
            }
            receive(at, &wanted[at], block);
        });
    }
}

/// Adds the time until blocks are loaded to the statistics, if there are any.
struct Timer<'a>(Option<(&'a Statistics, Started)>);

impl<'a> Timer<'a> {
    fn start(context: &'a TableContext) -> Self {
        Self(context.statistics.as_deref().map(|statistics| (statistics, statistics.start())))
    }

    fn record(&self) {
        if let Some((statistics, started)) = self.0 {
            statistics.record_since(Histogram::ReadBlockGet, started);
        }
    }
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
