//! Selects the inputs of a leveled compaction: first the tables that need compaction, then the
//! tables that must be compacted together with them.
//!
//! Source: `db/compaction/compaction_picker_level.cc`.

use crate::compaction::picker::finish::Parts;
use crate::compaction::picker::inputs::Inputs;
use crate::compaction::picker::marked::Marked;
use crate::compaction::picker::tree::Tree;
use crate::options::CompactionPriority;
use crate::version::{Compaction, Reason};

/// The tables with which the selection of a compaction's inputs starts.
pub(super) struct Start<'a> {
    pub(super) inputs: Inputs<'a>,
    pub(super) output_level: usize,
    pub(super) reason: Reason,
    /// Whether the inputs are tables of level 0 that overlap neither each other nor the output
    /// level.
    pub(super) is_level_0_move: bool,
}

/// The output level of tables that are marked for compaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The output level is the level of the tables, so the tables are rewritten within their own
    /// level.
    Same,
    /// The output level is the next deeper level.
    Down,
    /// The output level is the next deeper level. However, tables of the last non-empty level are
    /// rewritten within their own level.
    Next,
    /// The output level is the next deeper level. Tables of the last non-empty level are not
    /// compacted.
    NextExceptLast,
}

/// Returns the next compaction. Returns `None` if no compaction is due, or if running compactions
/// prevent every due compaction.
pub(super) fn pick(tree: &Tree<'_>) -> Option<Compaction> {
    let start = start_by_score(tree)
        .or_else(|| start_by_themselves(tree))
        .or_else(|| {
            start_marked(tree, &tree.marked_at_the_bottom(), Target::Same, Reason::BottommostFiles)
        })
        .or_else(|| start_by_ttl(tree))
        .or_else(|| start_by_period(tree))?;
    complete(tree, start)
}

/// Whether a compaction is due. It may be one that cannot start yet because of running compactions.
pub(super) fn is_needed(tree: &Tree<'_>) -> bool {
    let is_round_robin = tree.options().compaction_pri == CompactionPriority::RoundRobin;
    let goes_down = |&(level, _): &Marked<'_>| {
        (is_round_robin && level > 0) || level + 1 < tree.non_empty_levels
    };
    tree.marked_by_ttl().iter().any(goes_down)
        || !tree.marked_by_period().is_empty()
        || !tree.marked_at_the_bottom().is_empty()
        || !tree.marked_by_themselves().is_empty()
        || tree.scores().iter().any(|score| score.value >= 1.0)
}

/// Selects tables of the level with the highest score. If no table of that level can be compacted
/// now, tries the level with the next lower score. A level with a score below 1 needs no
/// compaction.
fn start_by_score<'a>(tree: &Tree<'a>) -> Option<Start<'a>> {
    let mut level_0_waits = false;
    for score in tree.scores() {
        if score.value < 1.0 {
            break;
        }
        let level = score.level;
        if level == 0 {
            if let Some(start) = tree.start_level_0().or_else(|| tree.start_intra_level_0()) {
                return Some(start);
            }
            level_0_waits = true;
        } else if level_0_waits && level == tree.targets.base_level {
            // A compaction from the base level into the next level would occupy tables that the
            // waiting compaction of level 0 needs.
            continue;
        } else if let Some(inputs) = tree.best_files(level, level + 1) {
            let reason = Reason::LevelMaxLevelSize;
            return Some(Start { inputs, output_level: level + 1, reason, is_level_0_move: false });
        }
    }
    None
}

fn start_by_themselves<'a>(tree: &Tree<'a>) -> Option<Start<'a>> {
    let reason = Reason::FilesMarkedForCompaction;
    start_marked(tree, &tree.marked_by_themselves(), Target::Down, reason)
}

fn start_by_ttl<'a>(tree: &Tree<'a>) -> Option<Start<'a>> {
    let expired = tree.marked_by_ttl();
    let is_round_robin = tree.options().compaction_pri == CompactionPriority::RoundRobin;
    if let Some(&(level, _)) = expired.first()
        && is_round_robin
        && level > 0
        && let Some(inputs) = tree.best_files(level, level + 1)
    {
        let reason = Reason::RoundRobinTtl;
        return Some(Start { inputs, output_level: level + 1, reason, is_level_0_move: false });
    }
    start_marked(tree, &expired, Target::NextExceptLast, Reason::Ttl)
}

fn start_by_period<'a>(tree: &Tree<'a>) -> Option<Start<'a>> {
    let target = if tree.options().level_compaction_dynamic_level_bytes {
        Target::Next
    } else {
        Target::Same
    };
    start_marked(tree, &tree.marked_by_period(), target, Reason::PeriodicCompaction)
}

/// Selects the first of the marked tables that can be compacted now.
fn start_marked<'a>(
    tree: &Tree<'a>,
    marked: &[Marked<'a>],
    target: Target,
    reason: Reason,
) -> Option<Start<'a>> {
    marked.iter().find_map(|&(level, file)| {
        let is_last = level + 1 >= tree.non_empty_levels;
        let stays = target == Target::NextExceptLast && is_last;
        if stays || (level == 0 && tree.is_level_0_busy()) {
            return None;
        }
        let down = if level == 0 { tree.targets.base_level } else { level + 1 };
        let output_level = match target {
            Target::Same => level,
            Target::Next if is_last => level,
            Target::Down | Target::Next | Target::NextExceptLast => down,
        };
        let mut inputs = Inputs { level, files: vec![file] };
        tree.widen_to_clean_cut(&mut inputs).ok()?;
        Some(Start { inputs, output_level, reason, is_level_0_move: false })
    })
}

/// Adds to the inputs in `start` the tables that must be compacted together with them. Returns
/// `None` if some of the added tables are not available now.
fn complete(tree: &Tree<'_>, start: Start<'_>) -> Option<Compaction> {
    let Start { mut inputs, output_level, reason, is_level_0_move } = start;
    let is_from_level_0 = inputs.level == 0;
    if is_from_level_0 && output_level != 0 && !is_level_0_move {
        inputs.files = tree.overlapping(0, tree.range(&inputs).bounds());
        let range = tree.range(&inputs);
        Inputs { level: output_level, files: tree.overlapping(output_level, range.bounds()) }
            .check_free()
            .ok()?;
    }
    let mut outputs = None;
    let mut grandparents = Vec::new();
    if output_level != 0 {
        let is_round_robin = tree.options().compaction_pri == CompactionPriority::RoundRobin
            && reason == Reason::LevelMaxLevelSize;
        if is_round_robin {
            tree.widen_round_robin(&mut inputs, output_level);
        }
        if !is_level_0_move {
            outputs = tree.join_output_level(&mut inputs, output_level, is_round_robin).ok()?;
        }
        let all: Vec<&Inputs<'_>> = [&inputs].into_iter().chain(&outputs).collect();
        if tree.collides(&all, output_level) {
            return None;
        }
        if !is_level_0_move {
            grandparents = tree.grandparents(output_level, tree.range_of_all(&all));
        }
    }
    let may_overlap =
        is_from_level_0 && !is_level_0_move && (outputs.is_some() || inputs.files.len() > 1);
    let inputs = [inputs].into_iter().chain(outputs).collect();
    let parts = Parts { inputs, output_level, reason, grandparents, may_overlap };
    Some(tree.finish(parts))
}

impl<'a> Tree<'a> {
    /// Returns the inputs of a compaction of `level`. They start from the table that has the
    /// highest priority among those that can be compacted now, and are widened to clean cuts
    /// (boundaries between tables that share no user key).
    pub(super) fn best_files(&self, level: usize, output_level: usize) -> Option<Inputs<'a>> {
        let files = self.files(level);
        let is_round_robin = self.options().compaction_pri == CompactionPriority::RoundRobin;
        for place in self.by_priority(level) {
            let inputs = Inputs { level, files: vec![&files[place]] };
            match self.try_file(inputs, output_level, place) {
                // Under round robin, no table is compacted before the next one in turn.
                None if is_round_robin => return None,
                None => {}
                found => return found,
            }
        }
        None
    }

    /// Widens `inputs`, which has one table, until no user key is both in it and in a neighbouring
    /// table. Returns `None` if any table that the compaction needs is already being compacted.
    fn try_file(
        &self,
        mut inputs: Inputs<'a>,
        output_level: usize,
        place: usize,
    ) -> Option<Inputs<'a>> {
        inputs.check_free().ok()?;
        self.widen_to_clean_cut(&mut inputs).ok()?;
        if self.collides(&[&inputs], output_level) {
            return None;
        }
        let files = self.overlapping(output_level, self.range(&inputs).bounds());
        if !files.is_empty() {
            let mut outputs = Inputs { level: output_level, files };
            self.widen_to_clean_cut(&mut outputs).ok()?;
        } else if inputs.level > 0 {
            let only_right = self.options().compaction_pri == CompactionPriority::RoundRobin;
            self.extend_move(&mut inputs, output_level, place, only_right);
        }
        Some(inputs)
    }
}
