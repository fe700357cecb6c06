//! Directories: what the process sees, what is durable, and the changes between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use rustix::io::Errno;

/// A file, whatever names it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId(pub(super) u64);

/// A directory, wherever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirectoryId(pub(super) u64);

/// The directory that is always there.
pub(super) const ROOT: DirectoryId = DirectoryId(0);

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    File(FileId),
    Directory(DirectoryId),
}

/// Where a name stands, whether or not it is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) directory: DirectoryId,
    pub(super) name: String,
}

/// One call's change of names, which is kept whole or lost whole: what each place holds afterwards.
#[derive(Debug, Clone)]
pub(super) struct Change {
    assignments: Vec<(Place, Option<Node>)>,
}

impl Change {
    /// A name is given.
    pub(super) fn set(place: Place, node: Node) -> Self {
        Self { assignments: vec![(place, Some(node))] }
    }

    /// A name is taken away.
    pub(super) fn unset(place: Place) -> Self {
        Self { assignments: vec![(place, None)] }
    }

    /// A name is taken away and another is given in the same step.
    pub(super) fn rename(from: Place, to: Place, node: Node) -> Self {
        Self { assignments: vec![(from, None), (to, Some(node))] }
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.assignments.iter().map(|(place, _)| place)
    }
}

/// Names in directories.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    directories: BTreeMap<DirectoryId, BTreeMap<String, Node>>,
}

impl Tree {
    pub(super) fn names(&self, directory: DirectoryId) -> impl Iterator<Item = (&String, &Node)> {
        self.directories.get(&directory).into_iter().flatten()
    }

    fn get(&self, place: &Place) -> Option<Node> {
        self.directories.get(&place.directory)?.get(&place.name).copied()
    }

    fn apply(&mut self, change: &Change) {
        for (place, node) in &change.assignments {
            let names = self.directories.entry(place.directory).or_default();
            match node {
                Some(node) => names.insert(place.name.clone(), *node),
                None => names.remove(&place.name),
            };
        }
    }

    /// The files and directories that can be reached from the given ones.
    fn reach(&self, mut from: Vec<DirectoryId>) -> Reached {
        let mut reached = Reached::default();
        while let Some(directory) = from.pop() {
            if !reached.directories.insert(directory) {
                continue;
            }
            for (_, node) in self.names(directory) {
                match node {
                    Node::File(file) => _ = reached.files.insert(*file),
                    Node::Directory(inner) => from.push(*inner),
                }
            }
        }
        reached
    }

    /// Forgets directories that cannot be reached from the given ones and answers which files can.
    fn prune(&mut self, from: Vec<DirectoryId>) -> BTreeSet<FileId> {
        let reached = self.reach(from);
        self.directories.retain(|directory, _| reached.directories.contains(directory));
        reached.files
    }
}

#[derive(Default)]
struct Reached {
    files: BTreeSet<FileId>,
    directories: BTreeSet<DirectoryId>,
}

/// The names of the whole disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Namespace {
    current: Tree,
    durable: Tree,
    /// What leads from `durable` to `current`, oldest first.
    pending: Vec<Change>,
}

impl Namespace {
    /// A disk on which exactly these names are, all durable.
    pub(super) fn durable(tree: Tree) -> Self {
        Self { current: tree.clone(), durable: tree, pending: Vec::new() }
    }

    /// What stands at a place.
    pub(super) fn get(&self, place: &Place) -> Option<Node> {
        self.current.get(place)
    }

    /// The names in a directory, sorted.
    pub(super) fn names(&self, directory: DirectoryId) -> impl Iterator<Item = (&String, &Node)> {
        self.current.names(directory)
    }

    /// What a path stands for.
    pub(super) fn node(&self, path: &Path) -> Result<Node, Errno> {
        match self.place(path)? {
            Some(place) => self.get(&place).ok_or(Errno::NOENT),
            None => Ok(Node::Directory(ROOT)),
        }
    }

    /// The file that a path stands for.
    pub(super) fn file(&self, path: &Path) -> Result<FileId, Errno> {
        match self.node(path)? {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(Errno::ISDIR),
        }
    }

    /// The directory that a path stands for.
    pub(super) fn directory(&self, path: &Path) -> Result<DirectoryId, Errno> {
        match self.node(path)? {
            Node::Directory(directory) => Ok(directory),
            Node::File(_) => Err(Errno::NOTDIR),
        }
    }

    /// The place that a path names, in a directory that must be there; `None` for the root, which
    /// has no name.
    pub(super) fn place(&self, path: &Path) -> Result<Option<Place>, Errno> {
        let mut names = names_of(path);
        let Some(last) = names.pop() else { return Ok(None) };
        let mut directory = ROOT;
        for name in names {
            match self.get(&Place { directory, name }) {
                Some(Node::Directory(inner)) => directory = inner,
                Some(Node::File(_)) => return Err(Errno::NOTDIR),
                None => return Err(Errno::NOENT),
            }
        }
        Ok(Some(Place { directory, name: last }))
    }

    /// Whether `inner` is `outer` or lies in it.
    pub(super) fn is_within(&self, inner: DirectoryId, outer: DirectoryId) -> bool {
        self.current.reach(vec![outer]).directories.contains(&inner)
    }

    /// Changes names for the process; the change is not durable yet.
    pub(super) fn change(&mut self, change: &Change) {
        self.current.apply(change);
        self.pending.push(change.clone());
    }

    /// Makes the names in a directory durable, and every earlier change that they build on.
    pub(super) fn sync(&mut self, directory: DirectoryId) {
        let mut needed: BTreeSet<Place> = BTreeSet::new();
        let mut kept = vec![false; self.pending.len()];
        for (change, keep) in self.pending.iter().zip(&mut kept).rev() {
            if change.places().any(|place| place.directory == directory || needed.contains(place)) {
                *keep = true;
                needed.extend(change.places().cloned());
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for (change, keep) in pending.into_iter().zip(kept) {
            if keep {
                self.durable.apply(&change);
            } else {
                self.pending.push(change);
            }
        }
    }

    /// The names that a power cut may leave: the durable ones and a random part of the pending
    /// changes, in which no change is kept without the earlier ones of its places.
    pub(super) fn after_crash(&self, random: &mut fastrand::Rng) -> Tree {
        let keep_probability = [0.0, 0.25, 0.5, 0.75, 1.0][random.usize(..5)];
        let mut tree = self.durable.clone();
        let mut lost: BTreeSet<&Place> = BTreeSet::new();
        for change in &self.pending {
            // One random number for each change, whatever became of the others.
            let kept = random.f64() < keep_probability;
            if kept && !change.places().any(|place| lost.contains(place)) {
                tree.apply(change);
            } else {
                lost.extend(change.places());
            }
        }
        tree.prune(vec![ROOT]);
        tree
    }

    /// Forgets directories that nothing leads to any more and answers the files that something
    /// leads to.
    pub(super) fn prune(&mut self) -> BTreeSet<FileId> {
        let mut files = self.current.prune(vec![ROOT]);
        let mut roots = vec![ROOT];
        for (place, node) in self.pending.iter().flat_map(|change| &change.assignments) {
            roots.push(place.directory);
            match node {
                Some(Node::File(file)) => _ = files.insert(*file),
                Some(Node::Directory(directory)) => roots.push(*directory),
                None => {}
            }
        }
        files.extend(self.durable.prune(roots));
        files
    }
}

/// The names that lead from the root to what a path stands for. A relative path begins at the root.
pub(super) fn names_of(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => _ = names.pop(),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    names
}
