//! Stall conditions: the number of memtables and the compaction backlog of each column family,
//! which decide whether writes are stalled.

use crate::column_family::ColumnFamily;
use crate::compaction::{is_behind, pending_compaction_bytes};
use crate::context::Context;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::stall::{FamilyConditions, StallConditions, StallState};
use crate::version::Version;

/// Returns the figures that decide whether a column family stalls writes.
pub(crate) fn stall_conditions(family: &ColumnFamily) -> StallConditions {
    let source = family.super_version();
    let (version, options) = (source.version(), &*source.settings().options);
    let count = |number: i32| usize::try_from(number).unwrap_or(usize::MAX);
    let is_stalled = !options.disable_auto_compactions;
    let pending = if is_stalled { pending_compaction_bytes(version, options) } else { 0 };
    StallConditions {
        family: family.name().to_owned(),
        compacts: is_stalled,
        compacts_by_itself: family.compacts_by_itself(),
        counts_runs: options.compaction_style == CompactionStyle::Universal,
        // All memtables but the active one are sealed.
        sealed_memtables: source.memtables().len() - 1,
        level_0_tables: if is_stalled { sorted_runs(version, options) } else { 0 },
        pending_compaction_bytes: pending,
        is_behind: is_stalled && is_behind(version, options, pending),
        max_write_buffer_number: count(options.max_write_buffer_number),
        min_write_buffer_number_to_merge: count(options.min_write_buffer_number_to_merge),
        level_0_trigger: count(options.level0_file_num_compaction_trigger),
        level_0_slowdown: count(options.level0_slowdown_writes_trigger),
        level_0_stop: count(options.level0_stop_writes_trigger),
        soft_pending_bytes: options.soft_pending_compaction_bytes_limit,
        hard_pending_bytes: options.hard_pending_compaction_bytes_limit,
    }
}

/// Recomputes whether writes are stalled, after the memtables or tables of column families have
/// changed.
pub(crate) fn update_stalls(context: &Context, changed: &[&ColumnFamily]) {
    let families = context.shared.family_set();
    let states = families.iter().map(|family| FamilyConditions {
        id: family.id(),
        conditions: stall_conditions(family),
        has_changed: changed.iter().any(|changed| changed.id() == family.id()),
    });
    let record = |id: u32, state: &StallState| {
        if let Some(family) = families.by_id(id) {
            family.statistics().stalls.record(state);
        }
    };
    let changed = context.stall.update(context.options.now().delayed_write_rate, states, record);
    if context.stall.pressure().is_behind() {
        context.background.compact_soon();
    }
    if let Some(state) = changed {
        match state {
            StallState::Normal => context.info_log.info(format_args!("the write stall ended")),
            StallState::Delayed { bytes_per_second, reason, .. } => context.info_log.warn(
                format_args!("writes are slowed down to {bytes_per_second} bytes/s: {reason}"),
            ),
            StallState::Stopped { reason, .. } => {
                context.info_log.warn(format_args!("writes are stopped: {reason}"));
            }
        }
    }
}

/// Like [`update_stalls`], for all column families.
pub(crate) fn update_all_stalls(context: &Context) {
    let families = context.shared.family_set();
    update_stalls(context, &families.iter().collect::<Vec<_>>());
}

/// Returns the number of tables in level 0, plus, under universal compaction, the number of deeper
/// levels with tables, each of which is a sorted run. Source:
/// `VersionStorageInfo::CalculateBaseBytes` in `db/version_set.cc`.
fn sorted_runs(version: &Version, options: &ColumnFamilyOptions) -> usize {
    let Some((level_0, deeper)) = version.levels().split_first() else { return 0 };
    let runs = match options.compaction_style {
        CompactionStyle::Universal => {
            deeper.iter().filter(|level| !level.files().is_empty()).count()
        }
        _ => 0,
    };
    level_0.files().len() + runs
}
