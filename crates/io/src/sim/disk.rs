//! The content of the simulated disk as a cloneable value (names and bytes), and the effects of
//! calls on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::contents::Contents;
use super::namespace::{Change, DirectoryId, FileId, LinkId, Namespace};

/// What a storage call changes on the disk. Applying an effect is deterministic, so a journal of
/// effects can be replayed.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    /// Creates a file that no directory entry refers to yet.
    NewFile(FileId),
    /// Creates a symbolic link that no directory entry refers to yet.
    NewLink {
        link: LinkId,
        target: PathBuf,
    },
    /// Changes directory entries.
    Change(Change),
    Write {
        file: FileId,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    Truncate {
        file: FileId,
        length: u64,
    },
    Sync(FileId),
    /// A sync of the file fails. The seed decides which of its unsynced bytes will never reach the
    /// disk.
    FailSync {
        file: FileId,
        seed: u64,
    },
    SyncDirectory(DirectoryId),
    /// Makes a span of a file durable, with the metadata needed to read it (the effect of a durable
    /// write).
    SyncSpan {
        file: FileId,
        span: Range<u64>,
    },
}

/// The content of the disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    pub(super) names: Namespace,
    files: BTreeMap<FileId, Contents>,
}

impl Disk {
    pub(super) fn apply(&mut self, effect: &Effect, now_us: u64) {
        match effect {
            Effect::NewFile(file) => {
                self.files.insert(*file, Contents::new(now_us));
            }
            Effect::NewLink { link, target } => self.names.add_link(*link, target),
            Effect::Change(change) => self.names.change(change),
            Effect::Write { file, offset, bytes } => {
                self.file_mut(*file).write(*offset, bytes, now_us);
            }
            Effect::Truncate { file, length } => self.file_mut(*file).truncate(*length, now_us),
            Effect::Sync(file) => self.file_mut(*file).sync(),
            Effect::FailSync { file, seed } => {
                self.file_mut(*file).fail_sync(&mut fastrand::Rng::with_seed(*seed));
            }
            Effect::SyncDirectory(directory) => self.names.sync(*directory),
            Effect::SyncSpan { file, span } => self.file_mut(*file).sync_span(span.clone()),
        }
    }

    /// Returns the content of a file that a name or an open handle refers to.
    ///
    /// # Panics
    /// If the file was already forgotten, which is a bug in this simulation.
    pub(super) fn file(&self, file: FileId) -> &Contents {
        match self.files.get(&file) {
            Some(contents) => contents,
            None => panic!("the simulated disk has lost {file:?}"),
        }
    }

    fn file_mut(&mut self, file: FileId) -> &mut Contents {
        match self.files.get_mut(&file) {
            Some(contents) => contents,
            None => panic!("the simulated disk has lost {file:?}"),
        }
    }

    /// Returns a random one of the disks that a power cut may leave. Everything on it is durable.
    pub(super) fn after_crash(&self, random: &mut fastrand::Rng) -> Self {
        let mut names = self.names.left_by_crash(self.names.after_crash(random));
        let files = names
            .prune()
            .into_iter()
            .map(|file| (file, self.file(file).after_crash(random)))
            .collect();
        Self { names, files }
    }

    /// Returns the disk after a crash of the process, without a power cut. Only files that were
    /// open but had no name are lost.
    pub(super) fn after_process_crash(&self) -> Self {
        let mut disk = self.clone();
        disk.names.leave_working_directory();
        disk.forget_unreachable(|_| false);
        disk
    }

    /// Forgets every file that is not open and that no name leads to, neither a current name nor
    /// one that a crash may bring back.
    pub(super) fn forget_unreachable(&mut self, is_open: impl Fn(FileId) -> bool) {
        let reached: BTreeSet<FileId> = self.names.prune();
        self.files.retain(|file, _| reached.contains(file) || is_open(*file));
    }
}
