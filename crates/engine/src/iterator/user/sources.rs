//! The sources of an iterator: the memtables and tables of a super version.

use std::sync::Arc;

use tailwater_format::key::{self, Sequence};

use super::ReadSettings;
use crate::column_family::SuperVersion;
use crate::error::{Error, Result};
use crate::iterator::{Direction, Leaf, LevelIterator};
use crate::skipped_damage::{SkippedDamage, SkippedKeys};
use crate::table::{ReadProfile, TableCache, TableIterator};
use crate::version::Level;

/// Returns the sources of a super version, newest first. `old` holds the sources of an earlier
/// super version; those that are also part of the new one are reused.
///
/// With a target, each new source is positioned: forward, at its first record at or after the
/// target; backward, at its last record at or before the target. A reused source keeps its
/// position. The caller must have ensured that this position is at or after the target (forward),
/// or at or before the target (backward). Without a target, new sources have no position, and the
/// caller must seek in all sources.
pub(super) fn leaves(
    source: &SuperVersion,
    snapshot: Sequence,
    settings: &ReadSettings,
    mut old: Vec<Leaf>,
    target: Option<(&[u8], Direction)>,
) -> Result<Vec<Leaf>> {
    let tables = source.tables();
    let profile = &settings.profile;
    let mut kept =
        |is_it: &dyn Fn(&Leaf) -> bool| old.iter().position(is_it).map(|at| old.swap_remove(at));
    let positioned = |mut leaf: Leaf| {
        match target {
            Some((target, Direction::Forward)) => leaf.seek(target)?,
            Some((target, Direction::Backward)) => leaf.seek_for_prev(target)?,
            None => {}
        }
        Ok::<Leaf, Error>(leaf)
    };
    let mut levels = source.version().levels();
    let readable_levels: Vec<Arc<Level>>;
    if let Some(record) = &settings.skipped_damage {
        let readable = levels.iter().map(|level| readable(level, tables, profile, record));
        readable_levels = readable.collect::<Result<_>>()?;
        levels = &readable_levels;
    }
    let level_0 = levels.first().map_or(&[][..], |level| level.files());
    let deeper =
        || levels.iter().enumerate().skip(1).filter(|(_, level)| !level.files().is_empty());
    let count = source.memtables().len() + level_0.len() + deeper().count();
    let mut leaves = Vec::with_capacity(count);
    for memtable in source.memtables() {
        leaves.push(match kept(&|leaf| leaf.is_of_memtable(memtable)) {
            Some(leaf) => leaf,
            None => positioned(Leaf::of_memtable(Arc::clone(memtable), snapshot))?,
        });
    }
    for file in level_0 {
        if let Some(mut leaf) = kept(&|leaf| leaf.is_of_file(file)) {
            leaf.set_prefixes(tables.context().prefix_extractor.clone());
            leaves.push(leaf);
            continue;
        }
        let table = tables.open(file, profile.purpose)?;
        let mut iterator = TableIterator::new(table, *profile, &settings.plan);
        iterator.set_prefixes(tables.context().prefix_extractor.clone());
        iterator.skip_damage(settings.skipped_damage.clone());
        leaves.push(positioned(Leaf::of_table(iterator, file, snapshot)?)?);
    }
    for (number, level) in deeper() {
        leaves.push(match kept(&|leaf| leaf.is_of_level(number)) {
            Some(Leaf::Level(mut leaf)) => {
                leaf.go_over(level, tables, target)?;
                Leaf::Level(leaf)
            }
            _ => {
                let mut leaf = LevelIterator::new(
                    number,
                    Arc::clone(level),
                    Arc::clone(tables),
                    *profile,
                    settings.plan.clone(),
                    snapshot,
                );
                leaf.skip_damage(settings.skipped_damage.clone());
                positioned(Leaf::Level(leaf))?
            }
        });
    }
    Ok(leaves)
}

/// Returns the tables of a level that can be opened. The other ones are skipped and recorded.
fn readable(
    level: &Level,
    tables: &TableCache,
    profile: &ReadProfile,
    record: &SkippedDamage,
) -> Result<Arc<Level>> {
    let mut files = Vec::new();
    for file in level.files() {
        match tables.open(file, profile.purpose) {
            Ok(_) => files.push(Arc::clone(file)),
            Err(error) => record.skip(error, || SkippedKeys::Range {
                from: Some(file.smallest_user_key().to_vec()),
                to: Some(key::user_key(file.largest()).to_vec()),
            })?,
        }
    }
    Ok(Arc::new(Level::new(files)))
}
