//! How bytes move, by their purpose and directory: what the options ask, and what came of it.
//!
//! A filesystem may refuse direct I/O, or take it and go through the page cache all the same. So
//! every directory that such a purpose can touch is tried when the database is opened, before a
//! compaction finds out. What was asked for by name and is refused is an error; what is asked for
//! with `auto`, or is taken and not done, is a warning, and is buffered from then on.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::buffer::{ALIGNMENT, AlignedBuffer, MAX_ALIGNMENT};
use tailwater_io::probe::{Access, Answer, Probe, probe};
use tailwater_io::sync::Mutex;
use tailwater_io::{IoMode, Purpose, Storage};

use crate::options::{AskedIoMode, DbOptions, IoModeChoice};
use crate::wal::LogDurability;
use crate::{Error, Result};

/// The purposes whose modes can be chosen, in the order in which they are shown: those that read
/// and write tables and blob files in the database's directories.
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

/// What a mode is tried for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Reading,
    Writing,
    /// Writing logs, which are padded to blocks of [`ALIGNMENT`].
    Logging,
}

/// How bytes move in a database. Shared by everybody who opens files of its tables.
#[derive(Debug)]
pub(crate) struct IoModes {
    asked: [AskedIoMode; Purpose::COUNT],
    tried: Mutex<Vec<Trial>>,
    /// The largest request that a directory's device takes as one, in bytes, as it says.
    request_bytes_max: Mutex<HashMap<PathBuf, Option<usize>>>,
    /// How direct logs become durable, which the logs find out.
    log_durability: Arc<LogDurability>,
}

/// What a mode came to in a directory.
#[derive(Debug, Clone)]
struct Trial {
    directory: PathBuf,
    mode: IoMode,
    used_for: Use,
    filesystem: String,
    answer: Answer,
}

impl IoModes {
    /// What the options ask; nothing is tried yet.
    pub(crate) fn new(options: &DbOptions) -> Self {
        let asked = Purpose::ALL.map(|purpose| options.io_mode(purpose));
        Self {
            asked,
            tried: Mutex::default(),
            request_bytes_max: Mutex::default(),
            log_durability: Arc::default(),
        }
    }

    /// The mode in which files of a directory are opened for a purpose.
    pub(crate) fn mode(&self, purpose: Purpose, directory: &Path) -> IoMode {
        let mode = wanted(self.asked(purpose).choice);
        if !needs_trial(mode) {
            return mode;
        }
        let directory = named(directory);
        let tried = self.tried.lock();
        let trial = tried.iter().find(|trial| trial.is_of(directory, mode, use_of(purpose)));
        match trial {
            Some(trial) if trial.answer != Answer::Works => IoMode::Buffered,
            _ => mode,
        }
    }

    /// The mode in which a file is opened for a purpose.
    pub(crate) fn mode_of_file(&self, purpose: Purpose, path: &Path) -> IoMode {
        self.mode(purpose, path.parent().unwrap_or(path))
    }

    /// Whether files of a directory are opened otherwise for one purpose than for another.
    pub(crate) fn differ(&self, one: Purpose, other: Purpose, directory: &Path) -> bool {
        self.mode(one, directory) != self.mode(other, directory)
    }

    /// Tries what the options ask of the bytes of some purposes in a directory, by writing a file
    /// there. Answers what there is to warn of.
    ///
    /// # Errors
    /// Not supported, for a mode that was asked for by name and is refused; those of writing there.
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
                let why = format!("its blocks are of {alignment} bytes, and a log's {ALIGNMENT}");
                answer = Answer::Refused(why);
            }
            Ok(Some((filesystem, answer)))
        })
    }

    /// The same of reads, in a database that is only read: with the files that are there. Those of
    /// compactions are only tried to be told.
    pub(crate) fn try_reading(&self, storage: &dyn Storage, directory: &Path) -> Result<()> {
        let attempt = |directory: &Path, mode, _| read_some_file(storage, directory, mode);
        self.try_with(directory, &[Purpose::UserRead, Purpose::UserBlobRead], attempt)?;
        for purpose in [Purpose::CompactionRead, Purpose::CompactionBlobRead, Purpose::Verification]
        {
            // What it came to is known then, and refuses nobody who only reads.
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
        // What there is to warn of, and the purposes that it concerns.
        let mut warnings: Vec<(String, Vec<&str>)> = Vec::new();
        for &purpose in purposes {
            let AskedIoMode { choice, option } = self.asked(purpose);
            let (mode, used_for) = (wanted(choice), use_of(purpose));
            if !needs_trial(mode) {
                continue;
            }
            // Nobody who opens a file waits for a trial meanwhile.
            if self.tried_there(directory, mode, used_for).is_none()
                && let Some((filesystem, answer)) = attempt(directory, mode, used_for)?
            {
                let directory = directory.to_owned();
                let trial = Trial { directory, mode, used_for, filesystem, answer };
                self.tried.lock().push(trial);
            }
            let trial = self.tried_there(directory, mode, used_for);
            let Some(trial) = trial.filter(|trial| trial.answer != Answer::Works) else { continue };
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

    /// The largest request that the device of a directory takes as one, in bytes, where it says so.
    /// Reading ahead by more through the page cache only makes the kernel cut it up.
    pub(crate) fn request_bytes_max(
        &self,
        storage: &dyn Storage,
        directory: &Path,
    ) -> Option<usize> {
        let mut known = self.request_bytes_max.lock();
        let asked = || storage.capabilities(directory).ok()?.request_bytes_max;
        *known.entry(directory.to_owned()).or_insert_with(asked)
    }

    /// How direct logs become durable.
    pub(crate) fn log_durability(&self) -> &Arc<LogDurability> {
        &self.log_durability
    }

    /// A line for each purpose: what was asked, by which option, and what it came to. Where logs
    /// may be direct, another one says how they become durable.
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
            let AskedIoMode { choice, option } = self.asked(purpose);
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
        let (mode, used_for) = (wanted(self.asked(purpose).choice), use_of(purpose));
        if !needs_trial(mode) {
            return mode.name().to_owned();
        }
        let is_auto = self.asked(purpose).choice == IoModeChoice::Auto;
        let tried = self.tried.lock();
        let here: Vec<&Trial> = tried.iter().filter(|it| it.is(mode, used_for)).collect();
        let (works, fails): (Vec<&Trial>, Vec<&Trial>) =
            here.iter().partition(|trial| trial.answer == Answer::Works);
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

    fn asked(&self, purpose: Purpose) -> AskedIoMode {
        self.asked[purpose as usize]
    }
}

impl Trial {
    fn is(&self, mode: IoMode, used_for: Use) -> bool {
        (self.mode, self.used_for) == (mode, used_for)
    }

    fn is_of(&self, directory: &Path, mode: IoMode, used_for: Use) -> bool {
        self.is(mode, used_for) && self.directory == directory
    }
}

/// The current directory has a name, too, where paths relative to it have no parent.
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

/// Whether a mode may come to something else than it says.
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
        Purpose::CompactionWrite
        | Purpose::FlushWrite
        | Purpose::BlobWrite
        | Purpose::Manifest
        | Purpose::Ingestion
        | Purpose::Checkpoint
        | Purpose::Metadata
        | Purpose::LogAppend
        | Purpose::LogRead
        | Purpose::LogIndex
        | Purpose::LogJournal => Use::Writing,
        Purpose::Wal => Use::Logging,
    }
}

/// Reads the beginning of a table or blob file in a directory; `None` where there is none.
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
        // It went meanwhile.
        Err(error) if error.is_not_found() => return Ok(None),
        read => read.map(|_| Answer::Works)?,
    };
    let filesystem = storage.capabilities(directory)?.filesystem;
    // What else is in the page cache says nothing; this one is nowhere else.
    let is_in_memory = filesystem == "tmpfs" && mode == IoMode::Direct;
    Ok(Some((filesystem, if is_in_memory { Answer::Cached } else { answer })))
}
