//! Executes scenarios and checks their results.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Component, Path, PathBuf};

use super::files::Node;
use super::rocksdb::SharedRocksDb;
use super::step::{Action, Engine, Step, Work};
use super::target::{Job, Target};
use super::{Column, Scenario};
use crate::golden;

/// Contents of files that steps write and that belong to no database.
const STRAY: &[u8] = b"not a database's\n";

/// A scenario that is being executed.
pub struct Runner<'a> {
    target: &'a mut dyn Target,
    rocksdb: Option<SharedRocksDb>,
    root: PathBuf,
    directory: PathBuf,
    /// The options with which steps open each database, by the database's path. The options are in
    /// the form `name=value;name=value`.
    given: BTreeMap<String, String>,
    /// All files as they were after the steps of the setup.
    made: BTreeMap<PathBuf, Node>,
    /// Name of the last file that a step wrote, removed or truncated. It replaces `$file` in
    /// expectations.
    file: String,
}

/// Executes all scenarios that have steps in a column, each on a new target. If
/// `TAILWATER_SCENARIO` is set, executes only scenarios whose names contain its value.
///
/// # Panics
/// If the result of a scenario is not the one that `docs/directories.md` states. The message lists
/// all such scenarios.
pub fn run_all(
    column: Column,
    rocksdb: Option<SharedRocksDb>,
    mut new: impl FnMut() -> Box<dyn Target>,
) {
    let wanted = std::env::var("TAILWATER_SCENARIO").unwrap_or_default();
    let (mut passed, mut left_out, mut failed) = (0, Vec::new(), Vec::new());
    for scenario in super::all().into_iter().filter(|it| it.name.contains(&wanted)) {
        let cannot = scenario.needs_rocksdb(column) && rocksdb.is_none();
        if scenario.steps(column).is_empty() || cannot {
            left_out.push(scenario.name);
            continue;
        }
        let rocksdb = rocksdb.clone();
        let mut target = new();
        let ran = panic::catch_unwind(AssertUnwindSafe(|| {
            Runner::new(&mut *target, rocksdb).run(&scenario, column)
        }));
        match ran {
            Ok(Ok(())) => passed += 1,
            Ok(Err(reason)) => failed.push(format!("{}: {reason}", scenario.name)),
            Err(_) => failed.push(format!("{}: panics, see above", scenario.name)),
        }
    }
    println!("{passed} scenarios passed, {} were skipped:", left_out.len());
    left_out.iter().for_each(|name| println!("    {name}"));
    let mut list = String::new();
    failed.iter().for_each(|failure| _ = write!(list, "\n- {failure}"));
    assert!(failed.is_empty(), "{} of {} scenarios:{list}", failed.len(), passed + failed.len());
    assert!(passed > 0, "no scenario was run");
}

impl fmt::Debug for Runner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("root", &self.root)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl<'a> Runner<'a> {
    /// Creates a runner that works on a new target.
    pub fn new(target: &'a mut dyn Target, rocksdb: Option<SharedRocksDb>) -> Self {
        let root = target.files().root();
        let directory = root.clone();
        let mut new = Self {
            target,
            rocksdb,
            root,
            directory,
            given: BTreeMap::new(),
            made: BTreeMap::new(),
            file: String::new(),
        };
        new.enter(new.root.clone());
        new
    }

    /// Executes a scenario: the steps of its setup, and the steps in a column.
    ///
    /// # Errors
    /// The first step with an unexpected result, and that result.
    pub fn run(mut self, scenario: &Scenario, column: Column) -> Result<(), String> {
        for step in &scenario.made_by {
            self.step(step).map_err(|error| format!("setup failed: `{}` {error}", step.text))?;
        }
        self.made = self.target.files().tree();
        for step in scenario.steps(column) {
            self.step(step).map_err(|error| format!("`{}` {error}", step.text))?;
        }
        self.enter(self.root.clone());
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match &step.action {
            Action::MakeDirectory(path) => {
                let path = self.resolve(path);
                self.target.files().make_directory(&path);
            }
            Action::Write(paths) => {
                for path in paths {
                    let path = self.resolve(path);
                    self.note(&path);
                    self.target.files().write(&path, STRAY);
                }
            }
            Action::Copy(from, to) => self.copy(from, to, true)?,
            Action::HardLink(from, to) => self.copy(from, to, false)?,
            Action::Rename(from, to) => self.rename(from, to)?,
            Action::Remove(patterns) => self.remove(patterns)?,
            Action::Cut(pattern) => self.cut(pattern)?,
            Action::Link(target, path) => {
                let (target, path) = (PathBuf::from(self.mapped(target)), self.resolve(path));
                self.target.files().link(&target, &path);
            }
            Action::Enter(path) => self.enter(self.resolve(path)),
            Action::Unpack(name, path) => {
                let path = self.resolve(path);
                self.target.files().make_directory(&path);
                for (file, bytes) in golden::files(name) {
                    self.target.files().write(&path.join(file), &bytes);
                }
            }
            Action::There(patterns) => self.there(patterns)?,
            Action::Gone(patterns) => self.gone(patterns)?,
            Action::Kept(patterns) => self.kept(patterns)?,
            Action::With(path, options) => {
                let options = options.iter().map(|(name, value)| format!("{name}={value}"));
                let options = options.collect::<Vec<_>>().join(";");
                self.given.insert(path.clone(), self.mapped(&options));
            }
            Action::Database(path, work) => {
                self.database(path, work, step)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, directory: PathBuf) {
        self.target.files().enter(&directory);
        if let Some(rocksdb) = &self.rocksdb {
            rocksdb.borrow_mut().enter(&directory);
        }
        self.directory = directory;
    }

    /// Returns a path or an option string of a step in the form that the engine needs: the root
    /// directory of the scenario is put before every absolute path.
    fn mapped(&self, text: &str) -> String {
        let root = self.root.to_string_lossy();
        let root = root.trim_end_matches('/');
        let mut mapped = String::new();
        let mut before = '=';
        for letter in text.chars() {
            if letter == '/' && matches!(before, '=' | ':' | '{' | ';') {
                mapped.push_str(root);
            }
            mapped.push(letter);
            before = letter;
        }
        mapped
    }

    /// Returns the absolute path for a path or pattern of a step, with `.` and `..` resolved.
    fn resolve(&self, path: &str) -> PathBuf {
        let mut resolved = PathBuf::new();
        for component in self.directory.join(self.mapped(path)).components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => _ = resolved.pop(),
                component => resolved.push(component),
            }
        }
        resolved
    }

    fn note(&mut self, path: &Path) {
        self.file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }

    /// Returns the existing files, directories and links whose paths match a pattern.
    fn matches(&mut self, pattern: &str) -> BTreeMap<PathBuf, Node> {
        let pattern = self.resolve(pattern);
        matching(&self.target.files().tree(), &pattern)
    }

    /// Copies a file, or a directory with its contents. If `has_own_files` is false, the copied
    /// files are hard links to the originals.
    fn copy(&mut self, from: &str, to: &str, has_own_files: bool) -> Result<(), String> {
        let (from, to) = (self.resolve(from), self.resolve(to));
        let tree = self.target.files().tree();
        let files = self.target.files();
        let mut is_there = false;
        for (path, node) in tree {
            let Ok(inner) = path.strip_prefix(&from) else { continue };
            is_there = true;
            let to = if inner == Path::new("") { to.clone() } else { to.join(inner) };
            match node {
                Node::File(bytes) if has_own_files => files.write(&to, &bytes),
                Node::File(_) => files.hard_link(&path, &to),
                Node::Directory => files.make_directory(&to),
                Node::Link(target) => files.link(&target, &to),
            }
        }
        if is_there { Ok(()) } else { Err("finds nothing to copy".to_owned()) }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), String> {
        if !from.contains('*') {
            let (from, to) = (self.resolve(from), self.resolve(to));
            self.target.files().rename(&from, &to);
            return Ok(());
        }
        let matches = self.matches(from);
        if matches.is_empty() {
            return Err("finds nothing to rename".to_owned());
        }
        let (from, to) = (self.resolve(from), self.resolve(to));
        let (from, to) = (from.to_string_lossy(), to.to_string_lossy());
        let (before, after) = from.split_once('*').unwrap_or_default();
        for path in matches.keys() {
            let path = path.to_string_lossy();
            let star = &path[before.len()..path.len() - after.len()];
            let to = PathBuf::from(to.replacen('*', star, 1));
            self.target.files().rename(Path::new(&*path), &to);
        }
        Ok(())
    }

    fn remove(&mut self, patterns: &[String]) -> Result<(), String> {
        for pattern in patterns {
            let matches = self.matches(pattern);
            let may_miss = pattern.contains("TAILWATER-") && !self.target.is_tailwater();
            if matches.is_empty() && !may_miss {
                return Err(format!("finds no {pattern}"));
            }
            for path in matches.keys() {
                self.note(path);
                let tree = self.target.files().tree();
                // In the order of paths, a directory comes before its contents. The reverse order
                // removes the contents first.
                for (inner, node) in tree.iter().rev().filter(|(it, _)| it.starts_with(path)) {
                    self.target.files().remove(inner, node);
                }
            }
        }
        Ok(())
    }

    fn cut(&mut self, pattern: &str) -> Result<(), String> {
        let matches = self.matches(pattern);
        let mut files = matches.into_iter().filter_map(|(path, node)| match node {
            Node::File(bytes) => Some((path, bytes)),
            Node::Directory | Node::Link(_) => None,
        });
        let (path, bytes) = files.next_back().ok_or("finds no file to cut")?;
        self.note(&path);
        self.target.files().write(&path, &bytes[..bytes.len() / 2]);
        Ok(())
    }

    fn there(&mut self, patterns: &[String]) -> Result<(), String> {
        match patterns.iter().find(|pattern| self.matches(pattern).is_empty()) {
            Some(missing) => Err(format!("finds no {missing}: {}", self.names())),
            None => Ok(()),
        }
    }

    fn gone(&mut self, patterns: &[String]) -> Result<(), String> {
        for pattern in patterns {
            if let Some(path) = self.matches(pattern).keys().next() {
                return Err(format!("finds {}", path.display()));
            }
        }
        Ok(())
    }

    fn kept(&mut self, patterns: &[String]) -> Result<(), String> {
        let tree = self.target.files().tree();
        for pattern in patterns {
            let made = matching(&self.made, &self.resolve(pattern));
            if made.is_empty() {
                return Err(format!("finds that no {pattern} existed after the setup"));
            }
            for (path, node) in &made {
                match tree.get(path) {
                    None => return Err(format!("finds that {} is gone", path.display())),
                    Some(found) if found != node => {
                        return Err(format!("finds that {} has changed", path.display()));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Returns the paths of all files, separated by spaces, for messages.
    fn names(&mut self) -> String {
        let tree = self.target.files().tree();
        let paths = tree.keys().map(|path| path.strip_prefix(&self.root).unwrap_or(path));
        paths.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
    }

    fn database(&mut self, path: &str, work: &Work, step: &Step) -> Result<(), String> {
        let (engine, expected) = (step.engine, &step.expected);
        let options = self.given.get(path).cloned().unwrap_or_default();
        let (mapped, work) = (self.mapped(path), self.mapped_work(work));
        let job = Job { path: &mapped, options: &options, work: &work };
        let before = self.target.files().tree();
        let answer = match (engine, &self.rocksdb) {
            (Engine::Own, _) => self.target.work(&job),
            (Engine::RocksDb, Some(rocksdb)) => rocksdb.borrow_mut().work(&job),
            (Engine::RocksDb, None) => Err("needs RocksDB".to_owned()),
        };
        let may_change = match work {
            Work::Look => false,
            Work::Open | Work::Adopt | Work::Put(_) | Work::Destroy => answer.is_ok(),
            // All other work may change files even if it fails, because most of it begins by
            // opening the database.
            _ => true,
        };
        if !may_change && engine == Engine::Own && self.target.is_tailwater() {
            unchanged(&before, &self.target.files().tree()).map_err(|change| match &answer {
                Ok(_) => change,
                Err(error) => format!("fails ({error}), but {change}"),
            })?;
        }
        match answer {
            Err(_) if step.may_fail => Ok(()),
            Err(error) if expected.fails.is_empty() => Err(format!("fails: {error}")),
            Err(error) => self.says("the message", &error, &expected.fails),
            Ok(answer) if !expected.fails.is_empty() => Err(format!("succeeds: {answer:?}")),
            Ok(answer) => {
                let found = &answer.contents;
                if let Some(wanted) = expected.contents.as_ref().filter(|it| *it != found) {
                    return Err(format!("finds {found:?}, not {wanted:?}"));
                }
                self.says("the warnings", &answer.warnings, &expected.warns)
            }
        }
    }

    fn says(&self, what: &str, text: &str, wanted: &[String]) -> Result<(), String> {
        let wanted = wanted.iter().map(|words| words.replace("$file", &self.file));
        match wanted.into_iter().find(|words| !text.contains(&**words)) {
            Some(missing) => Err(format!("has no '{missing}' in {what}: {text}")),
            None => Ok(()),
        }
    }

    fn mapped_work(&self, work: &Work) -> Work {
        match work {
            Work::Ingest(path) => Work::Ingest(self.mapped(path)),
            Work::Move(path) => Work::Move(self.mapped(path)),
            Work::Checkpoint(path) => Work::Checkpoint(self.mapped(path)),
            other => other.clone(),
        }
    }
}

/// Returns the elements of a tree at the paths that match `pattern`. A `*` in a path component of
/// the pattern matches any part of one path component, but no `/`.
fn matching(tree: &BTreeMap<PathBuf, Node>, pattern: &Path) -> BTreeMap<PathBuf, Node> {
    let matches = |path: &Path| {
        let (mut names, mut patterns) = (path.components(), pattern.components());
        loop {
            match (names.next(), patterns.next()) {
                (None, None) => return true,
                (Some(name), Some(pattern)) => {
                    let name = name.as_os_str().to_string_lossy();
                    if !name_matches(&name, &pattern.as_os_str().to_string_lossy()) {
                        return false;
                    }
                }
                _ => return false,
            }
        }
    };
    let found = tree.iter().filter(|(path, _)| matches(path));
    found.map(|(path, node)| (path.clone(), node.clone())).collect()
}

fn name_matches(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((before, after)) => {
            name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).is_some()
        }
    }
}

/// Checks that two trees contain the same files and links, except for LOG and LOCK files.
fn unchanged(
    before: &BTreeMap<PathBuf, Node>,
    after: &BTreeMap<PathBuf, Node>,
) -> Result<(), String> {
    let may_change = |name: &str| {
        matches!(name, "LOCK" | "TAILWATER-LOCK" | "LOG") || name.starts_with("LOG.old")
    };
    let counts = |path: &Path, node: &Node| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        *node != Node::Directory && !may_change(&name)
    };
    let lost = before.iter().find(|(path, node)| counts(path, node) && after.get(*path).is_none());
    if let Some((path, _)) = lost {
        return Err(format!("{} is gone", path.display()));
    }
    let differs = |path: &Path, node: &Node| before.get(path) != Some(node);
    match after.iter().find(|(path, node)| counts(path, node) && differs(path, node)) {
        Some((path, _)) => Err(format!("{} was created or changed", path.display())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::name_matches;

    #[test]
    fn a_star_stands_for_any_part_of_a_name() {
        assert!(name_matches("000012.log", "*.log") && name_matches("a", "*"));
        assert!(name_matches("MANIFEST-000001", "MANIFEST-*"));
        assert!(!name_matches("aa", "aa*a") && !name_matches("000012.log", "*.sst"));
    }
}
