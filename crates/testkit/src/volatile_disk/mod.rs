//! A disk that loses unflushed writes when its power is cut, with a filesystem on it.
//!
//! The disk is the only file of a FUSE filesystem that this process serves. A loop device uses this
//! file as its backing file, and the tested filesystem is mounted from the loop device. Writes of
//! the loop device first reach the disk's volatile cache. A flush of the loop device, which arrives
//! as a sync of the file, makes them durable. The power can be cut between any two requests of the
//! kernel while the tested filesystem is in use. After a cut, what remains on the disk is mounted
//! again, through another loop device.
//!
//! The disk's seed determines what a cut does to the sectors that were written since the last
//! flush. In some cuts, all of them keep their new contents; in some cuts, none do; otherwise, each
//! sector is decided independently. A sector that was written several times since the last flush
//! may revert to any of its states since that flush, including the flushed state. A sector is never
//! torn.
//!
//! - After a cut, every request fails, including reads, until the power is restored.
//! - During a flush, the kernel delays writes to the file, but not reads.
//! - The disk needs root, FUSE, a loop device, and the tools that create the filesystem.
//! - Only other processes may use the tested filesystem. If this process were killed while one of
//!   its threads waited for the disk, that thread would wait for a reply that nobody sends, and the
//!   process would never end.
//! - If this process is killed, the tested filesystem stays mounted without its disk. `umount` and
//!   `losetup --detach` remove the filesystem and the loop device.

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

/// Number of threads that serve the kernel's requests to the disk, which is a FUSE file. With two
/// threads, one can serve reads while the other waits for the end of a flush.
const THREADS: usize = 2;

/// The properties of a disk.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Size in bytes, a multiple of [`Shape::sector`]. Memory is used only for parts that were
    /// written. XFS needs at least 300 MiB.
    pub size: usize,
    /// Size of a sector in bytes, which is the unit that a power cut never tears: 512, or 4096 as
    /// on many solid-state disks.
    pub sector: usize,
    /// Minimum duration of a flush.
    pub flush_delay: Duration,
}

impl Default for Shape {
    /// Returns a size of 512 MiB, sectors of 512 bytes, and flushes without a delay.
    fn default() -> Self {
        Self { size: 512 << 20, sector: 512, flush_delay: Duration::ZERO }
    }
}

/// A disk whose power can be cut, and the filesystem on it. Dropping the value unmounts the
/// filesystem and removes the disk.
#[derive(Debug)]
pub struct VolatileDisk {
    // `Drop` takes `attached` and then `session`. `directory` contains the mount points of both,
    // and is therefore dropped last.
    attached: Option<Attached>,
    session: Option<BackgroundSession>,
    disk: Arc<Powered>,
    mount_options: &'static str,
    directory: TempDir,
}

impl VolatileDisk {
    /// Creates a disk without a filesystem. `seed` determines the effect of power cuts.
    ///
    /// # Errors
    /// The missing requirement: FUSE, or root.
    ///
    /// # Panics
    /// If the size is not a multiple of the sector size, or if no scratch directory can be created.
    #[expect(clippy::disallowed_methods, reason = "mount points are not a database's files")]
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
        let mount_options = "defaults";
        Ok(Self { attached: None, session: Some(session), disk, mount_options, directory })
    }

    /// Sets the options with which the filesystem is mounted from then on, separated by commas.
    pub fn set_mount_options(&mut self, options: &'static str) {
        self.mount_options = options;
    }

    /// Creates a filesystem on the disk, and mounts it. `kind` is `ext4`, `xfs` or `btrfs`. Returns
    /// the mount point.
    ///
    /// # Errors
    /// The missing requirement: a loop device, the filesystem, or the tool that creates it.
    ///
    /// # Panics
    /// If a filesystem is already mounted.
    pub fn mount_as(&mut self, kind: &str) -> Result<PathBuf, String> {
        assert!(self.attached.is_none(), "a filesystem is mounted");
        let device = LoopDevice::new(&self.file())?;
        filesystem::make(kind, device.path())?;
        self.mount(device)
    }

    /// Unmounts the filesystem, restores the power, and mounts what is on the disk. The filesystem
    /// then recovers from its journal. No process may still use the filesystem. Returns the mount
    /// point.
    ///
    /// # Errors
    /// The filesystem is in use or cannot be mounted; other I/O errors.
    pub fn mount_again(&mut self) -> Result<PathBuf, String> {
        self.unmount()?;
        self.disk.restore();
        let device = LoopDevice::new(&self.file())?;
        self.mount(device)
    }

    /// Unmounts the filesystem, if one is mounted. After a power cut, unmounting writes nothing to
    /// the disk.
    ///
    /// # Errors
    /// The filesystem is in use; other I/O errors.
    pub fn unmount(&mut self) -> Result<(), String> {
        self.attached.take().map_or(Ok(()), Attached::end)
    }

    fn mount(&mut self, device: LoopDevice) -> Result<PathBuf, String> {
        let target = self.path();
        self.attached = Some(Attached::new(device, &target, self.mount_options)?);
        Ok(target)
    }

    /// Returns the mount point of the filesystem.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.disk.cut();
    }

    /// Lets the next `requests` writes and flushes take effect, and cuts the power before the
    /// request after them.
    pub fn cut_after(&self, requests: u64) {
        self.disk.cut_after(requests);
    }

    /// Returns the effect of the last power cut; `None` while the power is on.
    pub fn loss(&self) -> Option<Loss> {
        self.disk.loss()
    }

    /// Returns the number of writes and flushes that the disk received while its power was on.
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
        // After a failed test, the filesystem may have unwritten data. Cutting the power saves the
        // time to write it.
        self.disk.cut();
        drop(self.attached.take());
        if let Some(session) = self.session.take() {
            end(session, &self.fuse());
        }
    }
}

/// Unmounts the FUSE filesystem at `mounted` and ends its session. A loop device may still be
/// releasing the file.
fn end(session: BackgroundSession, mounted: &Path) {
    if unmount(mounted).is_ok() {
        let _ = session.join();
    } else {
        // The threads of the FUSE session are not joined here. They end when the last user closes
        // the disk's file.
        let _ = filesystem::run(std::process::Command::new("umount").arg("--lazy").arg(mounted));
    }
}
