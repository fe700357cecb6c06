//! Random tables in random levels, compacted repeatedly: every read must keep its result.

use std::sync::Arc;

use fastrand::Rng;
use tailwater_format::key::{self, MAX_SEQUENCE, Sequence, ValueType, pack_trailer};
use tailwater_io::sim::SimStorage;
use tailwater_testkit::seed;

use super::history::History;
use super::io_modes::{Disk, IoModes};
use super::scene::{Record, Scene, internal_key};
use crate::compaction::LowPriority;
use crate::merge_operator::MergeOperator;
use crate::table::FileMetadata;
use crate::version::InputLevel;

/// Number of random histories in a round of the test.
const ROUNDS: usize = 60;
/// Number of compactions of each history.
const COMPACTIONS: usize = 6;

#[test]
fn compactions_preserve_the_result_of_every_read() {
    let mut seed = seed::rng();
    for round in 0..ROUNDS * seed::rounds() {
        let context = format!("seed {}, round {round}", seed.value());
        let (name, operator) = if seed.rng.bool() {
            ("stringappend", MergeOperator::built_in("stringappend").unwrap())
        } else {
            ("uint64add", MergeOperator::UInt64Add)
        };
        let count = seed.rng.usize(1..160);
        let history = History::random(&mut seed.rng, count, operator);
        let storage = SimStorage::new(seed.rng.u64(..));
        let disk = Disk::Simulated { is_coarse: seed.rng.u8(..5) == 0 };
        disk.set_up(&storage);
        let io_modes = IoModes::random(&mut seed.rng, disk);
        let context = format!("{context}, {io_modes} on {disk:?}");
        let mut scene = random_scene(&mut seed.rng, &storage, &io_modes, name, &history);
        check(&scene, &history, &format!("{context}, at first"));
        for at in 0..COMPACTIONS {
            let context = format!("{context}, compaction {at}");
            // The parts of a compaction may start at low priority. After `checks` calls of the
            // priority they pause, and continue at normal priority.
            let checks = seed.rng.usize(..30);
            scene.low_priority = seed.rng.bool().then(|| Arc::new(LowPriority::over_after(checks)));
            compact(&mut scene, &mut seed.rng, &history, &context);
            check(&scene, &history, &context);
        }
    }
}

/// Regression test: after a write that breaks the contract of single deletions, a compaction could
/// fail, or make a deleted value visible again. A compaction that reads all versions of a key must
/// preserve the result of every read, whatever was written.
#[test]
fn compactions_of_everything_preserve_reads_whatever_was_written() {
    let mut seed = seed::rng();
    for round in 0..ROUNDS * 4 * seed::rounds() {
        let context = format!("seed {}, round {round}", seed.value());
        let count = seed.rng.usize(1..80);
        let operator = MergeOperator::built_in("stringappend").unwrap();
        let history = History::mixed(&mut seed.rng, count, operator);
        let storage = SimStorage::new(seed.rng.u64(..));
        let disk = Disk::Simulated { is_coarse: false };
        disk.set_up(&storage);
        let io_modes = IoModes::random(&mut seed.rng, disk);
        let mut scene = random_scene(&mut seed.rng, &storage, &io_modes, "stringappend", &history);
        check(&scene, &history, &format!("{context}, at first"));
        for at in 0..3 {
            let context = format!("{context}, compaction {at}, snapshots {:?}", scene.snapshots);
            let filled = (0..=6).filter(|&level| !scene.files(level).is_empty());
            let mut levels: Vec<usize> = filled.collect();
            levels.push(6);
            levels.dedup();
            if scene.version.files().next().is_some() {
                let compaction = scene.levels(&levels);
                scene.compact(compaction).unwrap_or_else(|error| panic!("{context}: {error}"));
            }
            check(&scene, &history, &context);
            if !scene.snapshots.is_empty() {
                scene.snapshots.remove(seed.rng.usize(..scene.snapshots.len()));
            }
        }
    }
}

/// Divides the history into pieces of consecutive writes. The oldest piece is written to the
/// deepest level, and each newer piece to a shallower level, or to level 0.
fn random_scene(
    rng: &mut Rng,
    storage: &SimStorage,
    io_modes: &IoModes,
    operator: &str,
    history: &History,
) -> Scene {
    let block_bytes = rng.u32(1..400);
    let options = format!(
        "merge_operator={operator};paranoid_file_checks=true;\
         block_based_table_factory={{block_size={block_bytes}}};{io_modes}"
    );
    let mut scene = Scene::simulated(&options, storage);
    scene.parts = rng.usize(1..4);
    scene.max_output_file_bytes = rng.u64(1..2000);
    if rng.bool() {
        scene.max_overlap_bytes = rng.u64(1..4000);
    }
    let newest = history.newest();
    scene.snapshots = (0..rng.usize(..4)).map(|_| rng.u64(..=newest)).collect();
    if rng.u8(..4) == 0 {
        scene.snapshots.push(0);
    }

    let mut pieces: Vec<&[Record]> = Vec::new();
    let mut rest = &history.records[..];
    while !rest.is_empty() {
        let (piece, newer) = rest.split_at(rng.usize(1..=rest.len().min(60)));
        pieces.push(piece);
        rest = newer;
    }
    let mut level = 6;
    for piece in pieces {
        add_run(&mut scene, rng, level, piece);
        level = level.saturating_sub(rng.usize(1..3));
    }
    scene
}

/// Writes a piece of the history as tables of a level. The tables are cut between user keys, and
/// range tombstones are truncated at the cuts.
fn add_run(scene: &mut Scene, rng: &mut Rng, level: usize, piece: &[Record]) {
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    if level > 0 {
        cuts = piece.iter().map(|record| record.key.clone()).filter(|_| rng.u8(..8) == 0).collect();
        cuts.sort();
        cuts.dedup();
    }
    let sentinel = |key: &Vec<u8>| internal_key(key, pack_trailer(MAX_SEQUENCE, 0xF));
    let ends = cuts.iter().map(Some).chain([None]);
    for (begin, end) in [None].into_iter().chain(cuts.iter().map(Some)).zip(ends) {
        let has = |key: &Vec<u8>| {
            begin.is_none_or(|begin| key >= begin) && end.is_none_or(|end| key < end)
        };
        let reaches = |record: &&Record| match record.kind {
            ValueType::RangeDeletion => {
                end.is_none_or(|end| record.key < *end)
                    && begin.is_none_or(|begin| record.value > *begin)
            }
            _ => has(&record.key),
        };
        let records: Vec<Record> = piece.iter().filter(reaches).cloned().collect();
        if records.is_empty() {
            continue;
        }
        // The table begins with the newest version of its first key, or with a range tombstone that
        // is truncated there.
        let smallest = begin.map_or(internal_key(b"", 0), |begin| {
            let newest = records.iter().map(|record| record.sequence).max().unwrap();
            internal_key(begin, pack_trailer(newest, 0x18))
        });
        let largest = end.map_or(internal_key(b"zzz", 0), sentinel);
        scene.add_table(level, &records, Some((&smallest, &largest)));
    }
}

/// Compacts some tables of a random level into the next level or the next non-empty level. Tables
/// of level 6 are rewritten.
fn compact(scene: &mut Scene, rng: &mut Rng, history: &History, context: &str) {
    let filled: Vec<usize> = (0..6).filter(|&level| !scene.files(level).is_empty()).collect();
    let level = if filled.is_empty() { 6 } else { filled[rng.usize(..filled.len())] };
    let output_level = match level {
        6 => 6,
        _ => filled
            .iter()
            .copied()
            .find(|&other| other > level)
            .filter(|_| rng.bool())
            .unwrap_or(level + 1),
    };
    let mut files = scene.files(level);
    if level > 0 && rng.bool() && !files.is_empty() {
        files = vec![files.swap_remove(rng.usize(..files.len()))];
    }
    if files.is_empty() {
        return;
    }
    let mut inputs = vec![InputLevel { level, files }];
    if output_level > level {
        // Tables in levels between the input level and the output level could overlap the inputs.
        let between = (level + 1..output_level).any(|level| !scene.files(level).is_empty());
        assert!(!between, "{context}: from level {level} to {output_level}");
        let files = overlapping(scene, &inputs[0].files, output_level);
        if !files.is_empty() {
            inputs.push(InputLevel { level: output_level, files });
        }
    }
    let compaction = scene.compaction(inputs, output_level);
    let is_all = compaction.is_bottommost && scene.snapshots.is_empty();
    let outcome = scene.compact(compaction).unwrap_or_else(|error| panic!("{context}: {error}"));
    let is_alone = (0..=6).all(|level| level == output_level || scene.files(level).is_empty());
    if is_all && is_alone && scene.files(output_level).len() == outcome.outputs.len() {
        let contents = scene.level_contents(output_level);
        assert_eq!(contents.tombstones, [], "{context}");
        let live = history.all(history.newest());
        assert_eq!(contents.records.len(), live.len(), "{context}");
        let trailers = contents.records.iter().map(|(key, _)| key::split(key).unwrap().1);
        trailers.for_each(|trailer| assert_eq!(trailer >> 8, 0, "{context}"));
    }
}

/// Returns the tables of `level` that overlap any of `files`.
fn overlapping(scene: &Scene, files: &[Arc<FileMetadata>], level: usize) -> Vec<Arc<FileMetadata>> {
    let smallest = files.iter().map(|file| file.smallest_user_key()).min().unwrap();
    let largest = files.iter().map(|file| file.largest_user_key()).max().unwrap();
    let overlaps = |file: &Arc<FileMetadata>| {
        file.smallest_user_key() <= largest && file.largest_user_key() >= smallest
    };
    scene.files(level).into_iter().filter(overlaps).collect()
}

/// Checks every read at every snapshot and at the latest sequence number.
fn check(scene: &Scene, history: &History, context: &str) {
    let present: Sequence = history.newest();
    for &at in scene.snapshots.iter().chain([&present, &(present + 1)]) {
        let expected = history.all(at);
        for key in history.keys() {
            let found = scene.get(&key, at);
            let key_text = key.escape_ascii();
            assert_eq!(found, history.get(&key, at), "{context}: key {key_text} at {at}");
        }
        assert_eq!(scene.iterate(at, true), expected, "{context}: forward at {at}");
        assert_eq!(scene.iterate(at, false), expected, "{context}: backward at {at}");
    }
}
