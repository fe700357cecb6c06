//! Compactions that somebody asks for, by a range of keys.
//!
//! A range goes down level by level, from the first that overlaps it to the last, each in as many
//! compactions as `max_compaction_bytes` makes of it ([`first_step`], [`next_step`]). At the end
//! the tables of the last level can be rewritten, those apart that came there on the way.
//!
//! Under universal and FIFO compaction everything is merged at once.
//!
//! Source: `CompactRangeInternal` in `db/db_impl/db_impl_compaction_flush.cc`,
//! `PickCompactionForCompactRange` in `db/compaction/compaction_picker.cc`.

use tailwater_format::key::{MAX_SEQUENCE, ValueType, pack_trailer, put_internal_key};

use crate::compaction::picker::PickContext;
use crate::compaction::picker::finish::Parts;
use crate::compaction::picker::inputs::{Busy, Inputs};
use crate::compaction::picker::key_range::{Bounds, KeyRange};
use crate::compaction::picker::tree::{Files, Tree, total_size};
use crate::compaction::{Compaction, Reason};
use crate::options::CompactionStyle;

/// What is to be compacted. Under universal and FIFO compaction it is everything, whatever is said
/// here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ManualRange<'k> {
    pub(crate) input_level: usize,
    /// The levels between the two are empty.
    pub(crate) output_level: usize,
    /// The first user key, inclusive; `None` for all from the first on.
    pub(crate) begin: Option<&'k [u8]>,
    /// The last user key, inclusive; `None` for all up to the last.
    pub(crate) end: Option<&'k [u8]>,
    /// Only tables with a lower number than this, for a rewrite that spares what the same request
    /// wrote.
    pub(crate) older_than: Option<u64>,
    /// The number that the next table would have had when this was asked for: what was written
    /// since need not go down.
    pub(crate) asked_at: u64,
}

/// What a compaction that somebody asks for begins with.
#[derive(Debug)]
pub(crate) enum ManualPick {
    /// The range holds nothing that is to be compacted.
    Nothing,
    /// A running compaction is in the way: to be tried again when one has ended.
    Conflict,
    /// This.
    Compact {
        compaction: Compaction,
        /// The user key from which on there is more to be compacted, `None` for nothing.
        next_begin: Option<Vec<u8>>,
    },
}

/// From which level to which one a range goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ManualStep {
    pub(crate) input_level: usize,
    /// The same as the input level where tables are rewritten.
    pub(crate) output_level: usize,
}

/// Whether the tables of the last level are rewritten. The names are RocksDB's, of
/// `BottommostLevelCompaction`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BottommostRewrite {
    /// No.
    Skip,
    /// If there is a compaction filter, but for those that the request wrote.
    #[default]
    IfHaveCompactionFilter,
    /// All of them.
    Force,
    /// But for those that the request wrote.
    ForceOptimized,
}

/// The first step of a range of user keys, both inclusive, on its way to the bottom; nothing if no
/// table overlaps it.
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

/// The step after one that is done, if it was not the last. `context` has the version of now.
pub(crate) fn next_step(
    context: &PickContext<'_>,
    done: ManualStep,
    rewrite: BottommostRewrite,
) -> Option<ManualStep> {
    match done.input_level == done.output_level {
        true => None,
        false => step_from(&Tree::new(context), done.output_level, rewrite),
    }
}

fn step_from(tree: &Tree<'_>, level: usize, rewrite: BottommostRewrite) -> Option<ManualStep> {
    let options = tree.options();
    let is_last = match options.level_compaction_dynamic_level_bytes {
        true => level + 1 >= tree.level_count(),
        false => level + 1 >= tree.non_empty_levels,
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

/// The first compaction of a range.
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

/// Where the range goes on of which a compaction was to take tables, and left some because they
/// were too many; `None` where it left none, but such as came after it was asked for.
fn begin_of_rest(
    tree: &Tree<'_>,
    wanted: &Files<'_>,
    compaction: &Compaction,
    range: ManualRange<'_>,
) -> Option<Vec<u8>> {
    let comparator = tree.context.comparator;
    let taken = compaction.inputs.first().map_or(0, |input| input.files.len());
    let left = wanted.iter().take(wanted.len().saturating_sub(taken));
    let left = left.filter(|file| file.number() < range.asked_at);
    let smallest = left.map(|file| file.smallest_user_key());
    let first = smallest.min_by(|a, b| comparator.compare(a, b))?;
    // The tables reach beyond the range.
    let begin = range.begin.filter(|begin| comparator.compare(begin, first).is_gt());
    Some(begin.unwrap_or(first).to_vec())
}

fn pick_level(tree: &Tree<'_>, range: ManualRange<'_>) -> Result<ManualPick, Busy> {
    let ManualRange { input_level, output_level, begin, end, older_than, .. } = range;
    let bounds = InternalBounds::new(begin, end);
    let mut files = tree.overlapping(input_level, bounds.bounds());
    if files.is_empty() {
        return Ok(ManualPick::Nothing);
    }
    if input_level == 0 && tree.is_level_0_busy() {
        return Err(Busy);
    }
    let mut has_more = older_than.is_some_and(|number| keep_older(&mut files, number));
    // Tables of level 0 may overlap, and none may go without an older one.
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

/// Keeps as many tables from the first on as fit into one compaction. Answers whether there are
/// more.
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

/// Keeps the first tables in a row of which each has a lower number than `number`. Answers whether
/// there are more behind a gap.
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
