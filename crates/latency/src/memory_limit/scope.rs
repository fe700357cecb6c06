//! Limits set by systemd. They are used where this process cannot create cgroups itself, which is
//! usual for unprivileged users.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Host;
use crate::failure::Failure;

/// Starts a systemd scope for each child. A scope ends when its last process ends.
#[derive(Debug)]
pub(super) struct Scopes {
    systemd_run: PathBuf,
    systemctl: PathBuf,
    is_root: bool,
    name: String,
    started: AtomicU64,
}

impl Scopes {
    /// Returns a value that starts systemd scopes. First starts a trial scope, to check that
    /// systemd can start scopes.
    pub(super) fn new(host: &Host, name: &str, bytes: u64) -> Result<Self, String> {
        let scopes = Self {
            systemd_run: host.systemd_run.clone(),
            systemctl: host.systemctl.clone(),
            is_root: rustix::process::geteuid().is_root(),
            name: name.to_owned(),
            started: AtomicU64::new(0),
        };
        let mut trial = scopes.command(bytes, OsStr::new("true"));
        let output = trial.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(scopes);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(said.lines().next_back().unwrap_or("it fails").trim().to_owned())
    }

    /// Returns a command that runs the program in a new scope. `systemd-run` replaces itself with
    /// the program, so the program has the process id of the spawned child.
    pub(super) fn command(&self, bytes: u64, program: &OsStr) -> Command {
        let number = self.started.fetch_add(1, Relaxed);
        let mut command = self.systemd(&self.systemd_run);
        command.args(["--quiet", "--scope", "--collect"]);
        command.arg(format!("--unit={}-{number}", self.name));
        command.arg("-p").arg(format!("MemoryMax={bytes}")).args(["-p", "MemorySwapMax=0", "--"]);
        command.arg(program);
        command
    }

    /// Changes the memory limit of the most recently started scope. Does nothing if no scope was
    /// started except the trial scope of [`Self::new`].
    pub(super) fn set(&self, bytes: u64) -> Result<(), Failure> {
        let number = self.started.load(Relaxed) - 1;
        if number == 0 {
            return Ok(());
        }
        let mut command = self.systemd(&self.systemctl);
        let scope = format!("{}-{number}.scope", self.name);
        command.args(["set-property", "--runtime", &scope]).arg(format!("MemoryMax={bytes}"));
        let output = command.stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("systemctl: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
    }

    /// Kills all systemd scopes started under this memory limit.
    pub(super) fn end(&self) {
        let mut command = self.systemd(&self.systemctl);
        command.args(["kill", "--signal=KILL", &format!("{}-*.scope", self.name)]);
        // Ignore errors: usually the scopes have already ended with their processes.
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }

    fn systemd(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.args((!self.is_root).then_some("--user"));
        command
    }
}

impl Drop for Scopes {
    fn drop(&mut self) {
        self.end();
    }
}
