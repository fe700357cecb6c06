//! Mutated copies of this repository, to verify that tests detect mutations, that is, deliberate
//! errors in the sources.
//!
//! A [`MutatedTree`] is a copy of the tracked files in a directory below `target`, with all
//! mutations inserted. An environment variable selects the mutation that takes effect, so that a
//! single build is sufficient for all mutations.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A changed copy of the repository, and its build directory.
#[derive(Debug)]
pub struct MutatedTree {
    tree: PathBuf,
    target: PathBuf,
    /// Name of the environment variable that selects the enabled mutation by its index.
    switch: String,
}

impl MutatedTree {
    /// Copies the tracked files to `target/NAME/tree`. `change` gets the path of a file from the
    /// root of the repository, and its text. It returns the new text, or `None` to leave the file
    /// unchanged. `switch` is the environment variable that selects the enabled mutation.
    ///
    /// # Errors
    /// Errors from reading and writing files, and from running git.
    #[expect(clippy::disallowed_methods, reason = "works on source files, outside any storage")]
    pub fn prepare(
        name: &str,
        switch: &str,
        mut change: impl FnMut(&str, &str) -> Option<String>,
    ) -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let scratch = root.join("target").join(name);
        let tree = scratch.join("tree");
        let mut kept = BTreeSet::new();
        let listed = Command::new("git").arg("-C").arg(&root).args(["ls-files", "-z"]).output()?;
        for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            let (from, to) = (root.join(name), tree.join(name));
            if !from.is_file() {
                continue;
            }
            let mut contents = fs::read(from)?;
            if let Ok(text) = str::from_utf8(&contents)
                && let Some(changed) = change(name, text)
            {
                contents = changed.into_bytes();
            }
            kept.insert(to.clone());
            // A file that is already in the copy with the same contents is not written again.
            // Otherwise cargo would rebuild it.
            if fs::read(&to).ok().as_ref() != Some(&contents) {
                fs::create_dir_all(to.parent().unwrap_or(&tree))?;
                fs::write(&to, contents)?;
            }
        }
        remove_others(&tree, &kept)?;
        Ok(Self { tree, target: scratch.join("target"), switch: switch.to_owned() })
    }

    /// Runs `cargo test ARGUMENT...` in the copy. `mutation` is the index of the mutation to
    /// enable; with `None`, no mutation is enabled.
    ///
    /// # Errors
    /// Errors from running cargo.
    pub fn test(&self, mutation: Option<usize>, arguments: &[&str]) -> io::Result<Output> {
        let mut command = Command::new("cargo");
        command.current_dir(&self.tree).args(["test", "--quiet"]).args(arguments);
        command.env("CARGO_TARGET_DIR", &self.target);
        if let Some(index) = mutation {
            command.env(&self.switch, index.to_string());
        }
        command.output()
    }
}

/// Removes files from a directory and its subdirectories, except for the files in `kept`. The
/// removed files were left by an earlier copy.
#[expect(clippy::disallowed_methods, reason = "works on source files, outside any storage")]
fn remove_others(directory: &Path, kept: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) && !path.ends_with("Cargo.lock") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Returns the failure message from the output of a failed test, on one line.
pub fn reason(tested: &Output) -> String {
    let said = String::from_utf8_lossy(&tested.stdout);
    let lines = said.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
    let is_failure = |line: &&str| !line.starts_with("seed ") && !line.starts_with("options ");
    let failure = lines.into_iter().find(is_failure).unwrap_or_default();
    failure.chars().take(160).collect()
}
