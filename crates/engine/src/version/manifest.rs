//! Reads a MANIFEST: applies its edits, which yields the files and column families of the database.
//!
//! The edits are applied in order. A group of edits is applied when it is complete; an incomplete
//! group at the end of the file has no effect. If a record is cut short by the end of the file, or
//! one of its sectors holds only zeros, a crash has interrupted its write, and the record counts as
//! the end of the MANIFEST. Any other invalid record is damage, and the database does not open.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::{self, FileKind};
use tailwater_format::key::Sequence;
use tailwater_format::record_log::{
    BLOCK_LENGTH, Damage, Event, HEADER_LENGTH, RecordReader, SkippedReason, Torn, TornReason,
    records_within,
};
use tailwater_format::version_edit::{FamilyOptions, VersionEdit};
use tailwater_io::{IoMode, Purpose, ReadFile, Storage};

use crate::error::{Error, Result};
use crate::left_out::LeftOut;
use crate::record_log::FileSource;
use crate::version::{CompactCursors, VersionBuilder};

/// Maximum length of a CURRENT file, in bytes.
const MAX_CURRENT_LENGTH: u64 = 4096;
/// Size of a sector, the unit that a disk writes atomically, in bytes.
const SECTOR: u64 = 512;

/// The contents of a MANIFEST.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) database: DatabaseState,
    /// The column families that were not dropped, by id.
    pub(crate) families: BTreeMap<u32, FamilyState>,
}

/// The state of a database according to its MANIFEST, without its column families.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseState {
    /// Path of the MANIFEST.
    pub(crate) path: PathBuf,
    /// File number of the MANIFEST.
    pub(crate) number: u64,
    /// The database's id, if the MANIFEST records it.
    pub(crate) database_id: Option<String>,
    /// The number that the next new file gets.
    pub(crate) next_file_number: u64,
    /// The highest sequence number recorded by an edit.
    pub(crate) last_sequence: Sequence,
    /// The highest column family id that was ever used.
    pub(crate) max_column_family: u32,
    /// Number of the oldest log to keep, according to the edits that record it.
    pub(crate) min_log_number_to_keep: u64,
    /// Number of the oldest log that is needed. The contents of all older logs are in tables.
    pub(crate) oldest_needed_log: u64,
    /// For each log whose synced length the MANIFEST records: this length in bytes, by log number.
    pub(crate) synced_logs: BTreeMap<u64, u64>,
    /// The logs that existed when the last edit that lists logs was written, in ascending order;
    /// `None` if there is no such edit.
    pub(crate) existing_logs: Option<Vec<u64>>,
    /// Number of records that were read.
    pub(crate) records: u64,
    /// The incomplete record at the end of the file, if there is one.
    pub(crate) torn: Option<Torn>,
    /// Number of edits of an incomplete group at the end of the file, which have no effect.
    pub(crate) unfinished_edits: usize,
    /// Byte range of the incomplete group's edits in the file.
    unfinished: Range<u64>,
}

/// The state of a column family according to a MANIFEST.
#[derive(Debug, Clone)]
pub(crate) struct FamilyState {
    /// Id of the family; 0 is the default family.
    pub(crate) id: u32,
    /// Name of the family.
    pub(crate) name: String,
    /// Name of the family's comparator.
    pub(crate) comparator: String,
    /// Number of the oldest log that the family needs. The family's writes in older logs are
    /// already in its tables.
    pub(crate) log_number: u64,
    /// Files of the family.
    pub(crate) files: VersionBuilder,
    /// The positions at which the round-robin compactions of the family's levels continue.
    pub(crate) cursors: CompactCursors,
    /// The options with which the family was created, if no OPTIONS file had them yet.
    pub(crate) recorded_options: Option<FamilyOptions>,
}

/// Returns the number of the MANIFEST that CURRENT names.
///
/// # Errors
/// Not found, if there is no CURRENT; corruption, if it does not name a MANIFEST.
pub(crate) fn current(storage: &dyn Storage, directory: &Path) -> Result<u64> {
    let path = directory.join(FileKind::Current.to_string());
    let contents = storage.read_file(&path, MAX_CURRENT_LENGTH, Purpose::Manifest)?;
    file_name::parse_current(&contents).map_err(|error| Error::decoding(&path, 0, error))
}

impl DatabaseState {
    /// Returns what was ignored at the end of the file: an incomplete group of edits, an incomplete
    /// record, or both.
    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        let mut left_out = Vec::new();
        let mut note = |offset: u64, bytes: u64, reason: String| {
            left_out.push(LeftOut {
                path: self.path.clone(),
                offset,
                bytes,
                reason,
                torn_tail: true,
            });
        };
        if self.unfinished_edits > 0 {
            let Range { start, end } = self.unfinished;
            let reason = format!("{} edits of an incomplete group", self.unfinished_edits);
            note(start, end - start, reason);
        }
        if let Some(Torn { offset, dropped, reason, .. }) = self.torn {
            note(offset, dropped, reason.to_string());
        }
        left_out
    }
}

impl Manifest {
    /// Reads the MANIFEST with the given file number.
    ///
    /// # Errors
    /// Corruption, with file, record and offset, for damage before the end, for edits that
    /// contradict each other, and for a MANIFEST that lacks a required field.
    pub(crate) fn read(storage: &dyn Storage, directory: &Path, number: u64) -> Result<Self> {
        let path = directory.join(FileKind::Manifest(number).to_string());
        let file = match storage.open(&path, IoMode::Buffered, Purpose::Manifest) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Err(missing(&path)),
            Err(error) => return Err(error.into()),
        };
        let mut replay = Replay::new(path, number);
        replay.read_on(&file)?;
        replay.finish()
    }
}

/// Returns the error for a MANIFEST that CURRENT names and that does not exist.
pub(super) fn missing(path: &Path) -> Error {
    Error::corruption(path, "CURRENT names it, but it does not exist")
}

/// Bytes in a MANIFEST that are not a valid edit.
struct Irregularity {
    offset: u64,
    /// At least this many bytes of edits are lost.
    dropped: u64,
    /// Whether a crash can have caused this irregularity, provided that no edits follow it.
    may_be_torn: bool,
    reason: String,
}

impl Irregularity {
    /// Classifies an event. Returns `None` if the event is a record.
    fn of(event: &Event<'_>, file: &dyn ReadFile) -> Result<Option<Self>> {
        let (offset, dropped, may_be_torn, reason) = match event {
            Event::Damage(Damage { offset, dropped, reason, .. }) => {
                (*offset, *dropped, is_torn_inside(file, *offset)?, reason.to_string())
            }
            // A crash can leave zeros at the end of the file if its new length reached the device
            // before the appended edits did. Nothing else leaves zeros there, because the file is
            // never preallocated.
            Event::Skipped(skipped) if skipped.reason == SkippedReason::Zeros => {
                let dropped = if skipped.lossy { skipped.dropped } else { 0 };
                (skipped.offset, dropped, true, skipped.reason.to_string())
            }
            Event::Skipped(skipped) if skipped.lossy => {
                (skipped.offset, skipped.dropped, false, skipped.reason.to_string())
            }
            Event::Stale(stale) => {
                (stale.offset, stale.dropped, false, "a record of another file".to_owned())
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { offset, dropped, may_be_torn, reason }))
    }
}

/// Whether a fragment with a wrong checksum contains a sector of zeros.
///
/// A power cut can leave zeros in a sector of an edit that was being written: sectors reach the
/// device in any order, and the space of the file was empty before. No valid edit contains a sector
/// of zeros, and damage is unlikely to produce one.
fn is_torn_inside(file: &dyn ReadFile, offset: u64) -> Result<bool> {
    let mut header = [0; HEADER_LENGTH];
    let count = file.read_full_at(&mut header, offset, Purpose::Manifest)?;
    let [.., low, high, _] = header;
    let length = count + usize::from(u16::from_le_bytes([low, high]));
    let mut fragment = vec![0; length];
    let count = file.read_full_at(&mut fragment, offset, Purpose::Manifest)?;
    fragment.truncate(count);
    let in_first_sector = (SECTOR - offset % SECTOR) as usize;
    let (first, others) = fragment.split_at(in_first_sector.min(fragment.len()));
    let mut sectors = others.chunks(SECTOR as usize).chain([first]);
    Ok(sectors.any(|sector| sector.iter().all(|&byte| byte == 0)))
}

/// Whether an edit that was written later follows the bytes at `offset`. Edits that belong to a
/// group do not count: the edits of a group are written together, so after a crash a torn edit may
/// be followed by intact edits of the same group.
fn is_followed(
    reader: &mut RecordReader<FileSource>,
    file: &dyn ReadFile,
    offset: u64,
) -> Result<bool> {
    let is_later = |payload: &[u8]| {
        VersionEdit::decode(payload).is_ok_and(|edit| edit.atomic_group_remaining.is_none())
    };
    let mut dropped = vec![0; BLOCK_LENGTH - offset as usize % BLOCK_LENGTH];
    let count = file.read_full_at(&mut dropped, offset, Purpose::Manifest)?;
    dropped.truncate(count);
    if records_within(&dropped).any(is_later) {
        return Ok(true);
    }
    loop {
        match reader.next_event()? {
            Event::Record(record) if is_later(record.payload) => return Ok(true),
            Event::End | Event::Torn(_) => return Ok(false),
            _ => {}
        }
    }
}

/// A MANIFEST that is being read.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    database: DatabaseState,
    families: BTreeMap<u32, FamilyState>,
    /// The edits, read so far, of an atomic group whose last edit has not been read yet.
    group: Vec<VersionEdit>,
    has_log_number: bool,
    has_next_file_number: bool,
    has_last_sequence: bool,
    /// The offset in the file after the last record that was read.
    end: u64,
    /// Number of edits that add or drop a column family, or add tables that neither a flush nor a
    /// compaction wrote.
    milestones: u64,
}

impl Replay {
    pub(super) fn new(path: PathBuf, number: u64) -> Self {
        Self {
            database: DatabaseState {
                path,
                number,
                database_id: None,
                next_file_number: 0,
                last_sequence: 0,
                max_column_family: 0,
                min_log_number_to_keep: 0,
                oldest_needed_log: 0,
                synced_logs: BTreeMap::new(),
                existing_logs: None,
                records: 0,
                torn: None,
                unfinished_edits: 0,
                unfinished: 0..0,
            },
            families: BTreeMap::new(),
            group: Vec::new(),
            has_log_number: false,
            has_next_file_number: false,
            has_last_sequence: false,
            end: 0,
            milestones: 0,
        }
    }

    /// Returns the number of records that were read.
    pub(super) fn records(&self) -> u64 {
        self.database.records
    }

    /// Returns the number of the oldest log that is needed.
    pub(super) fn oldest_needed_log(&self) -> u64 {
        let unflushed = self.families.values().map(|family| family.log_number).min();
        unflushed.unwrap_or(0).max(self.database.min_log_number_to_keep)
    }

    /// Returns the number of edits that are milestones: those that add or drop a column family, and
    /// those that add tables that neither a flush nor a compaction wrote.
    pub(super) fn milestones(&self) -> u64 {
        self.milestones
    }

    /// Reads the records from the end of the last one that was read to the end of the file, and
    /// applies their edits.
    ///
    /// # Errors
    /// The errors of [`Manifest::read`].
    pub(super) fn read_on(&mut self, file: &Arc<dyn ReadFile>) -> Result<()> {
        let block = self.end - self.end % BLOCK_LENGTH as u64;
        let source = FileSource::new(Arc::clone(file), Purpose::Manifest, block..u64::MAX);
        let mut reader = RecordReader::at_block(source, self.database.number, block);
        self.database.torn = None;
        loop {
            let found = match reader.next_event()? {
                Event::Record(record) if record.start < self.end => continue,
                Event::Record(record) => {
                    self.record(record.payload, record.start..record.end)?;
                    self.end = record.end;
                    continue;
                }
                Event::End => break,
                Event::Torn(torn) => {
                    self.database.torn = Some(torn);
                    break;
                }
                event => match Irregularity::of(&event, &**file)? {
                    // The last record that was read began in an earlier block.
                    Some(found) if found.offset < self.end => continue,
                    Some(found) => found,
                    None => continue,
                },
            };
            let Irregularity { offset, dropped, may_be_torn, reason } = found;
            if !may_be_torn || is_followed(&mut reader, &**file, offset)? {
                let records = self.database.records;
                let message = format!("damage after record {records}: {reason}");
                return Err(Error::corruption_at(&self.database.path, offset, message));
            }
            if dropped > 0 {
                let (own, reason) = (true, TornReason::Payload);
                self.database.torn = Some(Torn { offset, dropped, own, reason });
            }
            break;
        }
        self.families.values_mut().for_each(|family| family.files.forget_removed());
        Ok(())
    }

    /// Applies the edit of a record. `range` is the record's byte range in the file.
    fn record(&mut self, payload: &[u8], range: Range<u64>) -> Result<()> {
        let offset = range.start;
        let number = self.database.records;
        self.database.records += 1;
        let path = &self.database.path;
        let edit = VersionEdit::decode(payload).map_err(|error| {
            Error::decoding(path, offset, error).while_doing(format!("record {number}"))
        })?;
        let wrong =
            |what: String| Error::corruption_at(path, offset, format!("record {number} {what}"));
        let Some(remaining) = edit.atomic_group_remaining else {
            if !self.group.is_empty() {
                let what = format!("interrupts a group after {} edits", self.group.len());
                return Err(wrong(what));
            }
            return self.apply(edit).map_err(|what| {
                Error::corruption_at(&self.database.path, offset, format!("record {number} {what}"))
            });
        };
        let due = self.group.last().and_then(|edit| edit.atomic_group_remaining);
        if due.is_some_and(|due| due.checked_sub(1) != Some(remaining)) {
            return Err(wrong(format!("is out of order in its group: {remaining} edits remain")));
        }
        if self.group.is_empty() {
            self.database.unfinished = range.clone();
        }
        self.database.unfinished.end = range.end;
        self.group.push(edit);
        if remaining == 0 {
            for edit in std::mem::take(&mut self.group) {
                self.apply(edit).map_err(|what| {
                    let what = format!("record {number} ends a group, which {what}");
                    Error::corruption_at(&self.database.path, offset, what)
                })?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, edit: VersionEdit) -> std::result::Result<(), String> {
        self.note_numbers(&edit);
        // A flush records the oldest log that is needed after it, and a compaction deletes tables.
        let is_ingestion = !edit.new_files.is_empty()
            && edit.deleted_files.is_empty()
            && edit.log_number.is_none();
        let is_milestone =
            edit.column_family_add.is_some() || edit.column_family_drop || is_ingestion;
        self.milestones += u64::from(is_milestone);
        let database = &mut self.database;
        for added in &edit.wal_additions {
            if let Some(size) = added.synced_size {
                database.synced_logs.insert(added.log_number, size);
            }
        }
        if let Some(number) = edit.wal_deletion {
            database.synced_logs = database.synced_logs.split_off(&number);
        }
        let id = edit.column_family;
        if let Some(name) = &edit.column_family_add {
            if self.families.contains_key(&id) {
                return Err(format!("adds column family {id} ('{name}'), which already exists"));
            }
            self.families.insert(id, FamilyState::new(id, name.clone()));
            database.max_column_family = database.max_column_family.max(id);
        } else if id == 0 {
            // The default column family always exists: no edit adds it.
            let default = || FamilyState::new(0, "default".to_owned());
            self.families.entry(0).or_insert_with(default);
        }
        if edit.column_family_drop {
            return match self.families.remove(&id) {
                Some(_) => Ok(()),
                None => Err(format!("drops column family {id}, which does not exist")),
            };
        }
        let family = self
            .families
            .get_mut(&id)
            .ok_or_else(|| format!("changes column family {id}, which does not exist"))?;
        family.apply(edit)
    }

    fn note_numbers(&mut self, edit: &VersionEdit) {
        let database = &mut self.database;
        if let Some(id) = &edit.database_id {
            database.database_id = Some(id.clone());
        }
        self.has_log_number |= edit.log_number.is_some();
        if let Some(number) = edit.next_file_number {
            self.has_next_file_number = true;
            database.next_file_number = database.next_file_number.max(number);
        }
        if let Some(sequence) = edit.last_sequence {
            self.has_last_sequence = true;
            database.last_sequence = database.last_sequence.max(sequence);
        }
        if let Some(id) = edit.max_column_family {
            database.max_column_family = database.max_column_family.max(id);
        }
        if let Some(logs) = &edit.existing_logs {
            database.existing_logs = Some(logs.clone());
        }
        if let Some(number) = edit.min_log_number_to_keep {
            database.min_log_number_to_keep = database.min_log_number_to_keep.max(number);
        }
    }

    /// Returns the resulting state.
    ///
    /// # Errors
    /// Corruption, for a MANIFEST that lacks a required field.
    pub(super) fn finish(mut self) -> Result<Manifest> {
        self.database.unfinished_edits = self.group.len();
        self.database.oldest_needed_log = self.oldest_needed_log();
        let parts = [
            (self.has_log_number, "log number"),
            (self.has_next_file_number, "next file number"),
            (self.has_last_sequence, "last sequence number"),
        ];
        let missing: Vec<&str> =
            parts.iter().filter(|(there, _)| !there).map(|(_, name)| *name).collect();
        if missing.is_empty() {
            return Ok(Manifest { database: self.database, families: self.families });
        }
        let message = format!("the MANIFEST lacks its {}", missing.join(", "));
        Err(Error::corruption(&self.database.path, message))
    }
}

impl FamilyState {
    fn new(id: u32, name: String) -> Self {
        let comparator = String::new();
        let (files, cursors) = (VersionBuilder::default(), CompactCursors::default());
        Self { id, name, comparator, log_number: 0, files, cursors, recorded_options: None }
    }

    fn apply(&mut self, mut edit: VersionEdit) -> std::result::Result<(), String> {
        if let Some(options) = edit.family_options.take() {
            self.recorded_options = Some(options);
        }
        if let Some(comparator) = &edit.comparator {
            if !self.comparator.is_empty() && self.comparator != *comparator {
                let (name, before) = (&self.name, &self.comparator);
                return Err(format!(
                    "changes the comparator of column family '{name}' from {before} to {comparator}"
                ));
            }
            self.comparator.clone_from(comparator);
        }
        if let Some(number) = edit.log_number {
            self.log_number = self.log_number.max(number);
        }
        edit.compact_cursors.iter().for_each(|cursor| self.cursors.set(cursor));
        self.files.apply_owned(edit)
    }
}
