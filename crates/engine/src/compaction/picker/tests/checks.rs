//! Invariants of every compaction that the picker returns.

use std::sync::Arc;

use tailwater_format::key::{self, MAX_SEQUENCE, ValueType, pack_trailer};

use super::world::World;
use crate::table::FileMetadata;
use crate::version::{Compaction, CompactionKind, InputLevel};

/// Whether a table's largest key is the end of a range tombstone. The table has no record of that
/// user key, since the end is exclusive.
fn is_exclusive(largest: &[u8]) -> bool {
    let exclusive = pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
    key::split(largest).is_some_and(|(_, trailer)| trailer == exclusive)
}

/// Whether two tables can have records of one user key.
fn share_key(world: &World, a: &FileMetadata, b: &FileMetadata) -> bool {
    let reaches = |left: &FileMetadata, right: &FileMetadata| {
        let order = world.comparator.compare(left.largest_user_key(), right.smallest_user_key());
        order.is_gt() || (order.is_eq() && !is_exclusive(left.largest()))
    };
    reaches(a, b) && reaches(b, a)
}

fn has(files: &[Arc<FileMetadata>], file: &Arc<FileMetadata>) -> bool {
    files.iter().any(|other| Arc::ptr_eq(other, file))
}

/// Checks a compaction that is about to begin.
pub(super) fn check(world: &World, compaction: &Compaction) -> Result<(), String> {
    if compaction.inputs.is_empty() {
        return Err("nothing is compacted".to_owned());
    }
    for pair in compaction.inputs.windows(2) {
        if pair[0].level >= pair[1].level {
            return Err("levels are not in order".to_owned());
        }
    }
    for input in &compaction.inputs {
        check_level(world, input)?;
    }
    check_level_0(world, compaction)?;
    check_between(world, compaction)?;
    check_outputs(world, compaction)?;
    check_running(world, compaction)?;
    check_bottommost(world, compaction)?;
    check_move(world, compaction)
}

/// Checks that no input is already being compacted, and that the inputs have the same order as in
/// their level. In levels other than 0, also checks that the inputs are adjacent, and share no user
/// key with the tables before and after them.
fn check_level(world: &World, input: &InputLevel) -> Result<(), String> {
    let files = world.version.levels()[input.level].files();
    let mut places = Vec::new();
    for file in &input.files {
        let number = file.number();
        if file.compaction.is_claimed() {
            return Err(format!("table {number} is being compacted"));
        }
        let place = files.iter().position(|other| Arc::ptr_eq(other, file));
        places.push(place.ok_or_else(|| format!("table {number} is not in its level"))?);
    }
    let (Some(&first), Some(&last)) = (places.first(), places.last()) else {
        return Err(format!("no tables are taken from level {}", input.level));
    };
    if !places.is_sorted_by(|a, b| a < b) {
        return Err(format!("tables of level {} are not in order", input.level));
    }
    if input.level == 0 {
        return Ok(());
    }
    if last - first + 1 != places.len() {
        return Err(format!("tables of level {} are not adjacent", input.level));
    }
    let parted = [first.checked_sub(1).map(|before| (before, first)), Some((last, last + 1))];
    for (left, right) in parted.into_iter().flatten() {
        if right < files.len() && share_key(world, &files[left], &files[right]) {
            let (left, right) = (files[left].number(), files[right].number());
            return Err(format!("tables {left} and {right} share a user key"));
        }
    }
    Ok(())
}

/// If tables of level 0 are compacted to a deeper level, checks that every older table that they
/// overlap is also an input. If they are merged within level 0, checks that they are adjacent.
fn check_level_0(world: &World, compaction: &Compaction) -> Result<(), String> {
    let Some(input) = compaction.inputs.first().filter(|input| input.level == 0) else {
        return Ok(());
    };
    let files = world.version.levels()[0].files();
    let newest = files.iter().position(|file| has(&input.files, file)).unwrap();
    let oldest = files.iter().rposition(|file| has(&input.files, file)).unwrap();
    if compaction.output_level == 0 {
        let is_whole = oldest - newest + 1 == input.files.len();
        return is_whole.then_some(()).ok_or_else(|| "tables of level 0 are left out".to_owned());
    }
    let left = |file: &&Arc<FileMetadata>| !has(&input.files, file);
    for older in files[newest..].iter().filter(left) {
        for (at, taken) in files.iter().enumerate().filter(|(_, file)| has(&input.files, file)) {
            let is_newer = files[at..].iter().any(|file| Arc::ptr_eq(file, older));
            if is_newer && share_key(world, taken, older) {
                return Err(format!("table {} would end up above a newer one", older.number()));
            }
        }
    }
    Ok(())
}

/// Checks that the levels between the first input level and the output level have no table, other
/// than inputs, that shares a user key with an input.
fn check_between(world: &World, compaction: &Compaction) -> Result<(), String> {
    let first = compaction.inputs[0].level;
    for level in first + 1..compaction.output_level {
        for file in world.version.levels()[level].files() {
            let taken = compaction.inputs.iter().flat_map(|input| &input.files);
            let is_passed = taken.into_iter().any(|taken| share_key(world, taken, file));
            if is_passed && !compaction.inputs.iter().any(|input| has(&input.files, file)) {
                return Err(format!("table {} of level {level} is skipped", file.number()));
            }
        }
    }
    Ok(())
}

fn range(world: &World, compaction: &Compaction) -> (Vec<u8>, Vec<u8>, bool) {
    let compare = |a: &[u8], b: &[u8]| key::compare_internal(&world.comparator, a, b);
    let files = || compaction.inputs.iter().flat_map(|input| &input.files);
    let smallest = files().map(|file| file.smallest()).min_by(|a, b| compare(a, b)).unwrap();
    let largest = files().map(|file| file.largest()).max_by(|a, b| compare(a, b)).unwrap();
    let (from, to) = (key::user_key(smallest).to_vec(), key::user_key(largest).to_vec());
    (from, to, is_exclusive(largest))
}

/// Checks that every table of the output level that overlaps the joint key range of the inputs is
/// itself an input. The outputs can extend over that whole range.
fn check_outputs(world: &World, compaction: &Compaction) -> Result<(), String> {
    if compaction.output_level == 0 {
        return Ok(());
    }
    let (from, to, ends_before) = range(world, compaction);
    for file in world.version.levels()[compaction.output_level].files() {
        if compaction.inputs.iter().any(|input| has(&input.files, file)) {
            continue;
        }
        let begins = world.comparator.compare(file.smallest_user_key(), &to);
        let ends = world.comparator.compare(file.largest_user_key(), &from);
        let is_behind = begins.is_gt() || (begins.is_eq() && ends_before);
        let is_before = ends.is_lt() || (ends.is_eq() && is_exclusive(file.largest()));
        if !is_behind && !is_before {
            return Err(format!("outputs would overlap table {}", file.number()));
        }
    }
    Ok(())
}

/// Checks that no running compaction writes to an overlapping range of the same level, unless that
/// is level 0. Also checks that no two compactions take tables of level 0 to a deeper level.
fn check_running(world: &World, compaction: &Compaction) -> Result<(), String> {
    let (from, to, _) = range(world, compaction);
    for running in &world.running {
        let starts_in_0 = |compaction: &Compaction| compaction.inputs[0].level == 0;
        if starts_in_0(running) && starts_in_0(compaction) && compaction.output_level != 0 {
            return Err("two compactions take tables of level 0".to_owned());
        }
        if running.output_level != compaction.output_level || running.output_level == 0 {
            continue;
        }
        let (other_from, other_to, _) = range(world, running);
        let is_behind = world.comparator.compare(&from, &other_to).is_gt();
        let is_before = world.comparator.compare(&to, &other_from).is_lt();
        if !is_behind && !is_before {
            return Err(format!("two compactions write to level {}", running.output_level));
        }
    }
    Ok(())
}

/// Checks that a compaction into a level deeper than level 0 is marked as bottommost exactly if no
/// level deeper than the output level has tables in its key range.
fn check_bottommost(world: &World, compaction: &Compaction) -> Result<(), String> {
    let (from, to, _) = range(world, compaction);
    let below = world.version.levels()[compaction.output_level + 1..].iter();
    let overlaps = below.flat_map(|level| level.files()).any(|file| {
        world.comparator.compare(file.smallest_user_key(), &to).is_le()
            && world.comparator.compare(file.largest_user_key(), &from).is_ge()
    });
    if compaction.is_bottommost && overlaps {
        return Err("tables exist below a bottommost compaction".to_owned());
    }
    let is_down = compaction.output_level > 0;
    if is_down && !compaction.is_bottommost && !overlaps {
        return Err("no tables exist below a compaction that is not bottommost".to_owned());
    }
    Ok(())
}

/// If tables are moved without a merge, checks that all are of one level and do not overlap each
/// other. [`check_outputs`] checks the overlaps with the output level.
fn check_move(world: &World, compaction: &Compaction) -> Result<(), String> {
    if compaction.kind != CompactionKind::Move {
        return Ok(());
    }
    let [input] = &compaction.inputs[..] else {
        return Err("tables of several levels cannot be moved".to_owned());
    };
    for (at, left) in input.files.iter().enumerate() {
        if input.files[at + 1..]
            .iter()
            .any(|right| input.level == 0 && share_key(world, left, right))
        {
            return Err("tables that overlap cannot be moved".to_owned());
        }
    }
    Ok(())
}
