//! A loop device and the filesystem mounted from it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::filesystem::run;

/// Number of attempts to unmount a filesystem that is busy (`ATTEMPTS`), and the time between two
/// attempts (`PAUSE`). After the processes that use a filesystem were killed, it stays busy for a
/// while, because their system calls in progress keep files open.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);

/// A loop device backed by a file. It is detached when the value is dropped.
#[derive(Debug)]
pub(super) struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Attaches a free loop device to the file. The loop device uses direct I/O, so that it
    /// forwards each of its requests to the file as a single request. The page cache would be
    /// bypassed even without direct I/O of the loop device, because the FUSE filesystem opens the
    /// file with direct I/O.
    pub(super) fn new(file: &Path) -> Result<Self, String> {
        let arguments = ["--find", "--show", "--direct-io=on"];
        let path = run(Command::new("losetup").args(arguments).arg(file))?;
        Ok(Self { path: PathBuf::from(path) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // If the device is still in use, the kernel detaches it when the last user closes it.
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).output();
    }
}

/// A mounted filesystem and its loop device. The filesystem is unmounted when the value is dropped,
/// even if it is in use.
#[derive(Debug)]
pub(super) struct Attached {
    target: PathBuf,
    mounted: bool,
    // `Drop::drop` of this type unmounts the filesystem. Fields are dropped after that, so the loop
    // device is detached from an unmounted filesystem.
    _device: LoopDevice,
}

impl Attached {
    /// Mounts the filesystem of the device at an existing directory, with these mount options.
    pub(super) fn new(device: LoopDevice, target: &Path, options: &str) -> Result<Self, String> {
        run(Command::new("mount").args(["-o", options]).arg(device.path()).arg(target))?;
        Ok(Self { target: target.to_owned(), mounted: true, _device: device })
    }

    /// Unmounts the filesystem. If it is in use, first waits until it is not.
    pub(super) fn end(mut self) -> Result<(), String> {
        unmount(&self.target)?;
        self.mounted = false;
        Ok(())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.mounted && unmount(&self.target).is_err() {
            let _ = Command::new("umount").arg("--lazy").arg(&self.target).output();
        }
    }
}

/// Unmounts a filesystem. If it is in use, tries again until it is not, up to a limit.
pub(super) fn unmount(target: &Path) -> Result<(), String> {
    let mut result = Ok(());
    for _ in 0..ATTEMPTS {
        result = run(Command::new("umount").arg(target)).map(drop);
        match &result {
            Err(reason) if reason.contains("busy") => std::thread::sleep(PAUSE),
            _ => break,
        }
    }
    result
}
