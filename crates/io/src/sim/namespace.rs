//! Directories of the simulated disk: the current names, the durable names, and the pending changes
//! that lead from the durable to the current ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// Maximum length of a name in bytes, as in ext4, XFS and btrfs.
const NAME_LENGTH_MAX: usize = 255;

/// The identity of a file, which does not depend on its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId(pub(super) u64);

/// The identity of a directory, which does not depend on its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirectoryId(pub(super) u64);

/// The identity of a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkId(pub(super) u64);

/// The root directory, which always exists.
pub(super) const ROOT: DirectoryId = DirectoryId(0);

/// Maximum number of symbolic links that the resolution of one path may follow, as on Linux.
const LINKS_MAX: usize = 40;

/// What a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    File(FileId),
    Directory(DirectoryId),
    Link(LinkId),
}

/// Whether to follow a symbolic link that is the last component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastLink {
    Followed,
    Kept,
}

/// What a path resolves to: a directory entry, which need not exist, or a directory that was
/// reached without an entry (the root, or through `..`).
#[derive(Debug)]
enum Target {
    EntryName(EntryName),
    Directory(DirectoryId),
}

/// A resolved path.
#[derive(Debug)]
struct Resolved {
    target: Target,
    /// The path with links, `.` and `..` resolved.
    path: PathBuf,
}

/// A position for a directory entry: a directory and a name in it. The entry need not exist.
/// Variables of this type are called `place`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryName {
    pub(super) directory: DirectoryId,
    pub(super) name: String,
}

/// The atomic effect of one call on directory entries: for each entry, the node that it refers to
/// afterwards (`None` if it is removed).
#[derive(Debug, Clone)]
pub(super) struct Change {
    assignments: Vec<(EntryName, Option<Node>)>,
}

impl Change {
    /// Creates an entry, or makes an existing entry refer to `node`.
    pub(super) fn set(place: EntryName, node: Node) -> Self {
        Self { assignments: vec![(place, Some(node))] }
    }

    /// Returns a change that removes the entry at `place`.
    pub(super) fn unset(place: EntryName) -> Self {
        Self { assignments: vec![(place, None)] }
    }

    /// Removes the entry `from` and makes the entry `to` refer to `node`, in one atomic step.
    pub(super) fn rename(from: EntryName, to: EntryName, node: Node) -> Self {
        Self { assignments: vec![(from, None), (to, Some(node))] }
    }

    fn places(&self) -> impl Iterator<Item = &EntryName> {
        self.assignments.iter().map(|(place, _)| place)
    }
}

/// All directories with the entries they contain, in one version: current, durable or after a
/// crash.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    directories: BTreeMap<DirectoryId, BTreeMap<String, Node>>,
}

impl Tree {
    pub(super) fn names(&self, directory: DirectoryId) -> impl Iterator<Item = (&String, &Node)> {
        self.directories.get(&directory).into_iter().flatten()
    }

    fn get(&self, place: &EntryName) -> Option<Node> {
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

    /// Returns the files and directories that can be reached from the given directories.
    fn reach(&self, mut from: Vec<DirectoryId>) -> Reachable {
        let mut reached = Reachable::default();
        while let Some(directory) = from.pop() {
            if !reached.directories.insert(directory) {
                continue;
            }
            for (_, node) in self.names(directory) {
                match node {
                    Node::File(file) => _ = reached.files.insert(*file),
                    Node::Directory(inner) => from.push(*inner),
                    Node::Link(_) => {}
                }
            }
        }
        reached
    }

    /// Forgets directories that cannot be reached from the directories `from`, and returns the
    /// files that can be reached.
    fn prune(&mut self, from: Vec<DirectoryId>) -> BTreeSet<FileId> {
        let reached = self.reach(from);
        self.directories.retain(|directory, _| reached.directories.contains(directory));
        reached.files
    }
}

#[derive(Default)]
struct Reachable {
    files: BTreeSet<FileId>,
    directories: BTreeSet<DirectoryId>,
}

/// The directory entries of the whole disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Namespace {
    current: Tree,
    durable: Tree,
    /// The changes from `durable` to `current`, oldest first.
    pending: Vec<Change>,
    /// The targets of symbolic links. A target is kept even after the name of its link is removed.
    links: BTreeMap<LinkId, PathBuf>,
    /// The directory that relative paths are resolved in; empty for the root.
    working_directory: PathBuf,
}

impl Namespace {
    /// Returns the namespace after a crash that leaves exactly the names in `tree`, all durable.
    /// The working directory becomes the root.
    pub(super) fn left_by_crash(&self, tree: Tree) -> Self {
        Self { current: tree.clone(), durable: tree, links: self.links.clone(), ..Self::default() }
    }

    /// Sets the directory that relative paths are resolved in.
    pub(super) fn set_working_directory(&mut self, path: &Path) -> Result<(), Errno> {
        self.directory(path)?;
        self.working_directory = self.canonical_path(path)?;
        Ok(())
    }

    /// Resets the working directory to the root, as for a new process.
    pub(super) fn leave_working_directory(&mut self) {
        self.working_directory = PathBuf::new();
    }

    /// Records the target of a new symbolic link.
    pub(super) fn add_link(&mut self, link: LinkId, target: &Path) {
        self.links.insert(link, target.to_owned());
    }

    /// Returns what a directory entry refers to; `None` if it does not exist.
    pub(super) fn get(&self, place: &EntryName) -> Option<Node> {
        self.current.get(place)
    }

    /// Returns the names in a directory, sorted.
    pub(super) fn names(&self, directory: DirectoryId) -> impl Iterator<Item = (&String, &Node)> {
        self.current.names(directory)
    }

    /// Returns the number of names of a file.
    pub(super) fn count_names(&self, file: FileId) -> u64 {
        let nodes = self.current.directories.values().flat_map(BTreeMap::values);
        nodes.filter(|node| **node == Node::File(file)).count() as u64
    }

    /// Returns what a path refers to; symbolic links are followed.
    pub(super) fn node(&self, path: &Path) -> Result<Node, Errno> {
        match self.resolve(path, LastLink::Followed)?.target {
            Target::EntryName(place) => self.get(&place).ok_or(Errno::NOENT),
            Target::Directory(directory) => Ok(Node::Directory(directory)),
        }
    }

    /// Returns the file that a path refers to; symbolic links are followed.
    pub(super) fn file(&self, path: &Path) -> Result<FileId, Errno> {
        match self.node(path)? {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(Errno::ISDIR),
            Node::Link(_) => Err(Errno::LOOP),
        }
    }

    /// Returns the directory that a path refers to; symbolic links are followed.
    pub(super) fn directory(&self, path: &Path) -> Result<DirectoryId, Errno> {
        match self.node(path)? {
            Node::Directory(directory) => Ok(directory),
            Node::File(_) => Err(Errno::NOTDIR),
            Node::Link(_) => Err(Errno::LOOP),
        }
    }

    /// Returns the position of the directory entry that a path names. Its directory must exist, the
    /// entry need not. Returns `None` for the root and for paths that end with `..`, which name no
    /// entry. A symbolic link in the last component is not followed.
    pub(super) fn place(&self, path: &Path) -> Result<Option<EntryName>, Errno> {
        self.named_place(path, LastLink::Kept)
    }

    /// Returns the position as [`Self::place`] does, but follows a symbolic link in the last
    /// component.
    pub(super) fn place_behind_links(&self, path: &Path) -> Result<Option<EntryName>, Errno> {
        self.named_place(path, LastLink::Followed)
    }

    fn named_place(&self, path: &Path, last: LastLink) -> Result<Option<EntryName>, Errno> {
        match self.resolve(path, last)?.target {
            Target::EntryName(place) => Ok(Some(place)),
            Target::Directory(_) => Ok(None),
        }
    }

    /// Returns the absolute path of what `path` refers to, with symbolic links, `.` and `..`
    /// resolved.
    pub(super) fn canonical_path(&self, path: &Path) -> Result<PathBuf, Errno> {
        self.node(path)?;
        Ok(self.resolve(path, LastLink::Followed)?.path)
    }

    /// Resolves a path component by component, as Linux does. In particular, `..` after a symbolic
    /// link leads to the parent of the link's target, not of the link.
    fn resolve(&self, path: &Path, last: LastLink) -> Result<Resolved, Errno> {
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(Errno::INVAL);
        }
        let mut left = steps_backwards(&Path::new("/").join(&self.working_directory).join(path));
        let mut passed: Vec<EntryName> = Vec::new();
        let mut directory = ROOT;
        let mut links = 0;
        while let Some(step) = left.pop() {
            let Some(name) = step else {
                directory = passed.pop().map_or(ROOT, |above| above.directory);
                continue;
            };
            if name.len() > NAME_LENGTH_MAX {
                return Err(Errno::NAMETOOLONG);
            }
            let place = EntryName { directory, name };
            match self.get(&place) {
                Some(Node::Link(link)) if !left.is_empty() || last == LastLink::Followed => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::LOOP);
                    }
                    let target = self.links.get(&link).ok_or(Errno::NOENT)?;
                    if target.is_absolute() {
                        passed.clear();
                        directory = ROOT;
                    }
                    left.extend(steps_backwards(target));
                }
                _ if left.is_empty() => {
                    let path = path_of(&passed).join(&place.name);
                    return Ok(Resolved { target: Target::EntryName(place), path });
                }
                Some(Node::Directory(inner)) => {
                    passed.push(place);
                    directory = inner;
                }
                Some(Node::File(_) | Node::Link(_)) => return Err(Errno::NOTDIR),
                None => return Err(Errno::NOENT),
            }
        }
        Ok(Resolved { target: Target::Directory(directory), path: path_of(&passed) })
    }

    /// Returns whether `inner` is `outer` or inside it.
    pub(super) fn is_within(&self, inner: DirectoryId, outer: DirectoryId) -> bool {
        self.current.reach(vec![outer]).directories.contains(&inner)
    }

    /// Applies a change to the current names. The change is pending until a sync.
    pub(super) fn change(&mut self, change: &Change) {
        self.current.apply(change);
        self.pending.push(change.clone());
    }

    /// Makes the pending changes of the names in a directory durable, and with them every earlier
    /// change that they depend on.
    pub(super) fn sync(&mut self, directory: DirectoryId) {
        let mut needed: BTreeSet<EntryName> = BTreeSet::new();
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

    /// Returns the names that a power cut may leave: the durable names with a random subset of the
    /// pending changes applied. A change is kept only if all earlier changes of the same directory
    /// entries are kept.
    pub(super) fn after_crash(&self, random: &mut fastrand::Rng) -> Tree {
        let keep_probability = [0.0, 0.25, 0.5, 0.75, 1.0][random.usize(..5)];
        let mut tree = self.durable.clone();
        let mut lost: BTreeSet<&EntryName> = BTreeSet::new();
        for change in &self.pending {
            // Draw a number for every change, even if the change is lost anyway because an earlier
            // change to the same entry was lost. Then the numbers for later changes do not depend
            // on which changes were lost.
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

    /// Forgets directories that can no longer be reached, now or after a crash, and returns the
    /// files that can be reached.
    pub(super) fn prune(&mut self) -> BTreeSet<FileId> {
        let mut files = self.current.prune(vec![ROOT]);
        let mut roots = vec![ROOT];
        for (place, node) in self.pending.iter().flat_map(|change| &change.assignments) {
            roots.push(place.directory);
            match node {
                Some(Node::File(file)) => _ = files.insert(*file),
                Some(Node::Directory(directory)) => roots.push(*directory),
                Some(Node::Link(_)) | None => {}
            }
        }
        files.extend(self.durable.prune(roots));
        files
    }
}

/// Returns the components of a path in reverse order: a name, or `None` for `..`.
fn steps_backwards(path: &Path) -> Vec<Option<String>> {
    let steps = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(Some(name.to_string_lossy().into_owned())),
        Component::ParentDir => Some(None),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    let mut steps: Vec<_> = steps.collect();
    steps.reverse();
    steps
}

/// Returns the absolute path whose components are the names of these directory entries.
fn path_of(passed: &[EntryName]) -> PathBuf {
    Path::new("/").join(passed.iter().map(|place| place.name.as_str()).collect::<PathBuf>())
}
