//! The files of scenarios, in and around databases: their contents, and the operations with which
//! the steps of a scenario change them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file, directory or link, as stored in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A file, with its bytes.
    File(Vec<u8>),
    /// A directory.
    Directory,
    /// A symbolic link, with its target.
    Link(PathBuf),
}

/// A filesystem on which the steps of scenarios work. All paths are absolute, except for the
/// targets of links. A method panics if it fails.
pub trait Files {
    /// Returns the root directory of the scenario.
    fn root(&self) -> PathBuf;
    /// Changes the working directory of the engine.
    fn enter(&mut self, directory: &Path);
    /// Returns all files, directories and links below the root, by path. Links are not followed.
    fn tree(&self) -> BTreeMap<PathBuf, Node>;
    /// Creates a file, or replaces its contents.
    fn write(&mut self, path: &Path, bytes: &[u8]);
    /// Creates a directory, and its parents if they are missing.
    fn make_directory(&mut self, path: &Path);
    /// Creates a symbolic link at `path`, which points to `target`.
    fn link(&mut self, target: &Path, path: &Path);
    /// Creates a hard link at `path` to the file at `existing`.
    fn hard_link(&mut self, existing: &Path, path: &Path);
    /// Renames a file, a link or a directory.
    fn rename(&mut self, from: &Path, to: &Path);
    /// Removes a file, a link or an empty directory.
    fn remove(&mut self, path: &Path, node: &Node);
}

/// Files in a directory of a real filesystem.
#[derive(Debug)]
pub struct RealFiles {
    root: PathBuf,
    directory: PathBuf,
}

impl RealFiles {
    /// Uses `directory` as the root, and removes everything in it.
    ///
    /// # Panics
    /// If the directory cannot be emptied.
    pub fn new(directory: &Path) -> Self {
        let root = directory.canonicalize().expect("a path of the directory");
        let mut new = Self { directory: root.clone(), root };
        for (path, node) in new.tree().iter().rev() {
            new.remove(path, node);
        }
        new
    }

    /// Returns the current working directory of the engine.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

#[expect(clippy::disallowed_methods, reason = "around databases, and damage to their files")]
impl Files for RealFiles {
    fn root(&self) -> PathBuf {
        self.root.clone()
    }

    fn enter(&mut self, directory: &Path) {
        self.directory = directory.to_owned();
    }

    fn tree(&self) -> BTreeMap<PathBuf, Node> {
        let mut tree = BTreeMap::new();
        let mut waiting = vec![self.root.clone()];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(&directory).expect("a directory that can be listed") {
                let path = entry.expect("an entry of the directory").path();
                let kind = std::fs::symlink_metadata(&path).expect("a file's metadata");
                let node = if kind.is_symlink() {
                    Node::Link(std::fs::read_link(&path).expect("a link"))
                } else if kind.is_dir() {
                    waiting.push(path.clone());
                    Node::Directory
                } else {
                    Node::File(std::fs::read(&path).expect("a file's bytes"))
                };
                tree.insert(path, node);
            }
        }
        tree
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) {
        std::fs::write(path, bytes).expect("a file that can be written");
    }

    fn make_directory(&mut self, path: &Path) {
        std::fs::create_dir_all(path).expect("a directory that can be created");
    }

    fn link(&mut self, target: &Path, path: &Path) {
        std::os::unix::fs::symlink(target, path).expect("a link that can be created");
    }

    fn hard_link(&mut self, existing: &Path, path: &Path) {
        std::fs::hard_link(existing, path).expect("a file that can have another name");
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        std::fs::rename(from, to).expect("a name that can be changed");
    }

    fn remove(&mut self, path: &Path, node: &Node) {
        match node {
            Node::Directory => std::fs::remove_dir(path).expect("an empty directory"),
            Node::File(_) | Node::Link(_) => std::fs::remove_file(path).expect("a file"),
        }
    }
}
