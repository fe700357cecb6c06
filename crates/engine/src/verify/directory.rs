//! Verification of the directory: IDENTITY, OPTIONS, missing and obsolete files.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_format::options_text::Document;
use tailwater_io::{IoMode, Purpose};

use super::{Family, Severity, Verification};
use crate::directory::{Directories, Home, Needed, NeededLogs, durable_id};
use crate::error::{Error, Result};
use crate::version::manifest::DatabaseState;

/// Maximum size of an IDENTITY or OPTIONS file that is read, in bytes.
const MAX_SMALL_FILE: u64 = 64 << 20;

impl Verification<'_> {
    /// Checks that IDENTITY and the MANIFEST agree on the database's id.
    pub(super) fn check_identity(&mut self, manifest: &DatabaseState) {
        let path = self.directory.join(FileKind::Identity.to_string());
        let identity = match self.read_small(&path) {
            Ok(identity) => identity,
            Err(error) if error.is_not_found() => {
                let message =
                    "it is missing, although the MANIFEST has the database's id".to_owned();
                self.report.add(Severity::Note, &path, None, message);
                return;
            }
            Err(error) => return self.report.error(&path, &error),
        };
        // RocksDB ends old IDENTITY files with a newline.
        let identity = identity.strip_suffix(b"\n").unwrap_or(&identity);
        if let Some(id) = manifest.database_id.as_ref().filter(|id| id.as_bytes() != identity) {
            let found = identity.escape_ascii();
            self.report.damage(&path, format!("it has ID '{found}', the MANIFEST '{id}'"));
        }
    }

    /// Checks that every OPTIONS file can be parsed.
    pub(super) fn check_options_files(&mut self) {
        for number in self.numbers(|kind| match kind {
            FileKind::Options(number) => Some(number),
            _ => None,
        }) {
            let path = self.directory.join(FileKind::Options(number).to_string());
            match self.read_small(&path) {
                Ok(bytes) => match str::from_utf8(&bytes).map(Document::parse) {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => self.report.damage(&path, error.to_string()),
                    Err(error) => {
                        let offset = error.valid_up_to() as u64;
                        self.report.damage_at(&path, offset, "it is not UTF-8");
                    }
                },
                Err(error) => self.report.error(&path, &error),
            }
        }
    }

    /// Checks that no file number, sequence number or column family id in use exceeds the
    /// MANIFEST's counter for it.
    pub(super) fn check_numbers(&mut self, manifest: &DatabaseState, families: &[Family]) {
        let path = &manifest.path;
        for family in families {
            let tables = family.version.files().map(|(_, file)| file.number());
            let blobs = family.version.blob_files().keys().copied();
            let highest = tables.chain(blobs).max().unwrap_or(0);
            if highest >= manifest.next_file_number {
                let next = manifest.next_file_number;
                let message = format!("it has file {highest}, but the next number is {next}");
                self.report.damage(path, message);
            }
            let sequences = family.version.files().map(|(_, file)| file.largest_sequence());
            let highest = sequences.max().unwrap_or(0);
            if highest > manifest.last_sequence {
                let last = manifest.last_sequence;
                let message =
                    format!("it has sequence number {highest}, but records {last} as the last");
                self.report.damage(path, message);
            }
            if family.id > manifest.max_column_family {
                let message = format!(
                    "it has column family {}, but records {} as the last",
                    family.id, manifest.max_column_family
                );
                self.report.damage(path, message);
            }
        }
    }

    /// Reports directories of another database, missing logs, and obsolete files, in all
    /// directories of the database. Missing tables and blob files are found when they are read.
    pub(super) fn check_directories(&mut self, manifest: &DatabaseState, families: &[Family]) {
        let (storage, home) = (Arc::clone(&self.storage), self.directory);
        let found = durable_id(&*storage, home, manifest.database_id.as_deref()).and_then(|id| {
            let home = Home::at(&*storage, home)?;
            Directories::find(&*storage, home, self.options, &id.unwrap_or_default())
        });
        let directories = match found {
            Ok(directories) => directories,
            Err(error) => return self.report.error(home, &error),
        };
        if let Err(error) = directories.check(&*storage) {
            self.report.error(home, &error);
        }
        let needed = NeededLogs {
            directory: &self.options.wal_directory(home),
            option: Path::new(&self.options.database().wal_dir),
            oldest: manifest.oldest_needed_log,
            recorded: manifest.existing_logs.as_deref(),
            may_be_missing: false,
        };
        if let Err(error) =
            directories.check_logs(&*storage, &needed, &mut Vec::new(), &mut Vec::new())
        {
            self.report.error(home, &error);
        }
        let files = || families.iter().flat_map(|family| family.version.files());
        let blob_files = families.iter().flat_map(|family| family.version.blob_files().keys());
        let needed = Needed {
            tables: files().map(|(_, file)| file.number()).collect(),
            blob_files: blob_files.copied().collect(),
            oldest_log: manifest.oldest_needed_log,
            manifest: manifest.number,
        };
        for (path, kind) in directories.all().flat_map(|(path, files)| {
            files.iter().filter(|&kind| !needed.has(kind)).map(move |kind| (path, kind))
        }) {
            let message = match kind {
                FileKind::Trash(_) => "trash: an obsolete file that is to be removed slowly",
                _ => "left over: the database does not refer to it",
            };
            let path = path.join(kind.to_string());
            self.report.add(Severity::Note, &path, None, message.to_owned());
        }
    }

    /// Checks each table by itself. Used if the MANIFEST could not be read.
    pub(super) fn lone_tables(&mut self) {
        let numbers = self.numbers(|kind| match kind {
            FileKind::Table(number) => Some(number),
            _ => None,
        });
        for number in numbers {
            let path = self.directory.join(FileKind::Table(number).to_string());
            self.check_lone_table(&path);
        }
    }

    /// Returns the total size of the files to read, in bytes.
    pub(super) fn total_bytes(&self, families: &[Family]) -> u64 {
        let tables: u64 = families
            .iter()
            .flat_map(|family| family.version.files().map(|(_, file)| file.size()))
            .sum();
        let others = self.numbers(|kind| match kind {
            FileKind::Blob(_) | FileKind::Wal(_) => {
                let path = self.directory.join(kind.to_string());
                self.storage.metadata(&path).ok().map(|metadata| metadata.length)
            }
            _ => None,
        });
        tables + others.iter().sum::<u64>()
    }

    /// Returns the numbers that `select` returns for the files of the directory, in the order of
    /// the files' names.
    fn numbers(&self, select: impl Fn(FileKind) -> Option<u64>) -> Vec<u64> {
        let entries = self.storage.list(self.directory).unwrap_or_default();
        entries.iter().filter_map(|entry| select(FileKind::parse(&entry.name)?)).collect()
    }

    fn read_small(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.storage.open(path, IoMode::Buffered, Purpose::Verification)?;
        let length = file.length()?;
        if length > MAX_SMALL_FILE {
            return Err(Error::corruption(path, format!("{length} bytes is too long")));
        }
        let mut bytes = vec![0; length as usize];
        let count = file.read_full_at(&mut bytes, 0, Purpose::Verification)?;
        bytes.truncate(count);
        Ok(bytes)
    }
}
