//! Picks compactions in random LSM trees until none is due. Checks every picked compaction
//! (`checks.rs`), and that picking terminates.

use tailwater_format::version_edit::NewFile;
use tailwater_testkit::seed;

use super::checks::check;
use super::notation::describe;
use super::world::{World, exclusive_end, internal_key, number_key};
use crate::compaction::picker::tree::Tree;
use crate::compaction::picker::{
    BottommostRewrite, ManualPick, ManualRange, first_step, needs_compaction, next_due_s,
    next_step, pending_compaction_bytes, pick, pick_range,
};
use crate::table::FileStatistics;

const KEYS: u64 = 1000;

/// A random tree is compacted until no compaction is due. No tree needs more than this number of
/// compactions.
const COMPACTIONS_MAX: usize = 20_000;

const PRIORITIES: [&str; 5] = [
    "kMinOverlappingRatio",
    "kByCompensatedSize",
    "kOldestLargestSeqFirst",
    "kOldestSmallestSeqFirst",
    "kRoundRobin",
];

fn random_options(random: &mut fastrand::Rng) -> String {
    let priority = random.choice(PRIORITIES).unwrap();
    format!(
        "compaction_pri={priority};level_compaction_dynamic_level_bytes={};num_levels={};\
         level0_file_num_compaction_trigger={};max_bytes_for_level_base={};\
         max_bytes_for_level_multiplier={};target_file_size_base={};max_compaction_bytes={};\
         ttl={};periodic_compaction_seconds={};bottommost_file_compaction_delay={}",
        random.bool(),
        random.u32(2..6),
        random.u32(2..5),
        random.u64(200..2000),
        random.u32(2..6),
        random.u64(50..300),
        random.u64(500..5000),
        random.choice([0, 0, 500]).unwrap(),
        random.choice([0, 0, 700]).unwrap(),
        random.choice([0, 0, 100]).unwrap(),
    )
}

fn random_file(random: &mut fastrand::Rng, now_s: u64) -> NewFile {
    let sequence = random.u64(1..500);
    NewFile {
        size: random.u64(1..300),
        smallest_sequence: sequence,
        largest_sequence: sequence + random.u64(0..500),
        oldest_ancestor_time_s: random.u64(now_s / 4..=now_s),
        creation_time_s: random.u64(now_s / 4..=now_s),
        marked_for_compaction: random.u32(0..20) == 0,
        ..NewFile::default()
    }
}

fn random_statistics(world: &World, random: &mut fastrand::Rng) {
    for (_, file) in world.version.files() {
        if random.bool() {
            let entries = random.u64(1..100);
            file.set_statistics(FileStatistics {
                entries,
                deletions: random.u64(0..=entries),
                raw_key_bytes: 10 * entries,
                raw_value_bytes: 2 * entries,
                ..FileStatistics::default()
            });
        }
    }
}

fn add_to_level_0(world: &mut World, random: &mut fastrand::Rng, count: usize) {
    for _ in 0..count {
        let from = random.u64(0..KEYS);
        let length = random.u64(1..KEYS);
        let to = random.u64(from..(from + length).min(KEYS));
        let smallest = internal_key(&number_key(from), 900);
        let largest = if to > from && random.bool() {
            exclusive_end(&number_key(to))
        } else {
            internal_key(&number_key(to), 1)
        };
        world.add(NewFile { smallest, largest, ..random_file(random, world.now_s) });
    }
}

/// Fills a level with tables, some of which share a user key with the next one.
fn fill_level(world: &mut World, random: &mut fastrand::Rng, level: u32) {
    // Each bound has a lower sequence number than the bound before it, since a user key's versions
    // have descending sequence numbers.
    let mut sequence = 1_000_000;
    let mut at = random.u64(0..KEYS / 4);
    while at + 60 < KEYS && random.u32(0..40) != 0 {
        let end = at + random.u64(1..50);
        sequence -= 2;
        let smallest = internal_key(&number_key(at), sequence + 1);
        let (largest, is_end_free) = match random.u32(0..4) {
            0 => (exclusive_end(&number_key(end)), true),
            _ => (internal_key(&number_key(end), sequence), random.u32(0..3) == 0),
        };
        let file = random_file(random, world.now_s);
        world.add(NewFile { level, smallest, largest, ..file });
        at = if is_end_free { end } else { end + random.u64(1..30) };
    }
}

fn random_world(random: &mut fastrand::Rng) -> World {
    let mut world = World::new(&random_options(random));
    world.now_s = 1_000;
    world.oldest_snapshot = random.u64(0..1000);
    world.level_0_fan_in = random.choice([usize::MAX, usize::MAX, 4]).unwrap();
    for level in 1..u32::try_from(world.options.num_levels).unwrap() {
        if random.u32(0..3) != 0 {
            fill_level(&mut world, random, level);
        }
    }
    let count = random.usize(0..12);
    add_to_level_0(&mut world, random, count);
    random_statistics(&world, random);
    world
}

fn rounds(count: usize) -> impl Iterator<Item = (u64, fastrand::Rng)> {
    let first = seed::rng().value();
    let count = count * seed::rounds();
    (0..count as u64).map(move |round| {
        let seed = first.wrapping_add(round);
        (seed, fastrand::Rng::with_seed(seed))
    })
}

/// Picks until no compaction is left, with some compactions running concurrently.
fn settle(world: &mut World, random: &mut fastrand::Rng) -> Result<usize, String> {
    let width = random.usize(1..6);
    for count in 0..COMPACTIONS_MAX {
        let picked = pick(&world.context()).filter(|_| world.running.len() < width);
        let is_done = picked.is_none() && world.running.is_empty();
        if let Some(compaction) = picked {
            check(world, &compaction).map_err(|problem| {
                let limit = world.options.max_compaction_bytes;
                format!("{problem}: {}", describe(&compaction, limit))
            })?;
            world.begin(compaction);
        }
        if is_done {
            return Ok(count);
        }
        if random.bool() && !world.running.is_empty() || world.running.len() >= width {
            let at = random.usize(0..world.running.len());
            world.end(at);
        } else if pick(&world.context()).is_none() && !world.running.is_empty() {
            world.end(0);
        }
    }
    Err("compactions do not terminate".to_owned())
}

#[test]
fn compactions_keep_the_invariants_and_terminate() {
    for (seed, mut random) in rounds(400) {
        let mut world = random_world(&mut random);
        for _ in 0..3 {
            settle(&mut world, &mut random)
                .unwrap_or_else(|problem| panic!("TAILWATER_SEED={seed}: {problem}"));
            let scores = Tree::new(&world.context()).scores();
            let is_due = scores.iter().any(|score| score.value >= 1.0);
            assert!(!is_due, "TAILWATER_SEED={seed}: {scores:?}, but no compaction is due");
            assert!(!needs_compaction(&world.context()), "TAILWATER_SEED={seed}: needed");
            let count = random.usize(0..8);
            world.oldest_snapshot += random.u64(0..200);
            add_to_level_0(&mut world, &mut random, count);
        }
    }
}

/// Returns the numbers of the tables that are due because of their age.
fn due_by_age(world: &World) -> Vec<u64> {
    let context = world.context();
    let tree = Tree::new(&context);
    let due = [tree.marked_at_the_bottom(), tree.marked_by_ttl(), tree.marked_by_period()];
    due.iter().flatten().map(|(_, file)| file.number()).collect()
}

#[test]
fn tables_become_due_at_the_predicted_time() {
    for (seed, mut random) in rounds(300) {
        let mut world = random_world(&mut random);
        settle(&mut world, &mut random).unwrap_or_else(|e| panic!("TAILWATER_SEED={seed}: {e}"));
        while let Some(due_s) = next_due_s(&world.context()) {
            let before = due_by_age(&world);
            assert!(due_s > world.now_s, "TAILWATER_SEED={seed}");
            for now_s in [random.u64(world.now_s..due_s), due_s - 1] {
                world.now_s = now_s;
                assert_eq!(due_by_age(&world), before, "TAILWATER_SEED={seed}");
                assert_eq!(next_due_s(&world.context()), Some(due_s), "TAILWATER_SEED={seed}");
            }
            world.now_s = due_s;
            assert!(due_by_age(&world).len() > before.len(), "TAILWATER_SEED={seed}");
        }
        let last = due_by_age(&world);
        world.now_s += 1_000_000;
        assert_eq!(due_by_age(&world), last, "TAILWATER_SEED={seed}");
    }
}

#[test]
fn a_settled_tree_has_nothing_pending() {
    for (seed, mut random) in rounds(100) {
        let mut world = random_world(&mut random);
        // Without `ttl`, no table is compacted because of its age. The estimate of pending bytes
        // does not count such compactions.
        world.options.ttl = 0;
        settle(&mut world, &mut random).unwrap_or_else(|e| panic!("TAILWATER_SEED={seed}: {e}"));
        let pending = pending_compaction_bytes(&world.version, &world.options);
        assert_eq!(pending, 0, "TAILWATER_SEED={seed}");
    }
}

#[test]
fn a_manual_compaction_moves_the_whole_range_down() {
    for (seed, mut random) in rounds(300) {
        let mut world = random_world(&mut random);
        let (a, b) = (random.u64(0..KEYS), random.u64(0..KEYS));
        let (begin, end) = (number_key(a.min(b)), number_key(a.max(b)));
        let (begin, end) = if random.bool() {
            (None, None)
        } else {
            (Some(begin.as_bytes()), Some(end.as_bytes()))
        };
        let bytes_before: u64 = world.version.files().map(|(_, file)| file.size()).sum();
        let last = compact_range(&mut world, begin, end)
            .unwrap_or_else(|problem| panic!("TAILWATER_SEED={seed}: {problem}"));
        let bytes: u64 = world.version.files().map(|(_, file)| file.size()).sum();
        assert!(bytes <= bytes_before, "TAILWATER_SEED={seed}");
        for (level, file) in world.version.files().filter(|(level, _)| Some(*level) != last) {
            let is_within = begin.is_none_or(|begin| file.largest_user_key() > begin)
                && end.is_none_or(|end| file.smallest_user_key() <= end);
            let number = file.number();
            assert!(!is_within, "TAILWATER_SEED={seed}: table {number} stays in level {level}");
        }
    }
}

/// Compacts a range manually. Returns the level in which it ended.
fn compact_range(
    world: &mut World,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
) -> Result<Option<usize>, String> {
    let rewrite = BottommostRewrite::Force;
    let mut step = first_step(&world.context(), begin, end, rewrite);
    let mut last = None;
    while let Some(current) = step {
        let mut rest = begin.map(<[u8]>::to_vec);
        for count in 0.. {
            let range = ManualRange {
                input_level: current.input_level,
                output_level: current.output_level,
                begin: rest.as_deref(),
                end,
                requested_at: u64::MAX,
                spares_new: false,
            };
            match pick_range(&world.context(), range) {
                ManualPick::Nothing => break,
                ManualPick::Conflict => return Err("nothing is running".to_owned()),
                ManualPick::Compact { compaction, next_begin } => {
                    check(world, &compaction)?;
                    world.begin(compaction);
                    world.end(0);
                    rest = next_begin;
                }
            }
            if rest.is_none() {
                break;
            }
            if count > COMPACTIONS_MAX {
                return Err("compactions do not terminate".to_owned());
            }
        }
        last = Some(current.output_level);
        step = next_step(&world.context(), current, rewrite);
    }
    Ok(last)
}
