//! The directory as a whole: IDENTITY, OPTIONS, what is missing and what is left over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tailwater_format::file_name::FileKind;
use tailwater_format::options_text::Document;
use tailwater_io::{IoMode, Purpose};

use super::{Family, Numbers, Severity, Verification};
use crate::version::manifest::Manifest;
use crate::{Error, Result};

/// No IDENTITY or OPTIONS file is read further than this, in bytes.
const MAX_SMALL_FILE: u64 = 64 << 20;

impl Verification<'_> {
    /// IDENTITY and the MANIFEST must agree on the database's id.
    pub(super) fn check_identity(&mut self, manifest: &Manifest) {
        let path = self.directory.join(FileKind::Identity.to_string());
        let identity = match self.read_small(&path) {
            Ok(identity) => identity,
            Err(error) if error.is_not_found() => {
                let message = "there is none; the MANIFEST has the database's id".to_owned();
                self.report.add(Severity::Note, &path, None, message);
                return;
            }
            Err(error) => return self.report.error(&path, &error),
        };
        // RocksDB ends old IDENTITY files with a newline.
        let identity = identity.strip_suffix(b"\n").unwrap_or(&identity);
        if let Some(id) = manifest.database_id.as_ref().filter(|id| id.as_bytes() != identity) {
            let found = identity.escape_ascii();
            self.report.damage(&path, format!("it holds '{found}', the MANIFEST '{id}'"));
        }
    }

    /// Every OPTIONS file must be one.
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

    /// File and sequence numbers must lie below the MANIFEST's counters.
    pub(super) fn check_numbers(&mut self, path: &Path, numbers: &Numbers, families: &[Family]) {
        for family in families {
            let tables = family.version.files().map(|(_, file)| file.number());
            let blobs = family.version.blob_files().keys().copied();
            let highest = tables.chain(blobs).max().unwrap_or(0);
            if highest >= numbers.next_file_number {
                let next = numbers.next_file_number;
                let message = format!("it has file {highest}, but the next is to be {next}");
                self.report.damage(path, message);
            }
            let sequences = family.version.files().map(|(_, file)| file.largest_sequence());
            let highest = sequences.max().unwrap_or(0);
            if highest > numbers.last_sequence {
                let last = numbers.last_sequence;
                let message =
                    format!("it has sequence number {highest}, but says that {last} is the last");
                self.report.damage(path, message);
            }
            if family.id > numbers.max_column_family {
                let message = format!(
                    "it has column family {}, but says that {} is the last",
                    family.id, numbers.max_column_family
                );
                self.report.damage(path, message);
            }
        }
    }

    /// Notes files that belong to nothing, wherever the database may have files. Those that are
    /// missing are found when they are to be read.
    pub(super) fn check_left_over(&mut self, numbers: &Numbers, families: &[Family]) {
        let tables: BTreeSet<u64> = families
            .iter()
            .flat_map(|family| family.version.files().map(|(_, file)| file.number()))
            .collect();
        let blobs: BTreeSet<u64> = families
            .iter()
            .flat_map(|family| family.version.blob_files().keys().copied())
            .collect();
        let is_left_over = |kind| match kind {
            FileKind::Table(number) | FileKind::LevelDbTable(number) => !tables.contains(&number),
            FileKind::Blob(number) => !blobs.contains(&number),
            FileKind::Wal(number) => number < numbers.min_log_number,
            FileKind::Manifest(number) => number != numbers.manifest,
            FileKind::Temporary(_)
            | FileKind::TemporaryOptions(_)
            | FileKind::TemporaryCompactionProgress(_) => true,
            _ => false,
        };
        for directory in self.directories(families) {
            let entries = match self.storage.list(&directory) {
                Ok(entries) => entries,
                // One of those that the options name, in which there never was a file.
                Err(error) if error.is_not_found() => continue,
                Err(error) => {
                    self.report.error(&directory, &error.into());
                    continue;
                }
            };
            for entry in entries.iter().filter(|entry| !entry.is_directory) {
                if FileKind::parse(&entry.name).is_some_and(is_left_over) {
                    let path = directory.join(&entry.name);
                    let message = "left over: the database does not refer to it".to_owned();
                    self.report.add(Severity::Note, &path, None, message);
                }
            }
        }
    }

    /// The directories that files of the database may be in, each once.
    fn directories(&self, families: &[Family]) -> BTreeSet<PathBuf> {
        let tables = families
            .iter()
            .flat_map(|family| self.options.table_directories(self.directory, &family.name));
        let own = [self.directory.to_owned(), self.options.wal_directory(self.directory)];
        tables.chain(own).collect()
    }

    /// Without a MANIFEST, whatever tables there are, each by itself.
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

    /// How many bytes the files have that are to be read.
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

    /// What `select` gives for the files of the directory, in the order of their names.
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
