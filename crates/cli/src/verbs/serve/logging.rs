//! Writes log lines to standard error and to files of bounded size.
//!
//! A separate thread writes the lines, so that a slow disk or terminal does not delay the server's
//! clients. The thread's queue is bounded. When it is full, further lines are dropped, and the
//! thread reports their number before it writes the next line.
//!
//! A file's name contains the time of its creation, in microseconds since 1970. A new process
//! appends to the newest file.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use tailwater_io::thread::{Thread, spawn};
use tailwater_io::{Clock, clock::SystemClock};
use tailwater_server::Config;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::outcome::{Failure, Result};
use crate::output::say;

/// Maximum number of lines in the queue of the writing thread.
const QUEUE: usize = 8192;
/// Maximum time that a shutdown waits for the writing thread to write the queued lines and end.
const FINISH: Duration = Duration::from_secs(3);
/// Interval between two checks whether the writing thread has ended.
const PAUSE: Duration = Duration::from_millis(1);
const PREFIX: &str = "tailwater-";
const SUFFIX: &str = ".log";

/// A message to the writing thread.
enum Message {
    Line(Vec<u8>),
    Finish,
}

/// The writing thread, and its queue.
pub(super) struct Logging {
    queue: SyncSender<Message>,
    thread: Thread,
}

/// Returns the configured filter of log lines.
///
/// # Errors
/// [`Failure::Usage`], if the filter is invalid.
pub(super) fn filter(config: &Config) -> Result<EnvFilter> {
    let level = &config.logging.level;
    EnvFilter::try_new(level).map_err(|error| {
        Failure::Usage(format!("system.logging.level: '{level}' cannot be used: {error}"))
    })
}

impl Logging {
    /// Starts the writing thread, and makes it receive all log lines of this process.
    pub(super) fn start(config: &Config, filter: EnvFilter) -> Result<Self> {
        let files = if config.logging.has_file { Some(Files::open(config)?) } else { None };
        let (queue, lines) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = Queue { queue: queue.clone(), dropped: Arc::clone(&dropped) };
        let thread = spawn("serve-log", move || write_lines(&lines, files, &dropped))
            .map_err(|error| Failure::Refused(error.to_string()))?;
        let lines =
            tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(writer);
        let is_first = if config.logging.is_json {
            lines.json().flatten_event(true).try_init()
        } else {
            lines.try_init()
        };
        is_first.map_err(|error| Failure::Refused(format!("cannot log: {error}")))?;
        Ok(Self { queue, thread })
    }

    /// Waits until the thread has written the queued lines and ended. If it does not end within
    /// [`FINISH`], for example because nobody reads standard error, it is abandoned.
    pub(super) fn finish(self) {
        let deadline = Instant::now() + FINISH;
        let mut message = Some(Message::Finish);
        while !self.thread.is_finished() {
            if let Some(unsent) = message.take() {
                // If sending fails because the queue is disconnected, the thread has already ended.
                message = match self.queue.try_send(unsent) {
                    Err(TrySendError::Full(unsent)) => Some(unsent),
                    _ => None,
                };
            }
            if Instant::now() >= deadline {
                std::mem::forget(self.thread);
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// The sending side of the queue, through which log lines reach the writing thread.
#[derive(Clone)]
struct Queue {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Message::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn write_lines(lines: &Receiver<Message>, mut files: Option<Files>, dropped: &AtomicU64) {
    while let Ok(Message::Line(line)) = lines.recv() {
        let missing = dropped.swap(0, Ordering::Relaxed);
        if missing > 0 {
            say(format_args!("tailwater: {missing} log lines were dropped"));
        }
        // If writing to standard error fails, there is nowhere to report the failure.
        let _ = io::stderr().lock().write_all(&line);
        if let Some(open) = &mut files
            && let Err(error) = open.write(&line, SystemClock.wall_us())
        {
            say(format_args!("tailwater: logging to files stopped: {error}"));
            files = None;
        }
    }
}

/// The log files.
#[derive(Debug)]
struct Files {
    directory: PathBuf,
    file_bytes_max: Option<u64>,
    total_bytes_max: Option<u64>,
    retention_us: Option<u64>,
    current: File,
    bytes: u64,
}

impl Files {
    fn open(config: &Config) -> Result<Self> {
        let directory = config.path.join(&config.logging.path);
        let retention = config.logging.retention.map(|age| age.as_micros());
        let refuse = |error: io::Error| {
            Failure::Refused(format!("system.logging.path: {}: {error}", directory.display()))
        };
        create_directory(&directory).map_err(refuse)?;
        let newest = list(&directory).map_err(refuse)?.pop();
        let name = newest.map_or_else(|| name(SystemClock.wall_us()), |(_, name, _)| name);
        let current = append_to(&directory.join(name)).map_err(refuse)?;
        let bytes = current.metadata().map_err(refuse)?.len();
        Ok(Self {
            file_bytes_max: config.logging.file_bytes_max,
            total_bytes_max: config.logging.total_bytes_max,
            retention_us: retention.and_then(|us| u64::try_from(us).ok()),
            current,
            bytes,
            directory,
        })
    }

    /// Appends a line to the current file. If the line does not fit, begins a new file and removes
    /// old files. If no file descriptor is left for that, the current file becomes longer.
    fn write(&mut self, line: &[u8], now_us: u64) -> io::Result<()> {
        let length = line.len() as u64;
        if self.bytes > 0 && self.file_bytes_max.is_some_and(|max| self.bytes + length > max) {
            match self.begin_file(now_us) {
                Err(error) if is_out_of_descriptors(&error) => {}
                begun => begun?,
            }
        }
        self.current.write_all(line)?;
        self.bytes += length;
        Ok(())
    }

    fn begin_file(&mut self, now_us: u64) -> io::Result<()> {
        self.current = append_to(&self.directory.join(name(now_us)))?;
        self.bytes = self.current.metadata()?.len();
        self.prune(now_us)
    }

    /// Removes expired files. Then removes the oldest files while the total size is too large. The
    /// newest file is never removed.
    fn prune(&self, now_us: u64) -> io::Result<()> {
        let files = list(&self.directory)?;
        let mut total: u64 = files.iter().map(|(.., bytes)| bytes).sum();
        // All lines of a file are older than the next file, so the age of a file counts from the
        // creation of the next file.
        for ((_, name, bytes), (end_us, ..)) in files.iter().zip(files.iter().skip(1)) {
            let is_old = self.retention_us.is_some_and(|age| now_us.saturating_sub(*end_us) > age);
            // The limit on the total size must also hold when the newest file has grown to its
            // maximum size.
            let room = self.file_bytes_max.unwrap_or(0);
            let is_much = self.total_bytes_max.is_some_and(|max| total + room > max);
            if !is_old && !is_much {
                break;
            }
            remove(&self.directory.join(name))?;
            total -= bytes;
        }
        Ok(())
    }
}

/// Returns whether the process, or the whole system, has reached its limit on open files.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    let [process, system] = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    [process, system].iter().any(|limit| error.raw_os_error() == Some(limit.raw_os_error()))
}

fn name(begun_us: u64) -> String {
    format!("{PREFIX}{begun_us:020}{SUFFIX}")
}

/// Lists the log files, the oldest first. Each has its creation time in microseconds since 1970,
/// its name, and its size in bytes.
fn list(directory: &Path) -> io::Result<Vec<(u64, String, u64)>> {
    let mut files = Vec::new();
    for entry in directory.read_dir()? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let number = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
        let begun_us = number.and_then(|number| number.parse().ok());
        // Files with similar names belong to others.
        if let Some(begun_us) = begun_us.filter(|begun_us| self::name(*begun_us) == name) {
            files.push((begun_us, name, entry.metadata()?.len()));
        }
    }
    files.sort();
    Ok(files)
}

/// Opens a log file. If it does not exist, it is created so that only its owner has access.
#[expect(clippy::disallowed_types, reason = "appends log lines, not to a message log's file")]
fn append_to(path: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Creates a directory to which only its owner has access.
fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[expect(clippy::disallowed_methods, reason = "a file of log lines, not a message log's")]
fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn files(directory: &Path, bytes: u64) -> Files {
        let current = append_to(&directory.join(name(1))).expect("a file");
        Files {
            directory: directory.to_owned(),
            file_bytes_max: Some(100),
            total_bytes_max: Some(350),
            retention_us: Some(1000),
            current,
            bytes,
        }
    }

    #[test]
    fn log_files_have_a_bounded_size() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut files = files(directory.path(), 0);
        for time_us in 2..200 {
            files.write(&[b'x'; 30], time_us).expect("a write");
            let listed = list(directory.path()).expect("a list");
            assert!(listed.iter().all(|(.., bytes)| *bytes <= 100), "{listed:?}");
            assert!(listed.iter().map(|(.., bytes)| bytes).sum::<u64>() <= 350, "{listed:?}");
        }
        assert_eq!(list(directory.path()).expect("a list").len(), 3);
    }

    /// Regression test: if no descriptor was left for a new file, nothing was logged to files until
    /// the server was restarted.
    #[test]
    fn lines_go_to_the_current_file_if_no_other_can_be_opened() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        /// Runs in a process of its own, because the limit applies to the whole process.
        const CHILD: &str = "TAILWATER_TEST_LOG_LINES";
        let Ok(directory) = std::env::var(CHILD) else {
            let directory = tempfile::tempdir().expect("a directory");
            let test = "lines_go_to_the_current_file_if_no_other_can_be_opened";
            let output = std::process::Command::new(std::env::current_exe().expect("this program"))
                .args([test, "--nocapture"])
                .env(CHILD, directory.path())
                .output()
                .expect("a process");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(list(directory.path()).expect("a list").len(), 2);
            return;
        };
        let directory = Path::new(&directory);
        let mut files = files(directory, 0);
        let before = getrlimit(Resource::Nofile);
        let none = Rlimit { current: Some(0), ..before };
        // The two lines exceed the size of a file, but not the total size.
        for time_us in 2..4 {
            setrlimit(Resource::Nofile, none).expect("a limit");
            let written = files.write(&[b'x'; 90], time_us);
            setrlimit(Resource::Nofile, before).expect("the limit before");
            written.expect("a write");
        }
        assert_eq!(list(directory).expect("a list").len(), 1);
        files.write(&[b'x'; 90], 10).expect("a write");
    }

    #[test]
    fn files_with_similar_names_are_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["tailwater-5.log", "tailwater-+0000000000000000005.log", "tailwater-.log"] {
            append_to(&directory.path().join(name)).expect("a file");
        }
        assert_eq!(list(directory.path()).expect("a list"), []);
    }

    #[test]
    fn only_the_owner_may_read_log_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let logs = directory.path().join("above/logs");
        create_directory(&logs).expect("a directory");
        let file = append_to(&logs.join(name(1))).expect("a file");
        for metadata in [logs.metadata(), file.metadata()] {
            let mode = metadata.expect("metadata").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{mode:o}");
        }
    }

    #[test]
    fn old_files_are_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut files = files(directory.path(), 0);
        for time_us in [10, 20, 5000] {
            files.write(&[b'x'; 90], time_us).expect("a write");
        }
        let begun: Vec<u64> =
            list(directory.path()).expect("a list").iter().map(|(begun, ..)| *begun).collect();
        // The file that was created at time 1 ended at 20, and has expired. The file that was
        // created at 20 has ended too recently to expire.
        assert_eq!(begun, [20, 5000]);
    }
}
