//! Properties that report the activity since the database was opened.

use std::sync::Arc;

use super::blobs::{blob_file_bytes, blob_garbage_bytes};
use super::saturating_sum;
use crate::column_family::ColumnFamily;
use crate::compaction::{level_scores, stall_conditions};
use crate::db::Db;
use crate::stats::Statistics;
use crate::stats::report::{FamilyState, LevelState, database_text, family_text, stall_text};
use crate::table::FileMetadata;

impl Db {
    /// Returns the text of the property `name`, if this property reports the activity of flushes,
    /// compactions or writes.
    pub(super) fn report(&self, family: &ColumnFamily, name: &str) -> Option<String> {
        let shared = &self.inner.shared;
        let database =
            || database_text(&shared.activity.done(), &shared.activity.done_at_last_dump());
        let levels = || {
            let state = report_state(family, shared.activity.seconds());
            family_text(&state, family.statistics())
        };
        Some(match name {
            "stats" => levels() + &database(),
            "cfstats" | "cfstats-no-file-histogram" => levels(),
            "cf-write-stall-stats" => stall_text(&family.statistics().stalls, None),
            "dbstats" => database(),
            "db-write-stall-stats" => {
                database().lines().last().map(|line| format!("{line}\n")).unwrap_or_default()
            }
            "options-statistics" => {
                shared.statistics.as_deref().map(Statistics::text).unwrap_or_default()
            }
            _ => return None,
        })
    }
}

/// Returns the state of a column family's levels and blob files. `seconds` is the time since the
/// database was opened.
pub(crate) fn report_state(family: &ColumnFamily, seconds: f64) -> FamilyState {
    let source = family.super_version();
    let version = source.version();
    let scores = level_scores(version, &family.options(), family.comparator());
    let is_taken = |file: &&Arc<FileMetadata>| file.compaction.is_claimed();
    let levels = version.levels().iter().zip(scores).map(|(level, score)| LevelState {
        files: level.files().len(),
        files_being_compacted: level.files().iter().filter(is_taken).count(),
        bytes: saturating_sum(level.files().iter().map(|file| file.size())),
        score,
    });
    FamilyState {
        name: family.name().to_owned(),
        levels: levels.collect(),
        blob_files: version.blob_files().len(),
        blob_bytes: blob_file_bytes(version),
        blob_garbage_bytes: blob_garbage_bytes(version),
        pending_compaction_bytes: stall_conditions(family).pending_compaction_bytes,
        seconds,
    }
}
