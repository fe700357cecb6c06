//! I/O modes by purpose and directory: the requested modes, and the modes in effect.
//!
//! A filesystem may refuse direct I/O, or accept it and still use the page cache. So when the
//! database is opened, the modes are tried in every directory concerned, before a compaction
//! depends on them. If an option requests a mode by name and the filesystem refuses it, opening
//! fails. In two cases opening only reports a warning, and the I/O is buffered: the filesystem
//! refuses a mode that was requested with `auto`, or it accepts a mode but does not perform it.
//!
//! A mode has several types. [`IoModeChoice`] is the value of an option, including unset and
//! `auto`. [`RequestedIoMode`] adds the name of the option, for messages. [`IoMode`] is the mode in
//! which a file is opened. `LogMode` is one of two modes for all write-ahead logs, or says that
//! each log chooses between them. The crate of the message log has a type of its own. The message
//! log offers fewer modes, and neither that crate nor this one depends on the other.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::buffer::{ALIGNMENT, AlignedBuffer, MAX_ALIGNMENT};
use tailwater_io::probe::{Access, Answer, Probe, probe};
use tailwater_io::sync::Mutex;
use tailwater_io::{IoMode, Purpose, Storage};

use crate::error::{Error, Result};
use crate::options::{DbOptions, IoModeChoice, RequestedIoMode};
use crate::wal::LogDurability;

/// The purposes for which tables and blob files in the database's directories are read and written,
/// in the order in which their modes are reported.
pub(crate) const OF_TABLES: [Purpose; 9] = [
    Purpose::UserRead,
    Purpose::UserBlobRead,
    Purpose::CompactionRead,
    Purpose::CompactionBlobRead,
    Purpose::CompactionWrite,
    Purpose::FlushWrite,
    Purpose::Verification,
    Purpose::Ingestion,
    Purpose::Checkpoint,
];

/// The kind of file access that is tried to find out whether a filesystem supports an I/O mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Reading,
    Writing,
    /// Writes to logs. Each write is padded to a multiple of [`ALIGNMENT`] bytes.
    Logging,
}

/// The I/O modes of a database, shared by all code that opens its table files.
#[derive(Debug)]
pub(crate) struct IoModes {
    requested: [RequestedIoMode; Purpose::COUNT],
    tried: Mutex<Vec<Trial>>,
    /// For each directory, the size in bytes of the largest request that the directory's device
    /// performs without splitting it. `None` if the device does not report it.
    request_bytes_max: Mutex<HashMap<PathBuf, Option<usize>>>,
    /// The method by which logs with direct I/O become durable. The code that writes logs chooses
    /// it.
    log_durability: Arc<LogDurability>,
}

/// The outcome of trying to use an I/O mode in a directory.
#[derive(Debug, Clone)]
struct Trial {
    directory: PathBuf,
    mode: IoMode,
    used_for: Use,
    filesystem: String,
    answer: Answer,
}

impl IoModes {
    /// Creates the modes that the options request, without trying them.
    pub(crate) fn new(options: &DbOptions) -> Self {
        let requested = Purpose::ALL.map(|purpose| options.io_mode(purpose));
        Self {
            requested,
            tried: Mutex::default(),
            request_bytes_max: Mutex::default(),
            log_durability: Arc::default(),
        }
    }

    /// Returns the mode in which files of a directory are opened for a purpose.
    pub(crate) fn mode(&self, purpose: Purpose, directory: &Path) -> IoMode {
        let choice = self.requested(purpose).choice;
        let mode = wanted(choice);
        if !needs_trial(mode) {
            return mode;
        }
        let directory = named(directory);
        let tried = self.tried.lock();
        let trial = tried.iter().find(|trial| trial.is_of(directory, mode, use_of(purpose)));
        match trial {
            Some(trial) if !trial.allows(choice) => IoMode::Buffered,
            _ => mode,
        }
    }

    /// Returns the mode in which a file is opened for a purpose.
    pub(crate) fn mode_of_file(&self, purpose: Purpose, path: &Path) -> IoMode {
        self.mode(purpose, path.parent().unwrap_or(path))
    }

    /// Whether files of a directory are opened in different modes for two purposes.
    pub(crate) fn differ(&self, one: Purpose, other: Purpose, directory: &Path) -> bool {
        self.mode(one, directory) != self.mode(other, directory)
    }

    /// Tries the modes that the options request for `purposes`, by writing a file in a directory.
    /// Returns warnings about modes that are replaced by buffered I/O.
    ///
    /// # Errors
    /// Not supported, if an option requests a mode by name and the filesystem refuses it; errors
    /// from writing in the directory.
    pub(crate) fn try_in(
        &self,
        storage: &dyn Storage,
        directory: &Path,
        purposes: &[Purpose],
    ) -> Result<Vec<String>> {
        self.try_with(directory, purposes, |directory, mode, used_for| {
            let access = if used_for == Use::Reading { Access::Read } else { Access::Write };
            let Probe { filesystem, mut answer, alignment, .. } =
                probe(storage, directory, mode, access)?;
            if used_for == Use::Logging && answer == Answer::Works && alignment > ALIGNMENT {
                let why = format!(
                    "it needs an alignment of {alignment} bytes, and logs have {ALIGNMENT}"
                );
                answer = Answer::Refused(why);
            }
            Ok(Some((filesystem, answer)))
        })
    }

    /// Tries the modes of users' reads on existing files, for a database that is opened read-only.
    /// Modes of compaction and verification reads are tried, too, but only so that
    /// [`IoModes::text`] can report them.
    pub(crate) fn try_reading(&self, storage: &dyn Storage, directory: &Path) -> Result<()> {
        let attempt = |directory: &Path, mode, _| read_some_file(storage, directory, mode);
        self.try_with(directory, &[Purpose::UserRead, Purpose::UserBlobRead], attempt)?;
        for purpose in [Purpose::CompactionRead, Purpose::CompactionBlobRead, Purpose::Verification]
        {
            // The outcome is recorded, and an error is ignored: a read-only database does not use
            // this mode.
            let _ = self.try_with(directory, &[purpose], attempt);
        }
        Ok(())
    }

    fn try_with(
        &self,
        directory: &Path,
        purposes: &[Purpose],
        attempt: impl Fn(&Path, IoMode, Use) -> Result<Option<(String, Answer)>>,
    ) -> Result<Vec<String>> {
        let directory = named(directory);
        // Each warning, with the names of the purposes for which the mode was requested.
        let mut warnings: Vec<(String, Vec<&str>)> = Vec::new();
        for &purpose in purposes {
            let RequestedIoMode { choice, option } = self.requested(purpose);
            let (mode, used_for) = (wanted(choice), use_of(purpose));
            if !needs_trial(mode) {
                continue;
            }
            // The lock on `tried` is not held while the mode is tried, so that other threads can
            // open files meanwhile.
            if self.tried_there(directory, mode, used_for).is_none()
                && let Some((filesystem, answer)) = attempt(directory, mode, used_for)?
            {
                let directory = directory.to_owned();
                let trial = Trial { directory, mode, used_for, filesystem, answer };
                self.tried.lock().push(trial);
            }
            let trial = self.tried_there(directory, mode, used_for);
            let Some(trial) = trial.filter(|trial| !trial.allows(choice)) else { continue };
            let text = format!(
                "option {}: {} I/O {} ({} in {})",
                option.unwrap_or_default(),
                mode.name(),
                trial.answer,
                trial.filesystem,
                directory.display()
            );
            let is_refused = matches!(trial.answer, Answer::Refused(_));
            if is_refused && choice != IoModeChoice::Auto {
                return Err(Error::not_supported(text));
            }
            match warnings.iter_mut().find(|(known, _)| *known == text) {
                Some((_, purposes)) => purposes.push(purpose.name()),
                None => warnings.push((text, vec![purpose.name()])),
            }
        }
        let warnings = warnings.into_iter();
        let warnings = warnings.map(|(text, all)| format!("{text}; buffered: {}", all.join(", ")));
        Ok(warnings.collect())
    }

    fn tried_there(&self, directory: &Path, mode: IoMode, used_for: Use) -> Option<Trial> {
        let tried = self.tried.lock();
        tried.iter().find(|trial| trial.is_of(directory, mode, used_for)).cloned()
    }

    /// Returns the size in bytes of the largest request that a directory's device performs without
    /// splitting it, if the device reports it. The kernel splits buffered readaheads that are
    /// larger.
    pub(crate) fn request_bytes_max(
        &self,
        storage: &dyn Storage,
        directory: &Path,
    ) -> Option<usize> {
        let mut known = self.request_bytes_max.lock();
        let read = || storage.capabilities(directory).ok()?.request_bytes_max;
        *known.entry(directory.to_owned()).or_insert_with(read)
    }

    /// Returns the object that chooses the method by which logs with direct I/O become durable.
    pub(crate) fn log_durability(&self) -> &Arc<LogDurability> {
        &self.log_durability
    }

    /// Returns a line for each purpose of file access: the requested mode, the option that requests
    /// it, and the mode in effect. If logs may be direct, a further line says how they become
    /// durable.
    pub(crate) fn text(&self) -> String {
        let mut text = self.text_of_purposes();
        if self.effective(Purpose::Wal).starts_with(IoMode::Direct.name()) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "direct logs: {}", self.log_durability);
        }
        text
    }

    fn text_of_purposes(&self) -> String {
        OF_TABLES.iter().chain(&[Purpose::Wal]).fold(String::new(), |mut text, &purpose| {
            let RequestedIoMode { choice, option } = self.requested(purpose);
            let by = option.map_or_else(|| "by default".to_owned(), |name| format!("by {name}"));
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{}: asked {} {by}, effective {}",
                purpose.name(),
                name(choice),
                self.effective(purpose)
            );
            text
        })
    }

    fn effective(&self, purpose: Purpose) -> String {
        let choice = self.requested(purpose).choice;
        let (mode, used_for) = (wanted(choice), use_of(purpose));
        if !needs_trial(mode) {
            return mode.name().to_owned();
        }
        let is_auto = choice == IoModeChoice::Auto;
        let tried = self.tried.lock();
        let here: Vec<&Trial> = tried.iter().filter(|it| it.is(mode, used_for)).collect();
        let (works, fails): (Vec<&Trial>, Vec<&Trial>) =
            here.iter().partition(|trial| trial.allows(choice));
        let places = |trials: &[&Trial]| {
            let places = trials.iter();
            places.map(|it| it.directory.display().to_string()).collect::<Vec<_>>().join(", ")
        };
        match (works.as_slice(), fails.as_slice()) {
            ([], []) => "unknown until the database is opened for writing".to_owned(),
            (_, []) if used_for == Use::Logging && is_auto => {
                format!("{} while most writes are synced", mode.name())
            }
            (_, []) => mode.name().to_owned(),
            ([], _) => IoMode::Buffered.name().to_owned(),
            (_, fails) => {
                format!("{}, {} in {}", mode.name(), IoMode::Buffered.name(), places(fails))
            }
        }
    }

    fn requested(&self, purpose: Purpose) -> RequestedIoMode {
        self.requested[purpose as usize]
    }
}

impl Trial {
    fn is(&self, mode: IoMode, used_for: Use) -> bool {
        (self.mode, self.used_for) == (mode, used_for)
    }

    fn is_of(&self, directory: &Path, mode: IoMode, used_for: Use) -> bool {
        self.is(mode, used_for) && self.directory == directory
    }

    /// Whether the mode is used after this trial. A mode that could not be tried is used only if
    /// the option names it.
    fn allows(&self, choice: IoModeChoice) -> bool {
        match self.answer {
            Answer::Works => true,
            Answer::Untried => choice != IoModeChoice::Auto,
            Answer::Cached | Answer::Refused(_) => false,
        }
    }
}

/// Returns the directory's path, or "." if it is empty. The parent of a relative path without a
/// directory is empty and denotes the current directory.
fn named(directory: &Path) -> &Path {
    if directory.as_os_str().is_empty() { Path::new(".") } else { directory }
}

fn wanted(choice: IoModeChoice) -> IoMode {
    match choice {
        IoModeChoice::Unset | IoModeChoice::Buffered => IoMode::Buffered,
        IoModeChoice::Direct | IoModeChoice::Auto => IoMode::Direct,
        IoModeChoice::Uncached => IoMode::Uncached,
        IoModeChoice::Fadvise => IoMode::DropBehind,
    }
}

fn name(choice: IoModeChoice) -> &'static str {
    match choice {
        IoModeChoice::Auto => "auto",
        choice => wanted(choice).name(),
    }
}

/// Whether a filesystem may refuse this mode, or accept it and not perform it.
fn needs_trial(mode: IoMode) -> bool {
    matches!(mode, IoMode::Direct | IoMode::Uncached)
}

fn use_of(purpose: Purpose) -> Use {
    match purpose {
        Purpose::UserRead
        | Purpose::UserBlobRead
        | Purpose::CompactionRead
        | Purpose::CompactionBlobRead
        | Purpose::Verification => Use::Reading,
        Purpose::Wal => Use::Logging,
        // Purposes that write. Those without an option are always buffered, and need no trial.
        _ => Use::Writing,
    }
}

/// Tries a mode by reading the beginning of a table or blob file in a directory. Returns `None` if
/// there is no such file.
fn read_some_file(
    storage: &dyn Storage,
    directory: &Path,
    mode: IoMode,
) -> Result<Option<(String, Answer)>> {
    let entries = match storage.list(directory) {
        Err(error) if error.is_not_found() => return Ok(None),
        entries => entries?,
    };
    let mut files = entries.iter().filter(|entry| {
        matches!(FileKind::parse(&entry.name), Some(FileKind::Table(_) | FileKind::Blob(_)))
    });
    let Some(file) = files.next() else { return Ok(None) };
    let mut block = AlignedBuffer::with_capacity(MAX_ALIGNMENT);
    block.set_length(MAX_ALIGNMENT);
    let read = storage
        .open(&directory.join(&file.name), mode, Purpose::Metadata)
        .and_then(|file| file.read_full_at(&mut block, 0, Purpose::Metadata));
    let answer = match read {
        Err(error) if error.is_unsupported() => Answer::Refused(error.to_string()),
        // The file was removed after it was listed.
        Err(error) if error.is_not_found() => return Ok(None),
        read => read.map(|_| Answer::Works)?,
    };
    let filesystem = storage.capabilities(directory)?.filesystem;
    // Files of tmpfs exist only in the page cache, so direct I/O cannot bypass it. On other
    // filesystems it is assumed that a direct read bypasses the page cache, whether or not the file
    // has cached pages.
    let is_in_memory = filesystem == "tmpfs" && mode == IoMode::Direct;
    Ok(Some((filesystem, if is_in_memory { Answer::Cached } else { answer })))
}
