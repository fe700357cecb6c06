//! A loop device and the filesystem mounted from it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::filesystem::run;

/// Number of attempts to unmount a busy filesystem, and the pause between two attempts. A
/// filesystem stays busy for a while after its users were killed, because system calls in progress
/// keep files open.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);

/// A loop device backed by a file, detached when the value is dropped.
#[derive(Debug)]
pub(super) struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Attaches a free loop device to the file, with direct I/O, so that the loop device forwards
    /// each request as a single request. Writes to the file bypass the page cache even without
    /// direct I/O of the loop device.
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
        // The detachment takes effect when the last user closes the device.
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).output();
    }
}

/// A filesystem on its own loop device, unmounted when the value is dropped, even while it is in
/// use.
#[derive(Debug)]
pub(super) struct Attached {
    target: PathBuf,
    mounted: bool,
    // Dropped after the filesystem is unmounted.
    _device: LoopDevice,
}

impl Attached {
    /// Mounts the device in an existing directory.
    pub(super) fn new(device: LoopDevice, target: &Path) -> Result<Self, String> {
        run(Command::new("mount").arg(device.path()).arg(target))?;
        Ok(Self { target: target.to_owned(), mounted: true, _device: device })
    }

    /// Unmounts the filesystem, and waits until it is no longer in use.
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

/// Unmounts a filesystem that is no longer in use, or soon will not be.
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
