//! Builds a version by applying edits to an earlier one.
//!
//! The invariants of versions are checked here. A table is added to one level only, and only once.
//! Only existing tables are deleted. In every level but 0, tables are in key order and do not
//! overlap. Garbage belongs to an existing blob file and does not exceed the file's contents.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailwater_format::version_edit::{BlobFileAddition, BlobFileGarbage, NewFile, VersionEdit};
use tailwater_format::{Comparator, key};

use crate::options::LEVELS_MAX;
use crate::table::FileMetadata;
use crate::version::{BlobFileMetadata, Level, Version};

/// A version that is being built. A contradictory edit is refused with a message that names the
/// contradiction; the caller adds the path of the MANIFEST.
#[derive(Debug, Default, Clone)]
pub(crate) struct VersionBuilder {
    levels: Vec<BTreeMap<u64, Arc<FileMetadata>>>,
    blob_files: BTreeMap<u64, BlobFileMetadata>,
    /// Tables that edits removed from a level. If an edit adds such a table to another level, the
    /// same object is used, so that the table stays open.
    taken_out: BTreeMap<u64, Arc<FileMetadata>>,
    /// Table objects that were created before an edit adds them, by file number; they may be open.
    new_tables: BTreeMap<u64, Arc<FileMetadata>>,
}

impl VersionBuilder {
    /// Starts from the files of `version`. If an edit adds a table that is in `new_tables`, the new
    /// version gets the `FileMetadata` from `new_tables`, whose table may be open, instead of a new
    /// one.
    pub(crate) fn from_version(version: &Version, new_tables: &[Arc<FileMetadata>]) -> Self {
        let mut levels: Vec<BTreeMap<u64, Arc<FileMetadata>>> = Vec::new();
        for level in &version.levels {
            let files = level.files().iter();
            levels.push(files.map(|file| (file.number(), Arc::clone(file))).collect());
        }
        let new_tables = new_tables.iter().map(|file| (file.number(), Arc::clone(file)));
        Self {
            levels,
            blob_files: version.blob_files.clone(),
            taken_out: BTreeMap::new(),
            new_tables: new_tables.collect(),
        }
    }

    /// Forgets the tables that edits have removed, which may be open.
    pub(crate) fn forget_removed(&mut self) {
        self.taken_out.clear();
    }

    /// Returns every table with its level, ordered by number within a level.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetadata>)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(number, level)| level.values().map(move |file| (number, file)))
    }

    /// Returns the blob files that the edits have added so far, by file number. Some of them may
    /// hold only garbage.
    pub(crate) fn blob_files(&self) -> &BTreeMap<u64, BlobFileMetadata> {
        &self.blob_files
    }

    /// Applies the parts of an edit that concern files.
    pub(crate) fn apply(&mut self, edit: &VersionEdit) -> Result<(), String> {
        self.apply_adding(edit, edit.new_files.clone())
    }

    /// Like [`Self::apply`], but consumes the edit, which may add very many tables.
    pub(crate) fn apply_owned(&mut self, mut edit: VersionEdit) -> Result<(), String> {
        let new_files = std::mem::take(&mut edit.new_files);
        self.apply_adding(&edit, new_files)
    }

    fn apply_adding(&mut self, edit: &VersionEdit, new_files: Vec<NewFile>) -> Result<(), String> {
        for deleted in &edit.deleted_files {
            let level = self.levels.get_mut(deleted.level as usize);
            let Some(file) = level.and_then(|level| level.remove(&deleted.number)) else {
                let (number, level) = (deleted.number, deleted.level);
                return Err(format!("deletes table {number}, which is not in level {level}"));
            };
            self.taken_out.insert(deleted.number, file);
        }
        for added in new_files {
            // No option permits this many levels, so the edit is damaged.
            if added.level >= LEVELS_MAX {
                return Err(format!("adds table {} to level {}", added.number, added.level));
            }
            if let Some(level) = self.level_of(added.number) {
                return Err(format!("adds table {}, already in level {level}", added.number));
            }
            let level = added.level as usize;
            if self.levels.len() <= level {
                self.levels.resize_with(level + 1, BTreeMap::new);
            }
            let number = added.number;
            let known = self.new_tables.remove(&number).filter(|known| *known.added() == added);
            let file = match (known, self.taken_out.remove(&number)) {
                (Some(known), _) => known,
                (None, Some(file)) => Arc::new(FileMetadata::moved(&file, added)),
                (None, None) => Arc::new(FileMetadata::found(added)),
            };
            self.levels[level].insert(number, file);
        }
        edit.blob_file_additions.iter().try_for_each(|added| self.add_blob_file(added))?;
        edit.blob_file_garbage.iter().try_for_each(|garbage| self.add_garbage(garbage))
    }

    /// Returns the level of a table.
    fn level_of(&self, number: u64) -> Option<usize> {
        self.levels.iter().position(|level| level.contains_key(&number))
    }

    fn add_blob_file(&mut self, added: &BlobFileAddition) -> Result<(), String> {
        let file =
            BlobFileMetadata { added: Arc::new(added.clone()), garbage_count: 0, garbage_bytes: 0 };
        match self.blob_files.insert(added.number, file) {
            None => Ok(()),
            Some(_) => Err(format!("adds blob file {}, which already exists", added.number)),
        }
    }

    fn add_garbage(&mut self, garbage: &BlobFileGarbage) -> Result<(), String> {
        let number = garbage.number;
        let file = self.blob_files.get_mut(&number).ok_or_else(|| {
            format!("records garbage in blob file {number}, which does not exist")
        })?;
        file.garbage_count = file.garbage_count.saturating_add(garbage.blob_count);
        file.garbage_bytes = file.garbage_bytes.saturating_add(garbage.blob_bytes);
        if file.garbage_count > file.added.blob_count || file.garbage_bytes > file.added.blob_bytes
        {
            return Err(format!("records more garbage in blob file {number} than it holds"));
        }
        Ok(())
    }

    /// Returns the resulting version, with at least `level_count` levels.
    pub(crate) fn finish(
        self,
        comparator: &Comparator,
        level_count: usize,
    ) -> Result<Version, String> {
        let mut levels = Vec::new();
        for (number, files) in self.levels.into_iter().enumerate() {
            let mut files: Vec<Arc<FileMetadata>> = files.into_values().collect();
            check_bounds(comparator, &files)?;
            if number == 0 {
                sort_newest_first(&mut files);
            } else {
                sort_by_key(comparator, &mut files, number)?;
            }
            levels.push(Arc::new(Level::new(files)));
        }
        levels.resize_with(level_count.max(levels.len()), Arc::default);
        let blob_files = drop_unreferenced(&levels, self.blob_files);
        Ok(Version { levels, blob_files })
    }
}

fn check_bounds(comparator: &Comparator, files: &[Arc<FileMetadata>]) -> Result<(), String> {
    for file in files {
        let bounds = [file.smallest(), file.largest()];
        if bounds.iter().any(|bound| key::split(bound).is_none()) {
            return Err(format!(
                "has an invalid internal key as a bound of table {}",
                file.number()
            ));
        }
        let [smallest, largest] = bounds;
        if smallest != largest && key::compare_internal(comparator, smallest, largest).is_gt() {
            return Err(format!("has the bounds of table {} in the wrong order", file.number()));
        }
    }
    Ok(())
}

/// Sorts level 0 by epoch number, which counts flushes and ingestions. If any table has no epoch
/// number, sorts by sequence numbers.
fn sort_newest_first(files: &mut [Arc<FileMetadata>]) {
    let has_epochs = files.iter().all(|file| file.added().epoch_number != 0);
    files.sort_by_key(|file| {
        let added = file.added();
        let epoch = if has_epochs { added.epoch_number } else { 0 };
        Reverse((epoch, added.largest_sequence, added.smallest_sequence, added.number))
    });
}

fn sort_by_key(
    comparator: &Comparator,
    files: &mut [Arc<FileMetadata>],
    level: usize,
) -> Result<(), String> {
    files.sort_by(|a, b| key::compare_internal(comparator, a.smallest(), b.smallest()));
    for pair in files.windows(2) {
        let [left, right] = pair else { continue };
        if key::compare_internal(comparator, left.largest(), right.smallest()).is_ge() {
            let (left, right) = (left.number(), right.number());
            return Err(format!("leaves tables {left} and {right} of level {level} overlapping"));
        }
    }
    Ok(())
}

/// Returns the blob files that are still needed. Each table records the oldest blob file to which
/// it refers. The recorded files are needed. Each file that is newer than the oldest recorded file
/// is needed, too, unless it holds only garbage.
fn drop_unreferenced(
    levels: &[Arc<Level>],
    mut blob_files: BTreeMap<u64, BlobFileMetadata>,
) -> BTreeMap<u64, BlobFileMetadata> {
    let files = levels.iter().flat_map(|level| level.files());
    let linked: BTreeSet<u64> =
        files.filter_map(|file| file.added().oldest_blob_file_number).collect();
    let Some(oldest) = linked.first() else { return BTreeMap::new() };
    let mut kept = blob_files.split_off(oldest);
    kept.retain(|number, file| {
        linked.contains(number) || file.garbage_count < file.added.blob_count
    });
    kept
}
