//! The operations of scenarios on files of a simulated disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};
use tailwater_testkit::scenario::{Files, Node};

/// A simulated disk.
#[derive(Debug)]
pub(crate) struct SimFiles {
    pub(crate) disk: SimStorage,
    /// The targets of symbolic links, by the path of the link. The disk cannot report them.
    links: BTreeMap<PathBuf, PathBuf>,
}

impl SimFiles {
    pub(crate) fn new(disk: SimStorage) -> Self {
        Self { disk, links: BTreeMap::new() }
    }

    /// Makes the directory entry of a path durable. Everything that a scenario changes outside of
    /// databases is durable.
    fn sync_parent(&self, path: &Path) {
        let parent = path.parent().expect("a path below the root");
        self.disk.sync_directory(parent).expect("a directory");
    }
}

impl Files for SimFiles {
    fn root(&self) -> PathBuf {
        PathBuf::from("/")
    }

    fn enter(&mut self, directory: &Path) {
        self.disk.set_working_directory(directory).expect("a directory");
    }

    fn tree(&self) -> BTreeMap<PathBuf, Node> {
        let mut tree = BTreeMap::new();
        let mut waiting = vec![self.root()];
        while let Some(directory) = waiting.pop() {
            for entry in self.disk.list(&directory).expect("a directory") {
                let path = directory.join(&entry.name);
                let node = if let Some(target) = self.links.get(&path) {
                    Node::Link(target.clone())
                } else if entry.is_directory {
                    waiting.push(path.clone());
                    Node::Directory
                } else {
                    Node::File(read(&self.disk, &path))
                };
                tree.insert(path, node);
            }
        }
        tree
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) {
        let purpose = Purpose::Metadata;
        let file = self.disk.create(path, Create::Truncate, IoMode::Buffered, purpose);
        let mut file = file.expect("a file that can be written");
        file.write_all_at(bytes, 0, purpose).expect("a write");
        file.sync_all(purpose).expect("a sync");
        self.sync_parent(path);
    }

    fn make_directory(&mut self, path: &Path) {
        self.disk.create_directory(path).expect("a directory");
        path.ancestors().filter(|it| it.parent().is_some()).for_each(|it| self.sync_parent(it));
    }

    fn link(&mut self, target: &Path, path: &Path) {
        self.disk.create_symbolic_link(target, path).expect("a link");
        self.links.insert(path.to_owned(), target.to_owned());
        self.sync_parent(path);
    }

    fn hard_link(&mut self, existing: &Path, path: &Path) {
        self.disk.link(existing, path).expect("a file that can have another name");
        self.sync_parent(path);
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        self.disk.rename(from, to).expect("a name that can be changed");
        if let Some(target) = self.links.remove(from) {
            self.links.insert(to.to_owned(), target);
        }
        self.sync_parent(from);
        self.sync_parent(to);
    }

    fn remove(&mut self, path: &Path, node: &Node) {
        let removed = match node {
            Node::Directory => self.disk.remove_directory(path),
            Node::File(_) | Node::Link(_) => self.disk.remove(path),
        };
        removed.expect("a name that can be removed");
        self.links.remove(path);
        self.sync_parent(path);
    }
}

/// Returns the bytes of a file.
fn read(disk: &SimStorage, path: &Path) -> Vec<u8> {
    // The file may be the LOCK file of a database that a failed step left open. Such a LOCK file
    // cannot be opened.
    let Ok(file) = disk.open(path, IoMode::Buffered, Purpose::Metadata) else { return Vec::new() };
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, Purpose::Metadata).expect("its bytes");
    bytes
}
