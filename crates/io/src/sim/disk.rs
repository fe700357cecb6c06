//! The whole disk as a value: names and bytes, and the effects of calls on them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::contents::Contents;
use super::namespace::{Change, DirectoryId, FileId, LinkId, Namespace};

/// The effect of a call on the disk. The same effect on the same disk always has the same result.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    /// Creates a file without a name.
    NewFile(FileId),
    /// Creates a symbolic link without a name.
    NewLink {
        link: LinkId,
        target: PathBuf,
    },
    /// Changes names.
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
    /// A sync fails; the seed decides which bytes of the file are lost.
    FailSync {
        file: FileId,
        seed: u64,
    },
    SyncDirectory(DirectoryId),
    /// Makes bytes of a file durable, with the metadata needed to read them.
    SyncSpan {
        file: FileId,
        span: Range<u64>,
    },
}

/// A disk.
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

    /// Returns a file that a name or an open handle refers to.
    ///
    /// # Panics
    /// If the file was forgotten, which is a bug in this simulation.
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

    /// Returns the disk that a power cut may leave. Everything on it is durable.
    pub(super) fn after_crash(&self, random: &mut fastrand::Rng) -> Self {
        let mut names = self.names.left_by_crash(self.names.after_crash(random));
        let files = names
            .prune()
            .into_iter()
            .map(|file| (file, self.file(file).after_crash(random)))
            .collect();
        Self { names, files }
    }

    /// Returns the disk after a crash of the process: everything except files without a name.
    pub(super) fn after_process_crash(&self) -> Self {
        let mut disk = self.clone();
        disk.names.leave_working_directory();
        disk.forget_unreachable(|_| false);
        disk
    }

    /// Forgets files that are not open and that no name leads to, neither for the process nor after
    /// a crash.
    pub(super) fn forget_unreachable(&mut self, is_open: impl Fn(FileId) -> bool) {
        let reached: BTreeSet<FileId> = self.names.prune();
        self.files.retain(|file, _| reached.contains(file) || is_open(*file));
    }
}
