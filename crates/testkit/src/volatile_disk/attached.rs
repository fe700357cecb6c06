//! A loop device, and the filesystem that is mounted from it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::filesystem::run;

/// How often unmounting is tried while something is still in use, and how long it pauses between:
/// a process that ended may have requests to the system under way, which hold its files open.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);

/// A loop device that stands on a file, detached when this goes.
#[derive(Debug)]
pub(super) struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Takes a free one, with direct I/O to the file: that hands on a request as one, and the file
    /// keeps writes out of the page cache in either mode.
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
        // Whoever still has it open keeps it until then.
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).output();
    }
}

/// A filesystem on a loop device of its own, unmounted when this goes, from whoever uses it, too.
#[derive(Debug)]
pub(super) struct Attached {
    target: PathBuf,
    mounted: bool,
    // Goes after the filesystem is unmounted.
    _device: LoopDevice,
}

impl Attached {
    /// Mounts what is on the device, in an existing directory.
    pub(super) fn new(device: LoopDevice, target: &Path) -> Result<Self, String> {
        run(Command::new("mount").arg(device.path()).arg(target))?;
        Ok(Self { target: target.to_owned(), mounted: true, _device: device })
    }

    /// Unmounts it, and waits until nobody uses it any more.
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

/// Unmounts what nobody uses, or will not use soon.
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
