//! The files of one database, as its manager knows them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;

use super::SstFileManager;
use super::trash::{Owner, TrashFile};
use crate::error::{Error, ErrorKind, Result};
use crate::stats::{InfoLog, Statistics, Ticker};

/// The text of RocksDB's status.
const LIMIT_REACHED: &str = "Max allowed space was reached";

/// The tables, blob files and logs of a database that is open. They are removed through this value,
/// and tracked if the options have an [`SstFileManager`].
#[derive(Debug)]
pub(crate) struct TrackedFiles {
    owner: Arc<Owner>,
    manager: Option<Arc<SstFileManager>>,
    /// Whether logs are removed slowly, too.
    slow_logs: bool,
    /// Whether trash is removed by the thread that makes a file trash.
    is_inline: bool,
}

/// Space for the outputs of a compaction, which is reserved until this value is dropped.
#[derive(Debug)]
pub(crate) struct CompactionSpace<'f> {
    manager: &'f SstFileManager,
    bytes: u64,
}

impl Drop for CompactionSpace<'_> {
    fn drop(&mut self) {
        self.manager.shared.space.lock().release(self.bytes);
    }
}

impl Drop for TrackedFiles {
    /// Needed if the opening fails.
    fn drop(&mut self) {
        self.close();
    }
}

impl TrackedFiles {
    /// Creates the value for a database without a manager, statistics and a LOG.
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let opening = NEXT.fetch_add(1, Relaxed);
        let owner = Owner { opening, storage, info_log: Weak::new(), statistics: None };
        Self { owner: Arc::new(owner), manager: None, slow_logs: false, is_inline: false }
    }

    /// Sets the manager. If `slow_logs`, logs are removed slowly, too; if `is_inline`, the thread
    /// that makes a file trash removes it.
    #[must_use]
    pub(crate) fn managed_by(
        mut self,
        manager: Option<Arc<SstFileManager>>,
        slow_logs: bool,
        is_inline: bool,
    ) -> Self {
        self.manager = manager;
        self.slow_logs = slow_logs;
        self.is_inline = is_inline;
        self
    }

    /// Sets the statistics that count removals, and the LOG that reports failures.
    #[must_use]
    pub(crate) fn reported_to(
        mut self,
        statistics: Option<Arc<Statistics>>,
        info_log: &Arc<InfoLog>,
    ) -> Self {
        let owner = Arc::make_mut(&mut self.owner);
        owner.statistics = statistics;
        owner.info_log = Arc::downgrade(info_log);
        self
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.owner.storage
    }

    /// Whether the database has a manager.
    pub(crate) fn is_managed(&self) -> bool {
        self.manager.is_some()
    }

    /// Tracks a table or blob file of `bytes`.
    pub(crate) fn added(&self, path: &Path, bytes: u64) {
        if let Some(manager) = &self.manager {
            manager.shared.space.lock().track(path, bytes, self.owner.opening);
        }
    }

    /// Removes an obsolete file that nobody uses: slowly, if its kind and the manager permit.
    pub(crate) fn remove(&self, path: &Path) -> tailwater_io::Result<()> {
        match &self.manager {
            Some(manager) if self.is_accounted(path) && manager.shared.removes_slowly() => {
                self.discard(manager, path).map(drop)
            }
            _ => self.remove_at_once(path),
        }
    }

    /// Removes a file that no version of the database has had, and that was there when the database
    /// was opened. It is tracked until it is removed.
    pub(crate) fn remove_left_over(&self, path: &Path) -> tailwater_io::Result<()> {
        let Some(manager) = self.manager.as_ref().filter(|_| self.is_accounted(path)) else {
            return self.remove_at_once(path);
        };
        if manager.shared.space.lock().is_trash(path) {
            // The trash of an earlier opening, which the manager still removes.
            return Ok(());
        }
        if !matches!(kind_of(path), Some(FileKind::Wal(_))) {
            self.added(path, self.owner.storage.metadata(path)?.length);
        }
        self.remove(path)
    }

    /// Removes files of a database that is destroyed, and returns when they are gone. A file with
    /// one name is removed slowly, whatever the size of the trash, and at once if that fails. Files
    /// that do not exist are ignored.
    pub(crate) fn remove_destroyed(
        &self,
        paths: impl IntoIterator<Item = PathBuf>,
    ) -> tailwater_io::Result<()> {
        let remove = |path: &Path| match self.remove_at_once(path) {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        };
        let has_one_name = |path: &Path| {
            let found = self.owner.storage.metadata(path);
            found.is_ok_and(|found| found.hard_links.is_none_or(|it| it < 2))
        };
        let manager = self.manager.as_ref().filter(|manager| manager.shared.has_rate());
        let mut trash = Vec::new();
        for path in paths {
            match manager {
                Some(manager) if self.is_accounted(&path) && has_one_name(&path) => {
                    trash.extend(self.discard(manager, &path)?);
                }
                _ => remove(&path)?,
            }
        }
        if let Some(manager) = manager {
            manager.wait_for_empty_trash_of(self.owner.opening);
        }
        trash.iter().try_for_each(|path| remove(path))
    }

    /// Removes a file in one step.
    pub(crate) fn remove_at_once(&self, path: &Path) -> tailwater_io::Result<()> {
        let removed = self.owner.storage.remove(path);
        let is_gone = removed.as_ref().map_or_else(|error| error.is_not_found(), |()| true);
        if let Some(manager) = self.manager.as_ref().filter(|_| is_gone) {
            manager.shared.space.lock().untrack(path);
        }
        if removed.is_ok() && self.is_accounted(path) {
            self.owner.count(Ticker::FilesDeletedImmediately);
        }
        removed
    }

    /// Refuses more data if the tracked files take up the space that the manager allows.
    ///
    /// # Errors
    /// Space limit.
    pub(crate) fn check_space(&self) -> Result<()> {
        match &self.manager {
            Some(manager) if manager.is_max_allowed_space_reached() => {
                Err(Error::new(ErrorKind::SpaceLimit, LIMIT_REACHED))
            }
            _ => Ok(()),
        }
    }

    /// Reserves space for the outputs of a compaction whose inputs have `bytes` in total. Returns
    /// `None` if the database has no manager.
    ///
    /// # Errors
    /// Compaction too large, if the compaction could exceed the space that the manager allows.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Option<CompactionSpace<'_>>> {
        let Some(manager) = self.manager.as_deref() else { return Ok(None) };
        if manager.shared.space.lock().reserve(bytes) {
            return Ok(Some(CompactionSpace { manager, bytes }));
        }
        self.owner.count(Ticker::CompactionCancelled);
        let message = format!(
            "not enough room: a compaction of {bytes} bytes could exceed the space that the \
             SstFileManager allows"
        );
        Err(Error::new(ErrorKind::CompactionTooLarge, message))
    }

    /// Ends the tracking of the database's files. The manager goes on to remove its trash.
    pub(crate) fn close(&self) {
        if let Some(manager) = &self.manager {
            manager.shared.space.lock().leave(self.owner.opening);
        }
    }

    /// Makes a file trash, to be removed slowly, and returns its path. If it cannot be renamed,
    /// removes it at once, and returns `None`.
    fn discard(
        &self,
        manager: &SstFileManager,
        path: &Path,
    ) -> tailwater_io::Result<Option<PathBuf>> {
        let storage = &*self.owner.storage;
        let trash = match manager.shared.mark_as_trash(storage, path) {
            Ok(trash) => trash,
            Err(error) => {
                let info_log = self.owner.info_log.upgrade();
                if let Some(info_log) = info_log.filter(|_| !error.is_not_found()) {
                    info_log.warn(format_args!("a file is removed at once: {error}"));
                }
                return self.remove_at_once(path).map(|()| None);
            }
        };
        manager.shared.space.lock().move_to_trash(path, &trash, self.owner.opening);
        self.owner.count(Ticker::FilesMarkedTrash);
        let bytes = storage.metadata(&trash).map_or(0, |found| found.length);
        let file = TrashFile { path: trash.clone(), bytes, owner: Arc::clone(&self.owner) };
        manager.remove_slowly(file, self.is_inline);
        Ok(Some(trash))
    }

    /// Whether the manager decides how a file is removed.
    fn is_accounted(&self, path: &Path) -> bool {
        match kind_of(path) {
            Some(FileKind::Wal(_)) => self.slow_logs,
            Some(kind) => matches!(kind, FileKind::Trash(_)) || kind.trash(None).is_some(),
            None => false,
        }
    }
}

fn kind_of(path: &Path) -> Option<FileKind> {
    FileKind::parse(&path.file_name()?.to_string_lossy())
}
