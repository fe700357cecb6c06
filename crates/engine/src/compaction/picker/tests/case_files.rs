//! Case files. Each has lines that set up a column family, and commands. A command is followed by
//! its expected output, in lines that begin with `| `.
//!
//! If the environment variable `TAILWATER_REWRITE` is set, the test replaces the expected output in
//! the files with the current output, which is to be reviewed before it is committed.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use tailwater_format::Comparator;
use tailwater_format::version_edit::CompactCursor;

use super::checks::check;
use super::notation::{describe, parse_size, parse_table, size};
use super::world::{World, internal_key};
use crate::compaction::picker::tree::Tree;
use crate::compaction::picker::{
    BottommostRewrite, LevelTargets, ManualPick, ManualRange, ManualStep, first_step, is_behind,
    needs_compaction, next_cursor, next_due_s, next_step, output_path, pending_compaction_bytes,
    pick, pick_range,
};
use crate::version::{Compaction, CompactionKind, InputLevel, Reason};

#[test]
fn the_picker_matches_the_case_files() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/compaction/picker/tests/cases");
    let mut count = 0;
    for path in case_files(&directory) {
        let text = read(&path);
        let answered = answer(&text);
        count += text.lines().filter(|line| line.starts_with("# ")).count();
        if std::env::var_os("TAILWATER_REWRITE").is_some() {
            write(&path, &answered);
        } else {
            let name = path.display();
            for (line, (said, is)) in text.lines().zip(answered.lines()).enumerate() {
                assert_eq!(said, is, "{name}, line {}", line + 1);
            }
            assert_eq!(text, answered, "{name}");
        }
    }
    assert!(count > 100, "only {count} cases");
}

#[expect(clippy::disallowed_methods, reason = "case files do not belong to a database")]
fn case_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[expect(clippy::disallowed_methods, reason = "case files do not belong to a database")]
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "case files do not belong to a database")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// Executes the text of a case file. Returns the text with the current output instead of the
/// expected one. A line that begins with `#` starts a new case with an empty column family.
fn answer(text: &str) -> String {
    let mut out = String::new();
    let mut world = World::new("");
    for line in text.lines().filter(|line| !line.starts_with('|')) {
        let _ = writeln!(out, "{line}");
        if line.starts_with('#') {
            world = World::new("");
        } else if !line.is_empty() {
            for answer in run(&mut world, line).lines() {
                let _ = writeln!(out, "| {answer}");
            }
        }
    }
    out
}

/// Executes one command, a line of a case file. Returns its output, which is empty for commands
/// that set up the column family.
fn run(world: &mut World, line: &str) -> String {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    match command {
        "options" => {
            let comparator = world.comparator.clone();
            let World { now_s, oldest_snapshot, .. } = *world;
            *world = World { now_s, oldest_snapshot, comparator, ..World::new(rest) };
        }
        "order" => world.comparator = Comparator::built_in(rest).unwrap(),
        "now" => world.now_s = parse_size(rest),
        "snapshot" => world.oldest_snapshot = parse_size(rest),
        "cursor" => set_cursor(world, rest),
        "running" => begin(world, rest),
        "flag" => world.file(parse_size(rest)).1.compaction.set_claimed(true),
        "end" => world.end(0),
        "pick" => return pick_one(world),
        "pick-all" => return pick_all(world),
        "settle" => return settle(world),
        "range" => return pick_manually(world, rest),
        "bottom" => return to_the_bottom(world, rest),
        "next-cursor" => return moved_cursor(world),
        "pending" => return size(pending_compaction_bytes(&world.version, &world.options)),
        "behind" => {
            let pending = pending_compaction_bytes(&world.version, &world.options);
            return is_behind(&world.version, &world.options, pending).to_string();
        }
        "next-due" => {
            let due_s = next_due_s(&world.context());
            return due_s.map_or_else(|| "never".to_owned(), |due_s| due_s.to_string());
        }
        "scores" => return scores(world),
        "targets" => return targets(world),
        "priority" => return priority(world, rest),
        "path" => {
            return output_path(&world.options, rest.parse().unwrap()).to_string();
        }
        _ if command.starts_with('L') => {
            let (mut file, statistics) = parse_table(line);
            let number = file.number;
            if file.epoch_number == 0 {
                file.epoch_number = number;
            }
            world.add(file);
            if let Some(statistics) = statistics {
                world.file(number).1.set_statistics(statistics);
            }
        }
        _ => panic!("unknown line '{line}'"),
    }
    String::new()
}

/// Sets the cursor of a level. `text` is `LEVEL KEY`.
fn set_cursor(world: &mut World, text: &str) {
    let (level, key) = text.split_once(' ').expect("a level and a key");
    let cursor = CompactCursor { level: level.parse().unwrap(), key: internal_key(key, 1 << 40) };
    world.cursors.set(&cursor);
}

/// Begins a compaction. `text` is `NUMBER... -> LEVEL`: the file numbers of the input tables, and
/// the output level.
fn begin(world: &mut World, text: &str) {
    let (numbers, output_level) = text.split_once(" -> L").expect("numbers and a level");
    let mut inputs: Vec<InputLevel> = Vec::new();
    for number in numbers.split_whitespace() {
        let (level, file) = world.file(number.parse().unwrap());
        match inputs.iter_mut().find(|input| input.level == level) {
            Some(input) => input.files.push(file.clone()),
            None => inputs.push(InputLevel { level, files: vec![file.clone()] }),
        }
    }
    world.begin(Compaction {
        inputs,
        output_level: output_level.parse().unwrap(),
        reason: Reason::LevelMaxLevelSize,
        kind: CompactionKind::Merge,
        is_bottommost: false,
        grandparents: Vec::new(),
        max_output_file_bytes: 64 << 20,
        max_overlap_bytes: 1600 << 20,
        max_subcompactions: 1,
    });
}

fn described(world: &World, compaction: &Compaction) -> String {
    check(world, compaction).unwrap_or_else(|problem| panic!("{problem}"));
    describe(compaction, world.options.max_compaction_bytes)
}

fn pick_one(world: &World) -> String {
    match pick(&world.context()) {
        Some(compaction) => described(world, &compaction),
        None if needs_compaction(&world.context()) => "nothing yet".to_owned(),
        None => "nothing".to_owned(),
    }
}

/// Picks and begins compactions until no more can run concurrently. Returns their descriptions.
fn pick_all(world: &mut World) -> String {
    let mut text = String::new();
    while let Some(compaction) = pick(&world.context()) {
        let _ = writeln!(text, "{}", described(world, &compaction));
        world.begin(compaction);
    }
    text + &pick_one(world)
}

/// Runs one compaction after another until none is picked. Gives up after 100 compactions.
fn settle(world: &mut World) -> String {
    let mut text = String::new();
    for _ in 0..100 {
        let Some(compaction) = pick(&world.context()) else { return text + &pick_one(world) };
        let _ = writeln!(text, "{}", described(world, &compaction));
        world.begin(compaction);
        world.end(0);
    }
    text + "and so on"
}

fn parse_range(text: &str) -> (Option<&str>, Option<&str>) {
    let (begin, end) = text.split_once("..").expect("a range");
    (Some(begin).filter(|key| !key.is_empty()), Some(end).filter(|key| !key.is_empty()))
}

/// Describes the compactions of a range from one level to another. `text` is `LEVEL LEVEL
/// BEGIN..END [NUMBER]`, where `NUMBER` limits the inputs to tables with lower file numbers. The
/// compactions are not executed, so each is picked from the same tables.
fn pick_manually(world: &World, text: &str) -> String {
    let mut words = text.split_whitespace();
    let mut level = || words.next().unwrap().trim_start_matches('L').parse().unwrap();
    let (input_level, output_level) = (level(), level());
    let (begin, end) = parse_range(words.next().expect("a range"));
    let spared_from = words.next().map(parse_size);
    let mut begin = begin.map(|key| key.as_bytes().to_vec());
    let mut text = String::new();
    loop {
        let end = end.map(str::as_bytes);
        let range = ManualRange {
            input_level,
            output_level,
            begin: begin.as_deref(),
            end,
            requested_at: spared_from.unwrap_or(u64::MAX),
            spares_new: spared_from.is_some(),
        };
        match pick_range(&world.context(), range) {
            ManualPick::Nothing => return text + "nothing",
            ManualPick::Conflict => return text + "conflict",
            ManualPick::Compact { compaction, next_begin } => {
                text.push_str(&described(world, &compaction));
                let Some(next) = next_begin else { return text };
                let _ = writeln!(text, ", next {}", next.escape_ascii());
                begin = Some(next);
            }
        }
    }
}

/// Describes all compactions of a range down to the last level, given as `BEGIN..END [REWRITE]`.
/// Each compaction is executed before the next is picked.
fn to_the_bottom(world: &mut World, text: &str) -> String {
    let (range, rewrite) = text.split_once(' ').unwrap_or((text, ""));
    let (begin, end) = parse_range(range);
    let rewrite = match rewrite {
        "" => BottommostRewrite::default(),
        "skip" => BottommostRewrite::Skip,
        "force" => BottommostRewrite::Force,
        "force-optimized" => BottommostRewrite::ForceOptimized,
        other => panic!("unknown rewrite '{other}'"),
    };
    let (begin, end) = (begin.map(str::as_bytes), end.map(str::as_bytes));
    let requested_at = world.next_number;
    let mut text = String::new();
    let mut step = first_step(&world.context(), begin, end, rewrite);
    while let Some(ManualStep { input_level, output_level }) = step {
        let spares_new = input_level == output_level && rewrite != BottommostRewrite::Force;
        let mut rest = begin.map(<[u8]>::to_vec);
        loop {
            let begin = rest.as_deref();
            let range =
                ManualRange { input_level, output_level, begin, end, requested_at, spares_new };
            match pick_range(&world.context(), range) {
                ManualPick::Conflict => return text + "conflict",
                ManualPick::Nothing => break,
                ManualPick::Compact { compaction, next_begin } => {
                    let _ = writeln!(text, "{}", described(world, &compaction));
                    world.begin(compaction);
                    world.end(world.running.len() - 1);
                    rest = next_begin;
                }
            }
            if rest.is_none() {
                break;
            }
        }
        step = next_step(&world.context(), step.unwrap(), rewrite);
    }
    text + "done"
}

fn moved_cursor(world: &World) -> String {
    let compaction = pick(&world.context()).expect("a compaction");
    match next_cursor(&world.context(), &compaction) {
        Some(cursor) => {
            let key = tailwater_format::key::user_key(&cursor.key);
            format!("L{} {}", cursor.level, key.escape_ascii())
        }
        None => "stays".to_owned(),
    }
}

fn scores(world: &World) -> String {
    let scores = Tree::new(&world.context()).scores();
    let texts = scores.iter().map(|score| format!("L{} {:.4}", score.level, score.value));
    texts.collect::<Vec<_>>().join(", ")
}

fn targets(world: &World) -> String {
    let targets = LevelTargets::new(&world.version, &world.options);
    let sizes: Vec<String> = targets.max_bytes.iter().map(|&bytes| size(bytes)).collect();
    let mut text = format!("base L{}, {}", targets.base_level, sizes.join(" "));
    if let Some(level) = targets.lowest_unnecessary_level {
        let _ = write!(text, ", drains down to L{level}");
    }
    text
}

fn priority(world: &World, level: &str) -> String {
    let level = level.trim_start_matches('L').parse().unwrap();
    let tree = Tree::new(&world.context());
    let files = tree.files(level);
    let numbers = tree.by_priority(level).into_iter().map(|at| files[at].number().to_string());
    numbers.collect::<Vec<_>>().join(" ")
}
