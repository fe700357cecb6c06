//! Moves files to the trash, and empties it: in the manager's thread, at the deletion rate.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tailwater_format::file_name::FileKind;
use tailwater_io::{Result, Storage, thread};

use super::trash::{RemovedPart, TrashFile, TrashQueue};
use super::{Shared, SstFileManager};
use crate::stats::Ticker;

/// Maximum time until the thread looks at the clock again. The clock may be a test's, which does
/// not wake it.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// How fast the trash is emptied: since `begun_ns`, `bytes` were removed at a rate of `rate` bytes
/// per second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    rate: i64,
    begun_ns: u64,
    bytes: u64,
}

impl Pace {
    /// Begins to count at `now_ns`.
    pub(super) fn begin(rate: i64, now_ns: u64) -> Self {
        Self { rate, begun_ns: now_ns, bytes: 0 }
    }

    /// Counts bytes that were removed.
    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns the time from which on more may be removed.
    pub(super) fn due_ns(&self) -> u64 {
        let Ok(rate @ 1..) = u64::try_from(self.rate) else { return self.begun_ns };
        let took_ns = u128::from(self.bytes) * 1_000_000_000 / u128::from(rate);
        self.begun_ns.saturating_add(u64::try_from(took_ns).unwrap_or(u64::MAX))
    }
}

impl SstFileManager {
    /// Removes a trash file in the manager's thread. If the thread cannot be started, or if
    /// `is_inline`, removes all trash in the calling thread, without pauses.
    pub(super) fn remove_slowly(&self, file: TrashFile, is_inline: bool) {
        self.shared.trash.lock().push(file);
        self.shared.changed.notify_all();
        if is_inline || !self.start_emptying() {
            while self.shared.step(|trash, _| trash) {}
        }
    }

    /// Starts the thread, unless it runs. Returns whether it runs then.
    fn start_emptying(&self) -> bool {
        let mut emptying = self.emptying.lock();
        if emptying.is_none() {
            let shared = Arc::clone(&self.shared);
            *emptying = thread::spawn("tailwater-trash", move || shared.keep_empty()).ok();
        }
        emptying.is_some()
    }

    /// Waits until the trash of one opening of a database is removed or given up.
    pub(super) fn wait_for_empty_trash_of(&self, opening: u64) {
        let trash = self.shared.trash.lock();
        drop(self.shared.changed.wait_while(trash, |trash| !trash.is_empty_of(opening)));
    }
}

impl Shared {
    /// Whether a deletion rate is set.
    pub(super) fn has_rate(&self) -> bool {
        self.delete_rate.load(Relaxed) > 0
    }

    /// Whether a file is removed slowly: a rate is set, and the trash is not too large.
    pub(super) fn removes_slowly(&self) -> bool {
        let ratio = f64::from_bits(self.max_trash_db_ratio.load(Relaxed));
        let trash = self.trash.lock().bytes() as f64;
        let is_full = trash > self.space.lock().total() as f64 * ratio;
        self.has_rate() && !is_full
    }

    /// Renames a file to a trash file, and returns its path. A trash file keeps its name.
    pub(super) fn mark_as_trash(&self, storage: &dyn Storage, path: &Path) -> Result<PathBuf> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(kind) = name.as_deref().and_then(FileKind::parse) else {
            return Ok(path.to_owned());
        };
        let _naming = self.naming.lock();
        let mut conflict = None;
        loop {
            let Some(trash) = kind.trash(conflict) else { return Ok(path.to_owned()) };
            let trash = path.with_file_name(trash.to_string());
            match storage.metadata(&trash) {
                Err(error) if error.is_not_found() => {
                    storage.rename(path, &trash)?;
                    return Ok(trash);
                }
                found => drop(found?),
            }
            conflict = Some(conflict.map_or(0, |last: u64| last + 1));
        }
    }

    /// Removes trash, whenever there is any, until the manager is dropped.
    fn keep_empty(&self) {
        loop {
            let waits = |trash: &mut TrashQueue| !trash.has_next() && !trash.is_closed();
            if self.changed.wait_while(self.trash.lock(), waits).is_closed() {
                return;
            }
            self.empty_at_rate();
        }
    }

    /// Removes trash at the deletion rate, until there is none or the manager is dropped. A new
    /// rate takes effect at once.
    fn empty_at_rate(&self) {
        let mut pace = Pace::begin(self.delete_rate.load(Relaxed), self.clock.monotonic_ns());
        let mut pause = |trash, removed| {
            pace.add(removed);
            self.pause(trash, &mut pace)
        };
        while self.step(&mut pause) {}
    }

    /// Waits until more may be removed.
    fn pause<'t>(
        &'t self,
        mut trash: MutexGuard<'t, TrashQueue>,
        pace: &mut Pace,
    ) -> MutexGuard<'t, TrashQueue> {
        loop {
            let now_ns = self.clock.monotonic_ns();
            let rate = self.delete_rate.load(Relaxed);
            if rate != pace.rate {
                *pace = Pace::begin(rate, now_ns);
            }
            let left = Duration::from_nanos(pace.due_ns().saturating_sub(now_ns));
            if left.is_zero() || trash.is_closed() {
                return trash;
            }
            trash = self.changed.wait_timeout(trash, left.min(LONGEST_WAIT));
        }
    }

    /// Removes a part of the next file. `pause` gets the number of bytes that were removed; the
    /// file stays in the trash until it returns. Returns false if no file is left, or if the
    /// manager was dropped.
    fn step<'t>(
        &'t self,
        pause: impl FnOnce(MutexGuard<'t, TrashQueue>, u64) -> MutexGuard<'t, TrashQueue>,
    ) -> bool {
        let Some(mut file) = self.trash.lock().take() else { return false };
        let part = self.remove_part(&file);
        let mut trash = self.trash.lock();
        trash.count_removed(&mut file, part.bytes);
        trash = pause(trash, part.bytes);
        if part.is_last {
            trash.end(&file);
            self.changed.notify_all();
        } else {
            trash.put_back(file);
        }
        true
    }

    /// Removes a part of a file. If that fails, the file is given up and no longer counts; the next
    /// opening of its database finds it again.
    fn remove_part(&self, file: &TrashFile) -> RemovedPart {
        let removed = file.remove_part(self.bytes_max_delete_chunk.load(Relaxed));
        let part = *removed.as_ref().unwrap_or(&RemovedPart { bytes: 0, is_last: true });
        if part.is_last {
            self.space.lock().untrack(&file.path);
        }
        match removed {
            Err(error) if !error.is_not_found() => {
                if let Some(info_log) = file.owner.info_log.upgrade() {
                    info_log.error(format_args!("cannot remove a trash file: {error}"));
                }
            }
            _ if part.is_last => file.owner.count(Ticker::FilesDeletedFromTrashQueue),
            _ => {}
        }
        part
    }
}
