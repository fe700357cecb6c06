//! The `LOG` file of human-readable messages.
//!
//! Each line has the time in UTC, the severity, and a message. When the database is opened, or when
//! the LOG has become too large or too old, the LOG is renamed to `LOG.old.` followed by the
//! current time, and a new one is started. If a line cannot be written, the error is ignored.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::{FileKind, INFO_LOG, info_log_prefix};
use tailwater_io::clock::Utc;
use tailwater_io::sync::Mutex;
use tailwater_io::{Clock, Create, IoMode, Purpose, Storage, WriteFile};

use crate::error::Result;
use crate::options::{DbOptions, InfoLogLevel};

/// The `LOG` file. Any thread may write to it.
#[derive(Debug)]
pub(crate) struct InfoLog {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    directory: PathBuf,
    /// The name of the current file. The names of old files begin with it.
    prefix: String,
    level: InfoLogLevel,
    /// Number of files kept, including the current one.
    keep: usize,
    /// Size at which a new file is started, in bytes; 0 means never.
    max_bytes: u64,
    /// Age at which a new file is started, in seconds; 0 means never.
    max_age_s: u64,
    current: Mutex<Option<Current>>,
}

/// The file that is being written.
#[derive(Debug)]
struct Current {
    file: Box<dyn WriteFile>,
    bytes: u64,
    begun_us: u64,
}

impl InfoLog {
    /// Renames an existing LOG, and starts a new one for the database in `directory`, which is an
    /// absolute path. The new LOG is in the directory `elsewhere` if that is given, otherwise in
    /// `directory`. `old` are the times in the names of old LOG files in `directory`, in
    /// microseconds since 1970.
    pub(crate) fn begin(
        storage: &Arc<dyn Storage>,
        clock: &Arc<dyn Clock>,
        directory: &Path,
        old: Vec<u64>,
        elsewhere: Option<PathBuf>,
        options: &DbOptions,
    ) -> Result<Self> {
        let (own_directory, prefix, old) = match elsewhere {
            None => (directory.to_owned(), INFO_LOG.to_owned(), Some(old)),
            Some(elsewhere) => (elsewhere, info_log_prefix(&directory.to_string_lossy()), None),
        };
        storage.create_directory(&own_directory)?;
        let log = Self {
            storage: Arc::clone(storage),
            clock: Arc::clone(clock),
            directory: own_directory,
            prefix,
            level: options.info_log_level,
            keep: usize::try_from(options.keep_log_file_num).unwrap_or(usize::MAX),
            max_bytes: options.max_log_file_size,
            max_age_s: options.log_file_time_to_roll,
            current: Mutex::new(None),
        };
        let first = log.roll(old)?;
        *log.current.lock() = Some(first);
        log.info(format_args!(
            "tailwater {} opens {}",
            env!("CARGO_PKG_VERSION"),
            directory.display()
        ));
        Ok(log)
    }

    /// Renames the existing file and starts a new one. `old` are the times in the names of the old
    /// files, in microseconds since 1970; with `None`, the directory is listed.
    fn roll(&self, mut old: Option<Vec<u64>>) -> Result<Current> {
        let path = self.directory.join(&self.prefix);
        let now_us = self.clock.wall_us();
        if self.storage.metadata(&path).is_ok() {
            let moved = self.directory.join(format!("{}.old.{now_us}", self.prefix));
            self.storage.rename(&path, &moved)?;
            old.iter_mut().for_each(|old| old.push(now_us));
        }
        self.remove_old(old.unwrap_or_else(|| self.list_old()));
        let file =
            self.storage.create(&path, Create::Truncate, IoMode::Buffered, Purpose::Metadata)?;
        Ok(Current { file, bytes: 0, begun_us: now_us })
    }

    /// Returns the times in the names of the old files, in microseconds since 1970. A file named
    /// `LOG.old`, without a time, counts as 0.
    fn list_old(&self) -> Vec<u64> {
        let entries = self.storage.list(&self.directory).unwrap_or_default();
        let times = entries.iter().filter_map(|entry| {
            match FileKind::parse_info_log(&entry.name, &self.prefix) {
                Some(FileKind::OldInfoLog(time_us)) => Some(time_us),
                _ => None,
            }
        });
        times.collect()
    }

    /// Removes the oldest files, so that at most `keep` remain, including the current one. `times`
    /// are the times in the names of the old files, in microseconds since 1970.
    fn remove_old(&self, mut times: Vec<u64>) {
        times.sort_unstable();
        let surplus = times.len().saturating_sub(self.keep.saturating_sub(1));
        for time_us in times.into_iter().take(surplus) {
            let name = match time_us {
                0 => format!("{}.old", self.prefix),
                _ => format!("{}.old.{time_us}", self.prefix),
            };
            // If a file cannot be removed, the next call of `remove_old` tries again.
            let _ = self.storage.remove(&self.directory.join(name));
        }
    }

    /// Writes a message that is needed to understand the others: at every level of the LOG.
    pub(crate) fn header(&self, message: fmt::Arguments<'_>) {
        self.line(InfoLogLevel::Header, "HEADER", message);
    }

    /// Writes a message about normal operation.
    pub(crate) fn info(&self, message: fmt::Arguments<'_>) {
        self.line(InfoLogLevel::Info, "INFO", message);
    }

    /// Writes a message that an operator should look at.
    pub(crate) fn warn(&self, message: fmt::Arguments<'_>) {
        self.line(InfoLogLevel::Warn, "WARN", message);
    }

    /// Writes a message about a failure.
    pub(crate) fn error(&self, message: fmt::Arguments<'_>) {
        self.line(InfoLogLevel::Error, "ERROR", message);
    }

    fn line(&self, level: InfoLogLevel, name: &str, message: fmt::Arguments<'_>) {
        if importance(level) < importance(self.level) {
            return;
        }
        let now_us = self.clock.wall_us();
        let line = format!("{} {name} {message}\n", Utc(now_us));
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|current| self.is_over(current, now_us)) {
            // If no new file can be started, messages go on to the current file.
            if let Ok(next) = self.roll(None) {
                *current = Some(next);
            }
        }
        if let Some(current) = &mut *current
            && current.file.write_all_at(line.as_bytes(), current.bytes, Purpose::Metadata).is_ok()
        {
            current.bytes += line.len() as u64;
        }
    }

    fn is_over(&self, current: &Current, now_us: u64) -> bool {
        let age_s = now_us.saturating_sub(current.begun_us) / 1_000_000;
        (self.max_bytes > 0 && current.bytes >= self.max_bytes)
            || (self.max_age_s > 0 && age_s >= self.max_age_s)
    }
}

fn importance(level: InfoLogLevel) -> u8 {
    match level {
        InfoLogLevel::Debug => 0,
        InfoLogLevel::Info => 1,
        InfoLogLevel::Warn => 2,
        InfoLogLevel::Error => 3,
        InfoLogLevel::Fatal => 4,
        InfoLogLevel::Header => 5,
    }
}
