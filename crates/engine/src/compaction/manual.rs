//! Manual compactions, which run on the caller's thread.

use std::sync::Arc;

use super::claim::Picked;
use super::picker::{self, BottommostRewrite, ManualPick, ManualRange, ManualStep, PickContext};
use super::scheduler::CompactionScheduler;
use crate::column_family::ColumnFamily;
use crate::error::{Error, ErrorKind, Result};
use crate::setters::setters;

/// Options of a manual compaction. Names and defaults are those of RocksDB's `CompactRangeOptions`.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = tailwater::Db::open_default(directory.path())?;
/// use tailwater::{BottommostRewrite, CompactRangeOptions};
///
/// db.put("key", "value")?;
/// db.compact_range(None, None)?;
/// let number = db.live_files().first().map(|file| file.number);
///
/// // Tables of the last level are only rewritten on request, for example with a new compression.
/// db.set_options(&[("compression", "kZSTD")])?;
/// let rewrite = CompactRangeOptions::new()
///     .with_bottommost_level_compaction(BottommostRewrite::Force);
/// db.compact_range_opt(Some(b"a"), Some(b"z"), &rewrite)?;
/// assert_ne!(db.live_files().first().map(|file| file.number), number);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactRangeOptions {
    /// Whether the tables of the last level are rewritten.
    pub bottommost_level_compaction: BottommostRewrite,
}

impl CompactRangeOptions {
    /// Returns the default options.
    pub const fn new() -> Self {
        Self { bottommost_level_compaction: BottommostRewrite::IfHaveCompactionFilter }
    }
}

setters!(CompactRangeOptions {
    with_bottommost_level_compaction(bottommost_level_compaction: BottommostRewrite),
});

impl CompactionScheduler {
    /// Compacts a range of keys, both ends included, level by level down to the last. The
    /// compactions run on the caller's thread, alongside background compactions.
    pub(crate) fn compact_range(
        &self,
        family: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let rewrite = options.bottommost_level_compaction;
        let requested_at = self.context.numbers.next();
        let first = self
            .with_context(&self.versions.lock(), family, |it| {
                picker::first_step(it, begin, end, rewrite)
            })
            .ok_or_else(|| self.why_not_compacted(family))?;
        let mut next = first;
        while let Some(step) = next {
            let ManualStep { input_level, output_level } = step;
            let spares_new = input_level == output_level && rewrite != BottommostRewrite::Force;
            let range =
                ManualRange { input_level, output_level, begin, end, requested_at, spares_new };
            self.carry_out_step(family, range)?;
            next = self
                .with_context(&self.versions.lock(), family, |it| {
                    picker::next_step(it, step, rewrite)
                })
                .ok_or_else(|| self.why_not_compacted(family))?;
        }
        Ok(())
    }

    /// Marks the tables with a range of keys, both ends included, for compaction to the next level,
    /// except those of the last non-empty level.
    pub(crate) fn suggest_range(
        self: &Arc<Self>,
        family: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let suggest = |context: &PickContext<'_>| {
            for table in picker::tables_to_suggest(context, begin, end) {
                table.compaction.set_suggested();
            }
        };
        self.with_context(&self.versions.lock(), family, suggest)
            .ok_or_else(|| self.why_not_compacted(family))?;
        self.compact_soon();
        Ok(())
    }

    /// Compacts a range of keys from one level to another. This may take several compactions.
    fn carry_out_step(&self, family: &ColumnFamily, range: ManualRange<'_>) -> Result<()> {
        let manual = self.context.background.manual();
        let mut begin = range.begin.map(<[u8]>::to_vec);
        loop {
            manual.check()?;
            let running = self.context.background.begin_compaction()?;
            let range = ManualRange { begin: begin.as_deref(), ..range };
            let mut versions = self.versions.lock_to_claim();
            let picked = self.with_context(&versions, family, |context| {
                match picker::pick_range(context, range) {
                    ManualPick::Nothing => Next::Done,
                    ManualPick::Conflict => Next::Wait,
                    ManualPick::Compact { compaction, next_begin } => {
                        Next::Compact(Picked::new(context, compaction), next_begin)
                    }
                }
            });
            match picked.ok_or_else(|| self.why_not_compacted(family))? {
                Next::Done => return Ok(()),
                Next::Wait => {
                    drop((versions, running));
                    let _waiting = self.context.stall.pressure().wait();
                    self.context.background.wait_for_compaction();
                }
                Next::Compact(picked, next_begin) => {
                    let claim = self.claim(&mut versions, family, picked);
                    drop(versions);
                    self.compact(&claim.ok_or_else(|| self.why_not_compacted(family))?)?;
                    match next_begin {
                        Some(next) => begin = Some(next),
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    fn why_not_compacted(&self, family: &ColumnFamily) -> Error {
        let name = family.name();
        match self.context.errors.stopped_compactions(family.id()) {
            Some(error) => error.while_doing("compactions stopped after an error"),
            None => Error::new(ErrorKind::NotFound, format!("column family '{name}' was dropped")),
        }
    }
}

/// What to do next for the rest of a range.
enum Next {
    Done,
    Wait,
    Compact(Picked, Option<Vec<u8>>),
}
