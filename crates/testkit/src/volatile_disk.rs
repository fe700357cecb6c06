//! A disk that forgets what was not flushed when its power is cut, with a filesystem on it.
//!
//! The disk is the one file of a FUSE filesystem that this process serves, and a loop device stands
//! on it. What the loop device writes is in the disk's volatile cache; a flush of the loop device,
//! which arrives as a sync of the file, makes it durable. So a filesystem that is mounted from the
//! loop device, and whoever works in it, can lose power at any moment, between any two requests of
//! the kernel, and what is left is mounted again, by another loop device.
//!
//! A cut decides by the disk's seed which sectors that were written since the last flush keep what
//! was written: in some cuts all, in some none, otherwise each by itself, and a sector that was
//! written several times may keep any of its states. A sector is never torn.
//!
//! - From the cut on every request fails, reads too, until the power is back.
//! - While a flush lasts the kernel holds back writes to the file, not reads.
//! - It needs Linux, root, FUSE, a loop device, and the tools that make the filesystem.
//! - What works in the filesystem belongs in another process than this one. A process that is
//!   killed while it waits for itself never ends.
//! - A process that is killed leaves a filesystem mounted whose disk is gone, for `umount` and
//!   `losetup --detach`.

mod attached;
mod contents;
mod fuse;
mod power;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption};
use tempfile::TempDir;

use crate::filesystem;
use attached::{Attached, LoopDevice, unmount};
use contents::Contents;
pub use contents::Loss;
use fuse::OneFile;
use power::Powered;

/// Threads that serve the file: one may wait for a flush while others read.
const THREADS: usize = 2;

/// What a disk is like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Bytes, a multiple of [`Shape::sector`]. Only what is not zero takes memory. XFS takes no
    /// less than 300 MiB.
    pub size: usize,
    /// How many bytes a power cut leaves whole: 512, or 4096 as with many solid-state disks.
    pub sector: usize,
    /// How long a flush takes at least.
    pub flush_delay: Duration,
}

impl Default for Shape {
    /// 512 MiB, of sectors of 512 bytes, that are flushed at once.
    fn default() -> Self {
        Self { size: 512 << 20, sector: 512, flush_delay: Duration::ZERO }
    }
}

/// A disk whose power can be cut. All that is mounted is unmounted when this goes.
#[derive(Debug)]
pub struct VolatileDisk {
    // First what is mounted from the loop device, then the session, then the directories.
    attached: Option<Attached>,
    session: Option<BackgroundSession>,
    disk: Arc<Powered>,
    directory: TempDir,
}

impl VolatileDisk {
    /// An empty disk, whose cuts are decided by `seed`.
    ///
    /// # Errors
    /// Why there can be none here: there is no FUSE, or this process is not root.
    ///
    /// # Panics
    /// If the size is not a multiple of the sector, or there is no directory for scratch files.
    #[expect(clippy::disallowed_methods, reason = "places to mount at are no files of a database")]
    pub fn new(shape: Shape, seed: u64) -> Result<Self, String> {
        assert!(shape.size.is_multiple_of(shape.sector), "a part of a sector");
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["fuse", "mounted"] {
            std::fs::create_dir(directory.path().join(name)).expect("a directory");
        }
        let contents = Contents::new(shape.size, shape.sector);
        let disk = Arc::new(Powered::new(contents, seed, shape.flush_delay));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("volatile-disk".to_owned())];
        config.n_threads = Some(THREADS);
        let file = OneFile(Arc::clone(&disk));
        let session = fuser::spawn_mount(file, directory.path().join("fuse"), &config)
            .map_err(|error| format!("no FUSE: {error}"))?;
        Ok(Self { attached: None, session: Some(session), disk, directory })
    }

    /// Makes a filesystem on the disk, `ext4`, `xfs` or `btrfs`, and mounts it.
    ///
    /// # Errors
    /// What is missing: a loop device, the filesystem or the tool that makes it.
    ///
    /// # Panics
    /// If one is mounted.
    pub fn mount_as(&mut self, kind: &str) -> Result<PathBuf, String> {
        assert!(self.attached.is_none(), "a filesystem is mounted");
        let device = LoopDevice::new(&self.file())?;
        filesystem::make(kind, device.path())?;
        self.mount(device)
    }

    /// Unmounts the filesystem and mounts what the disk holds, with the power back if it was cut.
    /// The filesystem brings itself into order by its journal. Nobody may be using it any more.
    ///
    /// # Errors
    /// What the system says: it is used, or what is left cannot be mounted.
    pub fn mount_again(&mut self) -> Result<PathBuf, String> {
        self.unmount()?;
        self.disk.restore();
        let device = LoopDevice::new(&self.file())?;
        self.mount(device)
    }

    /// Unmounts the filesystem, if one is mounted. Without power nothing more is written.
    ///
    /// # Errors
    /// What the system says: somebody uses it.
    pub fn unmount(&mut self) -> Result<(), String> {
        self.attached.take().map_or(Ok(()), Attached::end)
    }

    fn mount(&mut self, device: LoopDevice) -> Result<PathBuf, String> {
        let target = self.path();
        self.attached = Some(Attached::new(device, &target)?);
        Ok(target)
    }

    /// Where the filesystem is mounted.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.disk.cut();
    }

    /// Cuts the power before the write or flush that follows the next `requests` ones.
    pub fn cut_after(&self, requests: u64) {
        self.disk.cut_after(requests);
    }

    /// What the cut did, while the power is gone.
    pub fn loss(&self) -> Option<Loss> {
        self.disk.loss()
    }

    /// How many writes and flushes the disk was asked for.
    pub fn requests(&self) -> u64 {
        self.disk.requests()
    }

    fn file(&self) -> PathBuf {
        self.fuse().join(fuse::NAME)
    }

    fn fuse(&self) -> PathBuf {
        self.directory.path().join("fuse")
    }
}

impl Drop for VolatileDisk {
    fn drop(&mut self) {
        // What a test leaves behind when it fails need not be written.
        self.disk.cut();
        drop(self.attached.take());
        if let Some(session) = self.session.take() {
            end(session, &self.fuse());
        }
    }
}

/// Ends the serving of a file that a loop device may still be letting go of.
fn end(session: BackgroundSession, mounted: &Path) {
    if unmount(mounted).is_ok() {
        let _ = session.join();
    } else {
        // The session's threads end with the last user of the file.
        let _ = filesystem::run(std::process::Command::new("umount").arg("--lazy").arg(mounted));
    }
}
