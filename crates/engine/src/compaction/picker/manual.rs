//! Manual compactions of a key range.
//!
//! A range is compacted level by level, from the first level with tables that overlap the range
//! down to the last level ([`first_step`], [`next_step`]). The last level is the deepest level of
//! the tree or, without dynamic level sizes, the deepest non-empty level. Each level is compacted
//! in compactions of up to `max_compaction_bytes`. Finally, the tables of the last level can be
//! rewritten in place. The rewrite can leave out the tables that the same request has just written.
//!
//! Universal and FIFO compaction ignore the range: all tables of the column family are merged in
//! one compaction.
//!
//! Source: `CompactRangeInternal` in `db/db_impl/db_impl_compaction_flush.cc`,
//! `PickCompactionForCompactRange` in `db/compaction/compaction_picker.cc`.

use std::sync::Arc;

use tailwater_format::key::{MAX_SEQUENCE, ValueType, pack_trailer, put_internal_key};

use crate::compaction::picker::PickContext;
use crate::compaction::picker::finish::Parts;
use crate::compaction::picker::inputs::{Busy, Inputs};
use crate::compaction::picker::key_range::{Bounds, KeyRange};
use crate::compaction::picker::tree::{Files, Tree, total_size};
use crate::options::CompactionStyle;
use crate::table::FileMetadata;
use crate::version::{Compaction, Reason};

/// The range to compact. Universal and FIFO compaction ignore the range and compact all tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ManualRange<'k> {
    pub(crate) input_level: usize,
    /// The level to which the range is compacted. The levels between the input level and this one
    /// are empty.
    pub(crate) output_level: usize,
    /// The first user key, inclusive; `None` is unbounded.
    pub(crate) begin: Option<&'k [u8]>,
    /// The last user key, inclusive; `None` is unbounded.
    pub(crate) end: Option<&'k [u8]>,
    /// The next file number at the time of the request: tables with this number or a higher one
    /// were written later, and need not be compacted.
    pub(crate) requested_at: u64,
    /// Whether those tables are not compacted at all. A rewrite thus skips the tables that the same
    /// request has written.
    pub(crate) spares_new: bool,
}

/// The outcome of picking a manual compaction.
#[derive(Debug)]
pub(crate) enum ManualPick {
    /// The range has nothing to compact.
    Nothing,
    /// A running compaction conflicts with the compaction of the requested range. The caller
    /// retries after any running compaction has ended.
    Conflict,
    /// A compaction.
    Compact {
        compaction: Compaction,
        /// The user key at which the next compaction of the same range begins; `None` if no further
        /// compaction of the range is needed.
        next_begin: Option<Vec<u8>>,
    },
}

/// The levels between which a range is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ManualStep {
    pub(crate) input_level: usize,
    /// The output level; equal to the input level if tables are rewritten.
    pub(crate) output_level: usize,
}

/// Whether the tables of the last level are rewritten. The names are those of RocksDB's
/// `BottommostLevelCompaction`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BottommostRewrite {
    /// Rewrites no table of the last level.
    Skip,
    /// If there is a compaction filter, rewrites the tables of the last level that are older than
    /// the manual compaction. Otherwise rewrites none.
    #[default]
    IfHaveCompactionFilter,
    /// Rewrites all tables of the last level.
    Force,
    /// Rewrites the tables of the last level that are older than the manual compaction.
    ForceOptimized,
}

/// Returns the first step of compacting the user keys from `begin` to `end`, both inclusive.
/// Returns `None` if there is nothing to compact.
pub(crate) fn first_step(
    context: &PickContext<'_>,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
    rewrite: BottommostRewrite,
) -> Option<ManualStep> {
    let tree = Tree::new(context);
    match context.options.compaction_style {
        CompactionStyle::Level => {
            let bounds = InternalBounds::new(begin, end);
            let overlaps = |&level: &usize| !tree.overlapping(level, bounds.bounds()).is_empty();
            let first = (0..tree.non_empty_levels).find(overlaps)?;
            step_from(&tree, first, rewrite)
        }
        CompactionStyle::Universal => {
            let last = tree.level_count() - 1;
            Some(ManualStep { input_level: last, output_level: last })
        }
        CompactionStyle::Fifo => Some(ManualStep { input_level: 0, output_level: 0 }),
        CompactionStyle::None => None,
    }
}

/// Returns the tables that overlap the user keys from `begin` to `end`, both inclusive, except
/// those of the last non-empty level.
pub(crate) fn tables_to_suggest<'a>(
    context: &PickContext<'a>,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
) -> Vec<&'a Arc<FileMetadata>> {
    let tree = Tree::new(context);
    let bounds = InternalBounds::new(begin, end);
    (0..tree.non_empty_levels.saturating_sub(1))
        .flat_map(|level| tree.overlapping(level, bounds.bounds()))
        .collect()
}

/// Returns the step after the step `done`; `None` if `done` was the last.
pub(crate) fn next_step(
    context: &PickContext<'_>,
    done: ManualStep,
    rewrite: BottommostRewrite,
) -> Option<ManualStep> {
    if done.input_level == done.output_level {
        None
    } else {
        step_from(&Tree::new(context), done.output_level, rewrite)
    }
}

fn step_from(tree: &Tree<'_>, level: usize, rewrite: BottommostRewrite) -> Option<ManualStep> {
    let options = tree.options();
    let is_last = if options.level_compaction_dynamic_level_bytes {
        level + 1 >= tree.level_count()
    } else {
        level + 1 >= tree.non_empty_levels
    };
    if level == 0 {
        return Some(ManualStep { input_level: 0, output_level: tree.targets.base_level });
    }
    if !is_last {
        return Some(ManualStep { input_level: level, output_level: level + 1 });
    }
    let has_filter = options.compaction_filter.id().is_some()
        || options.compaction_filter_factory.id().is_some();
    let is_rewritten = match rewrite {
        BottommostRewrite::Skip => false,
        BottommostRewrite::IfHaveCompactionFilter => has_filter,
        BottommostRewrite::Force | BottommostRewrite::ForceOptimized => true,
    };
    is_rewritten.then_some(ManualStep { input_level: level, output_level: level })
}

/// Picks the first compaction of a range.
pub(crate) fn pick_range(context: &PickContext<'_>, range: ManualRange<'_>) -> ManualPick {
    let tree = Tree::new(context);
    let picked = match context.options.compaction_style {
        CompactionStyle::Level => pick_level(&tree, range),
        CompactionStyle::Universal => pick_everything(&tree, range, tree.level_count() - 1),
        CompactionStyle::Fifo => pick_everything(&tree, range, 0),
        CompactionStyle::None => Ok(ManualPick::Nothing),
    };
    picked.unwrap_or_else(|Busy| ManualPick::Conflict)
}

fn pick_everything(
    tree: &Tree<'_>,
    range: ManualRange<'_>,
    output_level: usize,
) -> Result<ManualPick, Busy> {
    let mut inputs: Vec<Inputs<'_>> = Vec::new();
    for level in 0..tree.level_count() {
        let files: Files<'_> = tree.files(level).iter().collect();
        if !files.is_empty() {
            inputs.push(Inputs { level, files });
        }
    }
    let Some(first) = inputs.first() else { return Ok(ManualPick::Nothing) };
    if first.level == 0 && tree.is_level_0_busy() {
        return Err(Busy);
    }
    inputs.iter().try_for_each(Inputs::check_free)?;
    if tree.collides(&inputs.iter().collect::<Vec<_>>(), output_level) {
        return Err(Busy);
    }
    let wanted = first.files.clone();
    let compaction = tree.finish(Parts {
        inputs,
        output_level,
        reason: Reason::ManualCompaction,
        grandparents: Vec::new(),
        may_overlap: true,
    });
    let next_begin = begin_of_rest(tree, &wanted, &compaction, range);
    Ok(ManualPick::Compact { compaction, next_begin })
}

/// Returns the user key at which the next compaction of the range begins. Returns `None` if no
/// table of `wanted` is left for it. A table is left if `compaction` does not take it, and it was
/// written before the request.
fn begin_of_rest(
    tree: &Tree<'_>,
    wanted: &Files<'_>,
    compaction: &Compaction,
    range: ManualRange<'_>,
) -> Option<Vec<u8>> {
    let comparator = tree.context.comparator;
    let taken = compaction.inputs.first().map_or(0, |input| input.files.len());
    let left = wanted.iter().take(wanted.len().saturating_sub(taken));
    let left = left.filter(|file| file.number() < range.requested_at);
    let smallest = left.map(|file| file.smallest_user_key());
    let first = smallest.min_by(|a, b| comparator.compare(a, b))?;
    // If the requested range begins inside the first table that is left, the next compaction begins
    // with the range, not with the table.
    let begin = range.begin.filter(|begin| comparator.compare(begin, first).is_gt());
    Some(begin.unwrap_or(first).to_vec())
}

fn pick_level(tree: &Tree<'_>, range: ManualRange<'_>) -> Result<ManualPick, Busy> {
    let ManualRange { input_level, output_level, begin, end, requested_at, spares_new } = range;
    let bounds = InternalBounds::new(begin, end);
    let mut files = tree.overlapping(input_level, bounds.bounds());
    if files.is_empty() {
        return Ok(ManualPick::Nothing);
    }
    if input_level == 0 && tree.is_level_0_busy() {
        return Err(Busy);
    }
    let mut has_more = spares_new && keep_older(&mut files, requested_at);
    // For level 0, the list of inputs is not shortened here. Tables of level 0 may overlap, so a
    // table may move down only together with the older tables that it overlaps.
    has_more |= input_level > 0 && keep_affordable(tree, &mut files, output_level);
    if files.is_empty() {
        return Ok(ManualPick::Nothing);
    }
    let mut inputs = Inputs { level: input_level, files };
    tree.widen_to_clean_cut(&mut inputs)?;
    let next = tree.file_behind(&inputs).filter(|_| has_more);
    let next_begin = next.map(|file| file.smallest_user_key().to_vec());
    let outputs = tree.join_output_level(&mut inputs, output_level, false)?;
    inputs.check_free()?;
    let all: Vec<&Inputs<'_>> = [&inputs].into_iter().chain(&outputs).collect();
    if tree.collides(&all, output_level) {
        return Err(Busy);
    }
    let grandparents = tree.grandparents(output_level, tree.range_of_all(&all));
    let wanted = inputs.files.clone();
    let compaction = tree.finish(Parts {
        inputs: [inputs].into_iter().chain(outputs).collect(),
        output_level,
        reason: Reason::ManualCompaction,
        grandparents,
        may_overlap: true,
    });
    let next_begin = next_begin.or_else(|| begin_of_rest(tree, &wanted, &compaction, range));
    Ok(ManualPick::Compact { compaction, next_begin })
}

/// Shortens the list `files` so that a compaction of the remaining tables has at most
/// `max_compaction_bytes`. The first table always remains. Returns whether tables were removed from
/// the list.
fn keep_affordable(tree: &Tree<'_>, files: &mut Files<'_>, output_level: usize) -> bool {
    let Some(first) = files.first() else { return false };
    let smallest = first.smallest();
    let mut bytes = first.size();
    let too_many = (1..files.len()).find(|&at| {
        let range = KeyRange { smallest, largest: files[at].largest() };
        bytes = bytes.saturating_add(files[at].size());
        let below = total_size(tree.overlapping(output_level, range.bounds()));
        bytes.saturating_add(below) > tree.options().max_compaction_bytes
    });
    if let Some(at) = too_many {
        files.truncate(at);
    }
    too_many.is_some()
}

/// Keeps only the first uninterrupted sequence of tables whose file numbers are below `number`.
/// Returns whether more tables with such numbers follow it.
fn keep_older(files: &mut Files<'_>, number: u64) -> bool {
    let skipped = files.iter().take_while(|file| file.number() >= number).count();
    files.drain(..skipped);
    let count = files.iter().take_while(|file| file.number() < number).count();
    let behind = files.split_off(count);
    behind.iter().any(|file| file.number() < number)
}

/// The bounds of a range of user keys, as internal keys.
struct InternalBounds {
    begin: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

impl InternalBounds {
    fn new(begin: Option<&[u8]>, end: Option<&[u8]>) -> Self {
        let internal_key = |user_key: &[u8], trailer| {
            let mut internal_key = Vec::new();
            put_internal_key(&mut internal_key, user_key, trailer);
            internal_key
        };
        let first = pack_trailer(MAX_SEQUENCE, ValueType::FOR_SEEK);
        Self {
            begin: begin.map(|begin| internal_key(begin, first)),
            end: end.map(|end| internal_key(end, 0)),
        }
    }

    fn bounds(&self) -> Bounds<'_> {
        Bounds { begin: self.begin.as_deref(), end: self.end.as_deref() }
    }
}
