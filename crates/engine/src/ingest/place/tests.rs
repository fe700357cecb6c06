//! Placement of files, with tables that consist of bounds only.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{MAX_SEQUENCE, ValueType, pack_trailer, put_internal_key};
use tailwater_format::version_edit::{NewFile, VersionEdit};

use super::{FamilyContext, Placement};
use crate::error::{ErrorKind, Result};
use crate::ingest::IngestOptions;
use crate::ingest::external_file::ExternalFile;
use crate::options::CompactionStyle;
use crate::table::FileMetadata;
use crate::version::{Compaction, CompactionKind, InputLevel, Reason, Version, VersionBuilder};

/// `LAST` is the highest sequence number assigned before the ingestion, and `LEVELS` the number of
/// levels.
const LAST: u64 = 100;
const LEVELS: usize = 7;

/// A column family. Each table is given as text: `2: a-c` is a table of level 2 that has records in
/// every part of its range `a` to `c`; `2: a~c` has records only at `a` and `c`.
#[derive(Debug, Clone)]
struct World {
    tables: Vec<&'static str>,
    /// Running compactions as text: `a-c > 2` writes to level 2 in the range `a` to `c`.
    running: Vec<&'static str>,
    base_level: usize,
    style: CompactionStyle,
    is_watched: bool,
    options: IngestOptions,
}

impl World {
    fn new(tables: &[&'static str]) -> Self {
        Self {
            tables: tables.to_vec(),
            running: Vec::new(),
            base_level: 1,
            style: CompactionStyle::Level,
            is_watched: false,
            options: IngestOptions::default(),
        }
    }

    /// Returns the level and sequence number assigned to each file. A file is given as `a-c`, its
    /// first and last key, or as `a-c)` if the last key is the exclusive end of a range tombstone.
    fn places(&self, files: &[&str]) -> Result<Vec<(usize, u64)>> {
        let mut edit = VersionEdit::default();
        let mut sparse = Vec::new();
        for (number, table) in (1..).zip(&self.tables) {
            let (level, bounds) = table.split_once(": ").expect("a level");
            if bounds.contains('~') {
                sparse.push(number);
            }
            let bounds = bounds.replace('~', "-");
            let level = level.parse().expect("a number");
            edit.new_files.push(NewFile { level, number, ..new_file(&bounds) });
        }
        let comparator = Comparator::Bytewise;
        let mut builder = VersionBuilder::from_version(&Version::default(), &[]);
        builder.apply(&edit).expect("tables");
        let version = builder.finish(&comparator, LEVELS).expect("a version");
        let running: Vec<_> = self.running.iter().map(|text| compaction(text)).collect();
        let context = FamilyContext {
            comparator: &comparator,
            version: &version,
            running: &running,
            style: self.style,
            levels: LEVELS,
            base_level: self.base_level,
            last_sequence: LAST,
            is_watched: self.is_watched,
            options: &self.options,
        };
        let files: Vec<_> = files.iter().map(|bounds| external(bounds)).collect();
        let overlaps = |_: usize, file: &ExternalFile, table: &Arc<FileMetadata>| {
            let has = |key: &[u8]| file.begin() <= key && key <= file.end();
            let is_sparse = sparse.contains(&table.number());
            Ok(!is_sparse || has(table.smallest_user_key()) || has(table.largest_user_key()))
        };
        let places = context.places(&files, overlaps)?;
        Ok(places.into_iter().map(|Placement { level, sequence }| (level, sequence)).collect())
    }

    /// Returns the level and the sequence number of one file.
    fn place(&self, file: &str) -> (usize, u64) {
        self.places(&[file]).unwrap_or_else(|error| panic!("{error}"))[0]
    }
}

/// Returns the smallest and largest internal key of a range given as `a-c`.
fn bounds(text: &str, sequence: u64) -> (Vec<u8>, Vec<u8>) {
    let (begin, end) = text.split_once('-').expect("two keys");
    let key = |user_key: &str| {
        let (sequence, kind, user_key) = match user_key.strip_suffix(')') {
            Some(user_key) => (MAX_SEQUENCE, ValueType::RangeDeletion, user_key),
            None => (sequence, ValueType::Value, user_key),
        };
        let mut key = Vec::new();
        put_internal_key(&mut key, user_key.as_bytes(), pack_trailer(sequence, kind as u8));
        key
    };
    (key(begin), key(end))
}

fn new_file(text: &str) -> NewFile {
    let (smallest, largest) = bounds(text, 5);
    let (smallest_sequence, largest_sequence) = (5, 5);
    NewFile { smallest, largest, smallest_sequence, largest_sequence, ..NewFile::default() }
}

fn external(text: &str) -> ExternalFile {
    let (smallest, largest) = bounds(text, 0);
    ExternalFile { path: text.into(), smallest, largest, entries: 2, ..ExternalFile::default() }
}

fn compaction(text: &str) -> Arc<Compaction> {
    let (input, level) = text.split_once(" > ").expect("a level");
    let file = FileMetadata::new(NewFile { number: 1000, ..new_file(input) });
    Arc::new(Compaction {
        inputs: vec![InputLevel { level: 0, files: vec![Arc::new(file)] }],
        output_level: level.parse().expect("a number"),
        reason: Reason::LevelL0FilesNum,
        kind: CompactionKind::Merge,
        is_bottommost: false,
        grandparents: Vec::new(),
        max_output_file_bytes: 1,
        max_overlap_bytes: 1,
        max_subcompactions: 1,
    })
}

#[test]
fn a_file_goes_to_the_deepest_level_above_any_overlap() {
    let cases: [(&[&str], &str, (usize, u64)); 9] = [
        (&[], "a-c", (6, 0)),
        (&["0: d-e", "3: d-e", "6: d-e"], "a-c", (6, 0)),
        (&["6: c-e"], "a-c", (5, 101)),
        (&["2: b-b", "4: a-c"], "a-c", (1, 101)),
        (&["0: b-b"], "a-c", (0, 101)),
        // A table is ignored if its key range overlaps that of the file, but none of its records is
        // in the file's key range.
        (&["2: a~z"], "b-c", (6, 0)),
        (&["6: a~z"], "b-c", (5, 0)),
        (&["5: a~z", "6: b-b"], "b-c", (4, 101)),
        (&["0: a~z", "6: d-e"], "b-c", (6, 0)),
    ];
    for (tables, file, expected) in cases {
        assert_eq!(World::new(tables).place(file), expected, "{file} over {tables:?}");
    }
}

#[test]
fn levels_above_the_base_stay_empty() {
    let world = |tables| World { base_level: 4, ..World::new(tables) };
    assert_eq!(world(&["6: a-c"]).place("b-b"), (5, 101));
    assert_eq!(world(&["5: a-c"]).place("b-b"), (4, 101));
    assert_eq!(world(&["4: a-c"]).place("b-b"), (0, 101));
}

#[test]
fn a_file_goes_above_the_output_of_a_running_compaction() {
    let world = |running| World { running: vec![running], ..World::new(&[]) };
    assert_eq!(world("a-c > 3").place("b-d"), (2, 101));
    assert_eq!(world("a-c > 3").place("d-e"), (6, 0));
    assert_eq!(world("a-c > 1").place("c-d"), (0, 101));
    // The running compaction writes to level 3, which was the base level when it began. Its output
    // overlaps the file, so the file must go above level 3. The base level is 5 now, so the file
    // cannot go to levels 1 and 2.
    let higher = World { base_level: 5, ..world("a-c > 3") };
    assert_eq!(higher.place("b-d"), (0, 101));
}

#[test]
fn overlapping_files_are_placed_in_ascending_levels() {
    let places = |tables, files: &[&str]| World::new(tables).places(files).expect("places");
    assert_eq!(places(&[], &["a-b", "c-d"]), [(6, 0), (6, 0)]);
    assert_eq!(places(&[], &["a-c", "c-d"]), [(6, 101), (5, 102)]);
    assert_eq!(
        places(&[], &["a-c", "x-z", "b-d", "x-x"]),
        [(6, 101), (6, 102), (5, 103), (5, 104)]
    );
    // A file in a gap of a batch begins the next batch.
    let in_a_gap = ["a-b", "x-z", "m-n", "a-a"];
    assert_eq!(places(&[], &in_a_gap), [(6, 101), (6, 102), (5, 103), (5, 104)]);
    assert_eq!(places(&["1: a-z"], &["a-c", "c-d", "a-d"]), [(0, 101), (0, 102), (0, 103)]);
    assert_eq!(places(&["2: a-b"], &["a-c", "c-d"]), [(1, 101), (0, 102)]);
    // The exclusive end of a range tombstone is not part of the file.
    assert_eq!(places(&[], &["a-c)", "c-d"]), [(6, 0), (6, 0)]);
}

#[test]
fn snapshots_fifo_and_overlaps_require_a_sequence_number() {
    let watched = World { is_watched: true, ..World::new(&[]) };
    assert_eq!(watched.places(&["a-b", "c-d"]).expect("places"), [(6, 101), (6, 102)]);
    let fifo = World { style: CompactionStyle::Fifo, ..World::new(&[]) };
    assert_eq!(fifo.place("a-b"), (0, 101));
    for world in [watched, fifo, World::new(&["0: a-b"])] {
        let options = IngestOptions { allow_global_seqno: false, ..world.options };
        let refused = World { options, ..world }.places(&["a-b"]).expect_err("no number");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
    let options = IngestOptions { allow_global_seqno: false, ..IngestOptions::default() };
    let world = World { options, ..World::new(&["0: x-y"]) };
    assert_eq!(world.place("a-b"), (6, 0));
    assert!(world.places(&["a-c", "b-d"]).is_err(), "files that overlap");
}

#[test]
fn placement_above_the_last_level_can_be_refused() {
    let last_only =
        IngestOptions { fail_if_not_bottommost_level: true, ..IngestOptions::default() };
    let world = |tables| World { options: last_only, ..World::new(tables) };
    assert_eq!(world(&["5: d-e"]).place("a-b"), (6, 0));
    let refused = world(&["6: a-b"]).places(&["a-b"]).expect_err("another level");
    assert_eq!(refused.kind(), ErrorKind::Busy);
}
