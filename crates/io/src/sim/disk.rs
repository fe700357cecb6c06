//! The whole disk as a value: names and bytes, and what a call does to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::contents::Contents;
use super::namespace::{Change, DirectoryId, FileId, LinkId, Namespace};

/// What a call does to the disk. Applying the same effects to equal disks gives equal disks.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    /// A file is there from now on, under no name yet.
    NewFile(FileId),
    /// A symbolic link is there from now on, under no name yet.
    NewLink {
        link: LinkId,
        target: PathBuf,
    },
    /// Names are given and taken away.
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
    /// A sync fails; the seed decides what of the file's bytes was lost.
    FailSync {
        file: FileId,
        seed: u64,
    },
    SyncDirectory(DirectoryId),
    /// Bytes of a file become durable, and what it takes to read them.
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

    /// A file that a name or an open handle leads to.
    ///
    /// # Panics
    /// If it was forgotten: a fault in this simulation.
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

    /// What a power cut may leave. Everything on it is durable.
    pub(super) fn after_crash(&self, random: &mut fastrand::Rng) -> Self {
        let mut names = self.names.left_by_crash(self.names.after_crash(random));
        let files = names
            .prune()
            .into_iter()
            .map(|file| (file, self.file(file).after_crash(random)))
            .collect();
        Self { names, files }
    }

    /// What a crash of the process leaves: everything, but files that only handles led to.
    pub(super) fn after_process_crash(&self) -> Self {
        let mut disk = self.clone();
        disk.names.leave_working_directory();
        disk.forget_unreachable(|_| false);
        disk
    }

    /// Forgets files that no name leads to, neither for the process nor after a crash, and that are
    /// not open.
    pub(super) fn forget_unreachable(&mut self, is_open: impl Fn(FileId) -> bool) {
        let reached: BTreeSet<FileId> = self.names.prune();
        self.files.retain(|file, _| reached.contains(file) || is_open(*file));
    }
}
