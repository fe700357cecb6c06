//! Verifies that the tests of directories detect errors in the engine's checks of the ownership of
//! files. It disables one check after another ([`MUTATIONS`]), and expects that a test fails.
//!
//! `cargo run -p tailwater-testkit --bin directory_mutations` copies the tracked files to
//! `target/directory_mutations`, and inserts all mutations into the copied sources. An environment
//! variable selects the mutation that takes effect, so that a single build is sufficient. For each
//! mutation, the program runs the tests of `--test directories`, and prints each group in which a
//! test failed. It exits with 1 if no test failed for some mutation.
//!
//! With arguments, the program tries only mutations whose description contains at least one of the
//! arguments. The tests also use the variable `TAILWATER_SEED`.

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use tailwater_testkit::mutation::{MutatedTree, reason};

mod list;

use list::{MUTATIONS, Mutation};

/// The groups of tests to run: prefixes of the tests' names, the fastest group first.
const TESTS: [&str; 4] = ["claims::", "in_use::", "scenarios::", "random::"];
/// The environment variable that contains the index of the enabled mutation in [`MUTATIONS`].
const SWITCH: &str = "TAILWATER_MUTATION";

fn main() -> io::Result<ExitCode> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut problems = Vec::new();
    let mutated_tree = MutatedTree::prepare("directory_mutations", SWITCH, |path, text| {
        let (changed, found) = mutated(path.strip_prefix("crates/engine/src/")?, text);
        problems.extend(found);
        Some(changed)
    })?;
    if !problems.is_empty() {
        problems.iter().for_each(|problem| eprintln!("{problem}"));
        return Ok(ExitCode::FAILURE);
    }
    let arguments = ["-p", "tailwater", "--test", "directories"];
    let built = mutated_tree.test(None, &[&arguments[..], &["--no-run"]].concat())?;
    if !built.status.success() {
        eprintln!("the copy does not build:\n{}", String::from_utf8_lossy(&built.stderr));
        return Ok(ExitCode::FAILURE);
    }
    if let Some((test, message)) = first_failure(&mutated_tree, None)? {
        eprintln!("{test} fails without a mutation: {message}");
        return Ok(ExitCode::FAILURE);
    }
    let (mut tried, mut survived) = (0, 0);
    for (index, Mutation { what, .. }) in MUTATIONS.iter().enumerate() {
        if !wanted.is_empty() && !wanted.iter().any(|part| what.contains(part.as_str())) {
            continue;
        }
        let began = Instant::now();
        let mut verdicts = Vec::new();
        for test in TESTS {
            if let Some(message) = failure(&mutated_tree, Some(index), test)? {
                verdicts.push(format!("{test} {message}"));
            }
        }
        if verdicts.is_empty() {
            survived += 1;
            verdicts.push("SURVIVED".to_owned());
        }
        tried += 1;
        println!("{what:<60} {:>4} s", began.elapsed().as_secs());
        verdicts.iter().for_each(|verdict| println!("    {verdict}"));
    }
    println!("{tried} mutations, {survived} of them undetected");
    Ok(if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Inserts all mutations of a source file into its text. Returns the new text, and a message for
/// each mutation that cannot be inserted. The reason is that its original text does not occur
/// exactly once in the file, or that another mutation has already changed it.
fn mutated(file: &str, text: &str) -> (String, Vec<String>) {
    let (mut changed, mut problems) = (text.to_owned(), Vec::new());
    let own = MUTATIONS.iter().enumerate().filter(|(_, mutation)| mutation.file == file);
    for (index, Mutation { what, original, changed: replacement, .. }) in own {
        let count = text.matches(original).count();
        if count != 1 {
            problems.push(format!("{file}: '{original}' ({what}) occurs {count} times, not once"));
        } else if !changed.contains(original) {
            problems.push(format!("{file}: '{original}' ({what}) was changed by another mutation"));
        }
        let on = format!("std::env::var(\"{SWITCH}\").is_ok_and(|it| it == \"{index}\")");
        changed = changed.replace(original, &replacement.replace("{on}", &on));
    }
    (changed, problems)
}

/// Returns the first group of tests in which a test fails, with the failure message.
fn first_failure(
    mutated_tree: &MutatedTree,
    mutation: Option<usize>,
) -> io::Result<Option<(&'static str, String)>> {
    for test in TESTS {
        if let Some(message) = failure(mutated_tree, mutation, test)? {
            return Ok(Some((test, message)));
        }
    }
    Ok(None)
}

/// Runs a group of tests, and returns the failure message if a test fails.
fn failure(
    mutated_tree: &MutatedTree,
    mutation: Option<usize>,
    test: &str,
) -> io::Result<Option<String>> {
    let arguments = ["-p", "tailwater", "--test", "directories", "--", test];
    let tested = mutated_tree.test(mutation, &arguments)?;
    Ok((!tested.status.success()).then(|| reason(&tested)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Regression test: the engine's sources were changed, and some mutations no longer matched the
    /// text that they replace. Only a run of this program reported the mismatch. No test of the
    /// ordinary test run failed.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "reads source files, outside any storage")]
    fn every_mutation_fits_the_sources() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
        let files: BTreeSet<&str> = MUTATIONS.iter().map(|mutation| mutation.file).collect();
        let problems = files.into_iter().flat_map(|file| {
            let text = std::fs::read_to_string(sources.join(file));
            mutated(file, &text.unwrap_or_else(|error| panic!("{file}: {error}"))).1
        });
        assert_eq!(problems.collect::<Vec<_>>(), Vec::<String>::new());
    }
}
