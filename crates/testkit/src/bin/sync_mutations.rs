//! Removes each sync call of the engine, one at a time, and shows that a crash test notices.
//!
//! `cargo run -p tailwater-testkit --bin sync_mutations` copies the tracked files into
//! `target/sync_mutations`, and there makes each call in `crates/engine/src` of something whose
//! name begins with `sync` one that an environment variable turns into a success that does nothing.
//! So one build serves all. For each call it runs the tests of `--test crash` without it, which
//! must fail, and prints a line; it ends with 1 if any call was not missed. With arguments it takes
//! only the calls in files whose path contains one of them. `TAILWATER_SEED` goes on to the tests.
#![expect(clippy::disallowed_methods, reason = "works on source files, outside any storage")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::Instant;

/// Where the calls are.
const SOURCES: &str = "crates/engine/src/";
/// The tests of `--test crash`, the quickest first.
const TESTS: [&str; 4] = ["rare::", "power::", "faults::", "threads::"];
/// The environment variable that names the call to leave out.
const REMOVED: &str = "TAILWATER_REMOVED_SYNC";

/// A call in a source file.
#[derive(Debug)]
struct Call {
    /// The file, from the engine's sources on, and the line.
    place: String,
    /// The call itself.
    text: String,
}

/// Where the changed tree is, and where it is built.
struct Cargo {
    tree: PathBuf,
    target: PathBuf,
}

fn main() -> io::Result<ExitCode> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let scratch = root.join("target/sync_mutations");
    let tree = scratch.join("tree");
    let calls = prepare(&root, &tree)?;
    let cargo = Cargo { tree, target: scratch.join("target") };
    let built = cargo.test(None, &["--no-run"])?;
    if !built.status.success() {
        eprintln!("it does not build:\n{}", String::from_utf8_lossy(&built.stderr));
        return Ok(ExitCode::FAILURE);
    }
    if let Some((test, message)) = cargo.first_failure(None)? {
        eprintln!("{test} fails with all calls in place: {message}");
        return Ok(ExitCode::FAILURE);
    }
    let (mut tried, mut survived) = (0, 0);
    for (index, call) in calls.iter().enumerate() {
        if !wanted.is_empty() && !wanted.iter().any(|part| call.place.contains(part.as_str())) {
            continue;
        }
        let began = Instant::now();
        let verdict = match cargo.first_failure(Some(index))? {
            Some((test, message)) => format!("missed by {test} {message}"),
            None => {
                survived += 1;
                "SURVIVED".to_owned()
            }
        };
        tried += 1;
        let Call { place, text, .. } = call;
        println!("{place:<28} {text:<60} {:>4} s  {verdict}", began.elapsed().as_secs());
    }
    println!("{tried} calls, of which {survived} were not missed");
    Ok(if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Copies the tracked files, as they are, to where only this program works, with calls that can be
/// left out. Answers those calls.
fn prepare(root: &Path, tree: &Path) -> io::Result<Vec<Call>> {
    let listed = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output()?;
    let mut calls = Vec::new();
    for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        let (from, to) = (root.join(name), tree.join(name));
        if !from.is_file() {
            continue;
        }
        let mut contents = fs::read(from)?;
        if let (Some(place), Ok(text)) = (name.strip_prefix(SOURCES), str::from_utf8(&contents))
            && name.ends_with(".rs")
            && !name.contains("/tests/")
        {
            contents = make_removable(text, place, &mut calls).into_bytes();
        }
        // What is the same stays untouched, so that it is not built again.
        if fs::read(&to).ok().as_ref() != Some(&contents) {
            fs::create_dir_all(to.parent().unwrap_or(tree))?;
            fs::write(&to, contents)?;
        }
    }
    Ok(calls)
}

/// A source file with every call of something whose name begins with `sync` in a condition.
fn make_removable(text: &str, file: &str, calls: &mut Vec<Call>) -> String {
    let mut changed = String::with_capacity(text.len());
    let mut copied = 0;
    for (name, _) in text.match_indices("sync") {
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
        calls.push(Call { place: format!("{file}:{line}"), text });
    }
    changed + &text[copied..]
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Where the expression begins that ends with the name at `name`: with what its method is called
/// on.
fn receiver_start(text: &str, name: usize) -> usize {
    let mut start = name;
    let mut depth = 0;
    for (at, letter) in text[..name].char_indices().rev() {
        match letter {
            ')' | ']' => depth += 1,
            '(' | '[' if depth == 0 => break,
            '(' | '[' => depth -= 1,
            _ if depth > 0 || is_word(letter) || matches!(letter, '.' | '?' | ':') => {}
            // Between the parts of a chain over several lines.
            letter if letter.is_whitespace() && text[at..].trim_start().starts_with('.') => {}
            _ => break,
        }
        start = at;
    }
    start
}

/// Where the parenthesis that opens at `open` has been closed.
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

impl Cargo {
    /// The first test that fails without a call, with what it says.
    fn first_failure(&self, removed: Option<usize>) -> io::Result<Option<(&'static str, String)>> {
        for test in TESTS {
            let tested = self.test(removed, &["--", test])?;
            if !tested.status.success() {
                return Ok(Some((test, reason(&tested))));
            }
        }
        Ok(None)
    }

    fn test(&self, removed: Option<usize>, arguments: &[&str]) -> io::Result<Output> {
        let mut command = Command::new("cargo");
        command.current_dir(&self.tree);
        command.args(["test", "--quiet", "-p", "tailwater", "--test", "crash"]).args(arguments);
        command.env("CARGO_TARGET_DIR", &self.target);
        if let Some(index) = removed {
            command.env(REMOVED, index.to_string());
        }
        command.output()
    }
}

/// What a failed test said, on one line.
fn reason(tested: &Output) -> String {
    let said = String::from_utf8_lossy(&tested.stdout);
    let lines = said.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
    let is_told = |line: &&str| !line.starts_with("seed ") && !line.starts_with("options ");
    let told = lines.into_iter().find(is_told).unwrap_or_default();
    told.chars().take(160).collect()
}
