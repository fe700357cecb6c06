//! Verifies that tests detect errors in the engine and in the message log. The program makes one
//! error at a time, a mutation, and expects that a test fails. A mutation removes one sync call, or
//! is one of a list ([`MUTATIONS`]): a command of the message log overtakes an earlier one, or a
//! segment is opened or written in another mode.
//!
//! `cargo run -p tailwater-testkit --bin sync_mutations` copies the tracked files to
//! `target/sync_mutations`. In the copied sources of [`CRATES`], it finds each call of a function
//! whose name begins with `sync`, and changes the call so that an environment variable can make it
//! succeed without effect. It also inserts the mutations of the list. A single build therefore
//! contains all mutations. For each mutation, the program runs tests with that mutation enabled,
//! and prints the first test that failed. It exits with 1 if no test failed for some mutation.
//!
//! With arguments, the program tries only mutations in files whose path contains at least one of
//! the arguments, and those of the list whose description contains one. Tests also use the variable
//! `TAILWATER_SEED`.

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use tailwater_testkit::mutation::{MutatedTree, reason};

mod list;

use list::{MUTATIONS, Mutation};

/// A crate whose sync calls are removed.
struct MutatedCrate {
    package: &'static str,
    /// Directory of the source files that contain the sync calls, relative to the repository.
    sources: &'static str,
    /// Arguments of `cargo test` for each group of tests, the fastest group first. A removed sync
    /// counts as detected if a test of any group fails.
    tests: &'static [[&'static str; 3]],
}

/// The crates whose sync calls are removed.
const CRATES: [MutatedCrate; 2] = [
    MutatedCrate {
        package: "tailwater",
        sources: "crates/engine/src/",
        tests: &[
            ["crash", "--", "checkpoints::"],
            ["crash", "--", "rare::"],
            ["crash", "--", "regressions::"],
            ["crash", "--", "power::"],
            ["directories", "--", "random::"],
            ["crash", "--", "faults::"],
            ["crash", "--", "threads::"],
            // Some syncs affect only the cost of writes, not what survives a crash. Only these
            // tests detect that such a sync was removed.
            ["writing", "--", "direct_logs::"],
        ],
    },
    MutatedCrate {
        package: "tailwater-log",
        sources: "crates/log/src/",
        tests: &[["log", "--", "durable::"], ["log", "--", "crash::"]],
    },
];
/// Number of the first mutation in [`MUTATIONS`]. The removals of sync calls are numbered from 0.
const FIRST_LISTED: usize = 10_000;

/// The environment variable that contains the number of the enabled mutation.
const REMOVED: &str = "TAILWATER_REMOVED_SYNC";

/// Sync calls whose removal no test has to detect, because it loses no data: the file, the call,
/// and the reason.
const NOT_MISSED: [(&str, &str, &str); 6] = [
    (
        "segment/writer.rs",
        "file.sync_all(Purpose::LogAppend)",
        "the first durable write after recovery also makes the recovered batches durable, in the \
         simulator",
    ),
    (
        "segment/writer.rs",
        "zeroed.sync_data(Purpose::LogAppend)",
        "makes durable writes cheap, as in the engine",
    ),
    (
        "segment/open_files.rs",
        "file.sync_data(Purpose::LogAppend)",
        "the simulator reports failed writes of the page cache to syncs of any open file",
    ),
    (
        "wal/preallocation.rs",
        "file.sync_data(Purpose::Wal)",
        "makes durable writes cheap: otherwise they also write the file's length and extents",
    ),
    (
        "recovery/wal_files.rs",
        "storage.sync_directory(directory)",
        "the sync of the next log's name in that directory also syncs the names of kept logs \
         before anything relies on them",
    ),
    (
        "wal/log_file.rs",
        "log.sync_name(storage)",
        "lets the first groups of a log be in flight; the name is also synced by the first sync, \
         and before the MANIFEST names the log",
    ),
];

/// A sync call in a source file.
#[derive(Debug)]
struct Call {
    /// Index of the call's crate in [`CRATES`].
    of: usize,
    /// Location of the sync call: the file, relative to the crate's sources, and the line.
    place: String,
    /// The source text of the sync call.
    text: String,
}

impl Call {
    /// Returns the call's file and line, relative to the repository.
    fn path(&self) -> String {
        format!("{}{}", CRATES[self.of].sources, self.place)
    }
}

fn main() -> io::Result<ExitCode> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let (mut calls, mut problems) = (Vec::new(), Vec::new());
    let mutated_tree = MutatedTree::prepare("sync_mutations", REMOVED, |path, text| {
        let listed = insert_listed(text, path, &mut problems);
        let found = CRATES
            .iter()
            .enumerate()
            .find_map(|(of, it)| path.strip_prefix(it.sources).map(|place| (of, place)));
        let Some((of, place)) = found else { return listed };
        let is_source = path.ends_with(".rs") && !path.contains("/tests/");
        is_source.then(|| make_removable(listed.as_deref().unwrap_or(text), of, place, &mut calls))
    })?;
    if !problems.is_empty() {
        problems.iter().for_each(|problem| eprintln!("{problem}"));
        return Ok(ExitCode::FAILURE);
    }
    let is_wanted = |call: &Call| {
        wanted.is_empty() || wanted.iter().any(|part| call.path().contains(part.as_str()))
    };
    for (of, MutatedCrate { package, tests, .. }) in CRATES.iter().enumerate() {
        if !calls.iter().any(|call| call.of == of && is_wanted(call)) {
            continue;
        }
        let mut all = vec!["-p", package, "--no-run"];
        for [test, ..] in *tests {
            all.extend(["--test", test]);
        }
        let built = mutated_tree.test(None, &all)?;
        if !built.status.success() {
            eprintln!("the copy does not build:\n{}", String::from_utf8_lossy(&built.stderr));
            return Ok(ExitCode::FAILURE);
        }
        if let Some((test, message)) = first_failure(&mutated_tree, of, None)? {
            eprintln!("{test} fails with all calls in place: {message}");
            return Ok(ExitCode::FAILURE);
        }
    }
    let (mut tried, mut survived) = (0, 0);
    for (index, call) in calls.iter().enumerate() {
        if !is_wanted(call) {
            continue;
        }
        let began = Instant::now();
        let verdict = match first_failure(&mutated_tree, call.of, Some(index))? {
            Some((test, message)) => format!("detected by {test} {message}"),
            None => match NOT_MISSED
                .iter()
                .find(|(file, text, _)| call.place.starts_with(file) && call.text == *text)
            {
                Some((.., why)) => format!("undetected, which is correct: {why}"),
                None => {
                    survived += 1;
                    "SURVIVED".to_owned()
                }
            },
        };
        tried += 1;
        let (place, text) = (call.path(), &call.text);
        println!("{place:<40} {text:<60} {:>4} s  {verdict}", began.elapsed().as_secs());
    }
    let mut passed = Vec::new();
    for (index, Mutation { what, changes, tests }) in MUTATIONS.iter().enumerate() {
        let (file, ..) = changes[0];
        let is_wanted =
            |part: &String| file.contains(part.as_str()) || what.contains(part.as_str());
        if !wanted.is_empty() && !wanted.iter().any(is_wanted) {
            continue;
        }
        if !passed.contains(tests) {
            let tested = mutated_tree.test(None, &tests.arguments())?;
            if !tested.status.success() {
                let message = String::from_utf8_lossy(&tested.stderr);
                eprintln!("without mutations: {} {message}", reason(&tested));
                return Ok(ExitCode::FAILURE);
            }
            passed.push(*tests);
        }
        let began = Instant::now();
        let tested = mutated_tree.test(Some(FIRST_LISTED + index), &tests.arguments())?;
        let verdict = match tested.status.success() {
            true => {
                survived += 1;
                "SURVIVED".to_owned()
            }
            false => format!("detected: {}", reason(&tested)),
        };
        tried += 1;
        println!("{file:<40} {what:<60} {:>4} s  {verdict}", began.elapsed().as_secs());
    }
    println!("{tried} mutations, {survived} of them undetected");
    Ok(if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the text of a source file after inserting the mutations of the list that belong to it;
/// `None` if there are none. If a text to replace does not occur exactly once, adds a message to
/// `problems`.
fn insert_listed(text: &str, path: &str, problems: &mut Vec<String>) -> Option<String> {
    let mut changed = None;
    for (index, mutation) in MUTATIONS.iter().enumerate() {
        let number = FIRST_LISTED + index;
        let on = format!("std::env::var(\"{REMOVED}\").is_ok_and(|it| it == \"{number}\")");
        for (_, original, replacement) in mutation.changes.iter().filter(|it| it.0 == path) {
            let text = changed.get_or_insert_with(|| text.to_owned());
            let count = text.matches(original).count();
            if count != 1 {
                problems.push(format!("{path}: '{original}' occurs {count} times, not once"));
            }
            *text = text.replace(original, &replacement.replace("{on}", &on));
        }
    }
    changed
}

/// Returns the text of a source file after changing every call of a function whose name begins with
/// `sync`, so that the call can be disabled. Calls in the file's test module are not changed. Adds
/// the calls to `calls`.
fn make_removable(text: &str, of: usize, file: &str, calls: &mut Vec<Call>) -> String {
    let mut changed = String::with_capacity(text.len());
    let mut copied = 0;
    let end_of_code = text.find("\n#[cfg(test)]\nmod tests").unwrap_or(text.len());
    for (name, _) in text[..end_of_code].match_indices("sync") {
        let before = &text[..name];
        let line = &before[before.rfind('\n').map_or(0, |at| at + 1)..];
        let is_part_of_word = before.ends_with(is_word);
        let is_definition = before.ends_with("fn ");
        let open = name + text[name..].find(|letter| !is_word(letter)).unwrap_or(0);
        if is_part_of_word
            || is_definition
            || line.trim_start().starts_with("//")
            || !text[open..].starts_with('(')
        {
            continue;
        }
        let (start, end) = (receiver_start(text, name), matching_end(text, open));
        let call = &text[start..end];
        let index = calls.len();
        changed += &text[copied..start];
        changed += &format!(
            "(if std::env::var(\"{REMOVED}\").is_ok_and(|it| it == \"{index}\") \
             {{ Ok(()) }} else {{ {call} }})"
        );
        copied = end;
        let line = text[..start].matches('\n').count() + 1;
        let text = call.split_whitespace().collect();
        calls.push(Call { of, place: format!("{file}:{line}"), text });
    }
    changed + &text[copied..]
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns the offset in `text` where the expression of a method call starts, including its
/// receiver. `name` is the offset of the method's name.
fn receiver_start(text: &str, name: usize) -> usize {
    let mut start = name;
    let mut depth = 0;
    for (at, letter) in text[..name].char_indices().rev() {
        match letter {
            ')' | ']' => depth += 1,
            '(' | '[' if depth == 0 => break,
            '(' | '[' => depth -= 1,
            _ if depth > 0 || is_word(letter) || matches!(letter, '.' | '?' | ':') => {}
            // Whitespace before a dot belongs to a method chain over several lines.
            letter if letter.is_whitespace() && text[at..].trim_start().starts_with('.') => {}
            _ => break,
        }
        start = at;
    }
    start
}

/// Returns the offset after the closing parenthesis that matches the opening one at `open`.
fn matching_end(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, letter) in text[open..].char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at + 1;
        }
    }
    text.len()
}

/// Runs the tests of a crate with the sync call `removed` disabled, or with none disabled. Returns
/// the first group of tests with a failure, and the message of the failure.
fn first_failure(
    mutated_tree: &MutatedTree,
    of: usize,
    removed: Option<usize>,
) -> io::Result<Option<(&'static str, String)>> {
    for test in CRATES[of].tests {
        let arguments = [&["-p", CRATES[of].package, "--test"][..], test].concat();
        let tested = mutated_tree.test(removed, &arguments)?;
        if !tested.status.success() {
            return Ok(Some((test[2], reason(&tested))));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Regression test: functions were moved to another file, and some mutations no longer matched
    /// the text that they replace. Only a run of this program reported it.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "reads source files, outside any storage")]
    fn every_listed_mutation_fits_the_sources() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut problems = Vec::new();
        for (file, ..) in MUTATIONS.iter().flat_map(|mutation| mutation.changes) {
            let text = std::fs::read_to_string(sources.join(file));
            let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
            insert_listed(&text, file, &mut problems);
        }
        assert_eq!(problems, Vec::<String>::new());
    }
}
