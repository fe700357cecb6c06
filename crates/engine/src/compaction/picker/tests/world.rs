//! A simulated column family: its tables have metadata but no files, and its compactions only
//! replace metadata.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, Sequence, ValueType, pack_trailer};
use tailwater_format::version_edit::{DeletedFile, NewFile, VersionEdit};

use crate::compaction::picker::{PickContext, next_cursor};
use crate::options::{
    ColumnFamilyOptions, DbOptions, sanitize_column_family, sanitize_database, set_from_string,
};
use crate::table::FileMetadata;
use crate::version::{CompactCursors, Compaction, CompactionKind, Version, VersionBuilder};

/// A column family whose tables have metadata but no files.
pub(super) struct World {
    pub(super) options: ColumnFamilyOptions,
    pub(super) database: DbOptions,
    pub(super) comparator: Comparator,
    pub(super) now_s: u64,
    pub(super) oldest_snapshot: Sequence,
    pub(super) cursors: CompactCursors,
    pub(super) running: Vec<Arc<Compaction>>,
    pub(super) level_0_fan_in: usize,
    pub(super) version: Version,
    pub(super) next_number: u64,
    pub(super) next_epoch: u64,
}

impl World {
    /// Creates a column family without tables.
    pub(super) fn new(options: &str) -> Self {
        let mut database = DbOptions::default();
        let mut family = ColumnFamilyOptions::default();
        set_from_string(&mut database, &mut family, options).unwrap_or_else(|e| panic!("{e}"));
        sanitize_database(&mut database, std::path::Path::new("/database"));
        sanitize_column_family(&mut family, &database, false);
        let levels = usize::try_from(family.num_levels).unwrap();
        Self {
            options: family,
            database,
            comparator: Comparator::Bytewise,
            now_s: 0,
            oldest_snapshot: 0,
            cursors: CompactCursors::default(),
            running: Vec::new(),
            level_0_fan_in: usize::MAX,
            version: Version::with_levels(levels),
            next_number: 1,
            next_epoch: 1,
        }
    }

    pub(super) fn context(&self) -> PickContext<'_> {
        PickContext {
            version: &self.version,
            options: &self.options,
            database: &self.database,
            comparator: &self.comparator,
            now_s: self.now_s,
            oldest_snapshot: self.oldest_snapshot,
            cursors: &self.cursors,
            running: &self.running,
            level_0_fan_in: self.level_0_fan_in,
        }
    }

    /// Applies an edit to the version.
    pub(super) fn apply(&mut self, edit: &VersionEdit) {
        let mut builder = VersionBuilder::from_version(&self.version, &[]);
        builder.apply(edit).unwrap_or_else(|problem| panic!("{problem}"));
        let levels = usize::try_from(self.options.num_levels).unwrap();
        let version = builder.finish(&self.comparator, levels);
        self.version = version.unwrap_or_else(|problem| panic!("{problem}"));
    }

    /// Adds a table. Assigns it a file number and an epoch number, unless it has them.
    pub(super) fn add(&mut self, mut file: NewFile) {
        if file.number == 0 {
            file.number = self.next_number;
        }
        self.next_number = self.next_number.max(file.number + 1);
        if file.epoch_number == 0 {
            file.epoch_number = self.next_epoch;
            self.next_epoch += 1;
        }
        self.apply(&VersionEdit { new_files: vec![file], ..VersionEdit::default() });
    }

    /// Returns the table with a number.
    pub(super) fn file(&self, number: u64) -> (usize, &Arc<FileMetadata>) {
        let found = self.version.files().find(|(_, file)| file.number() == number);
        found.unwrap_or_else(|| panic!("there is no table {number}"))
    }

    /// Starts a compaction.
    pub(super) fn begin(&mut self, compaction: Compaction) {
        compaction.mark_inputs(true);
        self.running.push(Arc::new(compaction));
    }

    /// Ends the running compaction at index `at` of `running`. The outputs are computed as if no
    /// record of the inputs had been dropped.
    pub(super) fn end(&mut self, at: usize) {
        let compaction = self.running.remove(at);
        if let Some(cursor) = next_cursor(&self.context(), &compaction) {
            self.cursors.set(&cursor);
        }
        compaction.mark_inputs(false);
        let inputs = compaction.inputs.iter();
        let deleted_files = inputs
            .flat_map(|input| {
                let level = u32::try_from(input.level).unwrap();
                input.files.iter().map(move |file| DeletedFile { level, number: file.number() })
            })
            .collect();
        let new_files = self.outputs(&compaction);
        self.apply(&VersionEdit { deleted_files, new_files, ..VersionEdit::default() });
    }

    fn outputs(&mut self, compaction: &Compaction) -> Vec<NewFile> {
        let level = u32::try_from(compaction.output_level).unwrap();
        let files: Vec<&NewFile> =
            compaction.inputs.iter().flat_map(|i| &i.files).map(|f| f.added()).collect();
        if compaction.kind == CompactionKind::Move {
            return files.into_iter().map(|file| NewFile { level, ..file.clone() }).collect();
        }
        let order = |a: &&NewFile, b: &&NewFile| {
            key::compare_internal(&self.comparator, &a.smallest, &b.smallest)
        };
        let smallest = files.iter().copied().min_by(order).unwrap().smallest.clone();
        let order = |a: &&NewFile, b: &&NewFile| {
            key::compare_internal(&self.comparator, &a.largest, &b.largest)
        };
        let largest = files.iter().copied().max_by(order).unwrap().largest.clone();
        let newest = files.iter().map(|file| file.largest_sequence).max().unwrap();
        let is_settled = compaction.is_bottommost && newest < self.oldest_snapshot;
        let whole = NewFile {
            level,
            smallest,
            largest,
            size: files.iter().map(|file| file.size).sum(),
            smallest_sequence: files.iter().map(|file| file.smallest_sequence).min().unwrap(),
            largest_sequence: if is_settled { 0 } else { newest },
            oldest_ancestor_time_s: files.iter().map(|f| f.oldest_ancestor_time_s).min().unwrap(),
            creation_time_s: self.now_s,
            epoch_number: files.iter().map(|file| file.epoch_number).min().unwrap(),
            ..NewFile::default()
        };
        let parts =
            if level == 0 { 1 } else { whole.size.div_ceil(compaction.max_output_file_bytes) };
        let outputs = cut(whole, parts);
        let numbers = self.next_number..;
        self.next_number += outputs.len() as u64;
        outputs.into_iter().zip(numbers).map(|(file, number)| NewFile { number, ..file }).collect()
    }
}

/// Splits a table whose keys are numbers into at most `parts` tables.
fn cut(whole: NewFile, parts: u64) -> Vec<NewFile> {
    let number = |bound: &[u8]| -> Option<u64> {
        std::str::from_utf8(key::user_key(bound)).ok()?.parse().ok()
    };
    let (Some(from), Some(to)) = (number(&whole.smallest), number(&whole.largest)) else {
        return vec![whole];
    };
    let parts = parts.clamp(1, (to - from).max(1));
    let bound = |part: u64| from + (to - from) * part / parts;
    let files = (0..parts).map(|part| {
        let mut file = NewFile { size: whole.size / parts, ..whole.clone() };
        if part > 0 {
            file.smallest = internal_key(&number_key(bound(part)), 1);
        }
        if part + 1 < parts {
            file.largest = internal_key(&number_key(bound(part + 1) - 1), 1);
        }
        file
    });
    files.collect()
}

/// Returns a number as a key that sorts in numeric order.
pub(super) fn number_key(number: u64) -> String {
    format!("{number:04}")
}

/// Returns the internal key of a record of type `Value`.
pub(super) fn internal_key(user_key: &str, sequence: Sequence) -> Vec<u8> {
    let mut internal_key = Vec::new();
    let trailer = pack_trailer(sequence, ValueType::Value as u8);
    key::put_internal_key(&mut internal_key, user_key.as_bytes(), trailer);
    internal_key
}

/// Returns the largest key of a table whose last key is the end of a range tombstone.
pub(super) fn exclusive_end(user_key: &str) -> Vec<u8> {
    let mut internal_key = Vec::new();
    let trailer = pack_trailer(key::MAX_SEQUENCE, ValueType::RangeDeletion as u8);
    key::put_internal_key(&mut internal_key, user_key.as_bytes(), trailer);
    internal_key
}
