//! Filesystems that are created for a test, on a loop device.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tailwater_io::IoMode;
use tailwater_io::posix::PosixStorage;
use tailwater_io::probe::{Access, Answer, Probe, probe};
use tempfile::TempDir;

/// A filesystem of a given kind and size, unmounted when the value is dropped.
#[derive(Debug)]
pub struct Mounted {
    directory: TempDir,
}

impl Mounted {
    /// Creates and mounts an `ext4`, `xfs` or `btrfs` filesystem of `bytes` bytes. This needs root,
    /// a loop device and the program `mkfs` of the filesystem. If any of them is missing, prints on
    /// standard error what is skipped and why, and returns `None`.
    ///
    /// # Panics
    /// If a file cannot be created in the system's temporary directory.
    #[expect(clippy::disallowed_methods, reason = "an image is not a database's file")]
    pub fn new(kind: &str, bytes: u64, left_out: &str) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let (image, target) = (directory.path().join("image"), directory.path().join("disk"));
        let file = File::create(&image).expect("an image");
        file.set_len(bytes).expect("the length of the image");
        std::fs::create_dir(&target).expect("a directory");
        let mount = |()| run(Command::new("mount").args(["-o", "loop"]).args([&image, &target]));
        let made = make(kind, &image).and_then(mount);
        match made {
            Ok(_) => Some(Self { directory }),
            Err(reason) => {
                say(&format!("LEFT OUT: {left_out}: no {kind} on a loop device: {reason}"));
                None
            }
        }
    }

    /// Returns the filesystem's mount point.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    /// Remounts the filesystem read-only.
    ///
    /// # Panics
    /// If the remount fails.
    pub fn make_read_only(&self) {
        run(Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()))
            .expect("a read-only mount");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// A directory that is also mounted at a second path, until the value is dropped.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
}

impl Bound {
    /// Mounts the directory `from` also at the existing directory `to`; `read_only` makes the
    /// second mount read-only. Without permission to mount, prints on standard error that `skipped`
    /// is skipped, and returns `None`.
    pub fn new(from: &Path, to: &Path, read_only: bool, skipped: &str) -> Option<Self> {
        let bind = run(Command::new("mount").arg("--bind").args([from, to]));
        let bound = bind.map(|_| Self { path: to.to_owned() }).and_then(|bound| {
            if read_only {
                run(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(to))?;
            }
            Ok(bound)
        });
        match bound {
            Ok(bound) => Some(bound),
            Err(reason) => {
                say(&format!("LEFT OUT: {skipped}: {reason}"));
                None
            }
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// Whether direct writes to files in a directory bypass the page cache. If not, prints on standard
/// error that `left_out` is left out, and why.
///
/// # Panics
/// If the directory cannot be written.
pub fn writes_directly(directory: &Path, left_out: &str) -> bool {
    let probed = probe(&PosixStorage::new(), directory, IoMode::Direct, Access::Write);
    let Probe { filesystem, answer, .. } = probed.expect("a directory for scratch files");
    if answer == Answer::Works {
        return true;
    }
    let path = directory.display();
    say(&format!("LEFT OUT: {left_out}: direct I/O on {filesystem}, in {path}, {answer}"));
    false
}

/// Prints a line on standard error. It does not use `eprintln!`, because the test harness shows the
/// output of `eprintln!` only for failing tests.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Creates an empty filesystem of type `kind` in the file or on the device `place`.
pub(crate) fn make(kind: &str, place: &Path) -> Result<(), String> {
    let arguments: &[&str] = if kind == "ext4" { &["-q", "-m", "0"] } else { &["-q"] };
    run(Command::new(format!("mkfs.{kind}")).args(arguments).arg(place)).map(drop)
}

/// Runs a command and returns its output. If it fails, returns its error message as the error.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
