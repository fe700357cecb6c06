//! A test scene: the tables of one column family, without an open database.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tailwater_format::key::{self, Sequence, ValueType, pack_trailer};
use tailwater_format::version_edit::{DeletedFile, NewFile, VersionEdit};
use tailwater_format::{Comparator, table};
use tailwater_io::buffer::BufferPool;
use tailwater_io::clock::SystemClock;
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::SimStorage;
use tailwater_io::{Clock, Purpose, Storage};
use tempfile::TempDir;

use crate::column_family::{FamilyReaders, FamilySettings, ReaderFactory, SuperVersion};
use crate::compaction::LowPriority;
use crate::compaction::job::{self, Job, Outcome};
use crate::compaction::job_state::{Environment, InputSettings, OutputSettings};
use crate::compaction_filter::CompactionFilter;
use crate::epoch::{Bin, FullEpochCell};
use crate::error::Result;
use crate::file_numbers::FileNumbers;
use crate::io_modes::IoModes;
use crate::iterator::DbIterator;
use crate::open_options::OpenOptions;
use crate::opening::OpeningId;
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::read;
use crate::read::ReadOptions;
use crate::sst_file_manager::TrackedFiles;
use crate::table::builder::{Builder, Format, Origin, TableCompression};
use crate::table::{FileMetadata, NewFiles, OpenBudget, ReadPlan, ReadProfile};
use crate::version::{Compaction, CompactionKind, InputLevel, Reason, Version, VersionBuilder};

/// Number of levels of a version.
const LEVELS: usize = 7;

/// A record of a table. In a range tombstone, `key` is the start and `value` the exclusive end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: Vec<u8>,
    pub(super) sequence: Sequence,
    pub(super) kind: ValueType,
    pub(super) value: Vec<u8>,
}

impl Record {
    pub(super) fn new(key: &str, sequence: Sequence, kind: ValueType, value: &str) -> Self {
        let (key, value) = (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        Self { key, sequence, kind, value }
    }

    pub(super) fn put(key: &str, sequence: Sequence, value: &str) -> Self {
        Self::new(key, sequence, ValueType::Value, value)
    }

    pub(super) fn delete(key: &str, sequence: Sequence) -> Self {
        Self::new(key, sequence, ValueType::Deletion, "")
    }

    pub(super) fn internal_key(&self) -> Vec<u8> {
        internal_key(&self.key, pack_trailer(self.sequence, self.kind as u8))
    }
}

/// Builds an internal key from its parts.
pub(super) fn internal_key(user_key: &[u8], trailer: u64) -> Vec<u8> {
    let mut internal_key = Vec::new();
    key::put_internal_key(&mut internal_key, user_key, trailer);
    internal_key
}

/// The contents of a table: internal keys and values, and starts and ends of range tombstones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) records: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) tombstones: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A column family with tables but without a database. Nothing compacts it in the background; the
/// tests run each compaction.
pub(super) struct Scene {
    pub(super) directory: PathBuf,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) options: ColumnFamilyOptions,
    pub(super) database: DbOptions,
    pub(super) io_modes: Arc<IoModes>,
    pub(super) open_budget: Arc<OpenBudget>,
    pub(super) readers: Arc<FamilyReaders>,
    pub(super) version: Arc<Version>,
    pub(super) numbers: FileNumbers,
    pub(super) snapshots: Vec<Sequence>,
    pub(super) filter: Option<CompactionFilter>,
    pub(super) cancelled: Arc<AtomicBool>,
    pub(super) low_priority: Option<Arc<LowPriority>>,
    pub(super) parts: usize,
    pub(super) max_output_file_bytes: u64,
    pub(super) max_overlap_bytes: u64,
    /// The temporary directory of the tables, if the scene has created one. Dropping the scene
    /// removes it.
    _own: Option<TempDir>,
}

impl Scene {
    /// Creates a scene without tables, in a temporary directory.
    pub(super) fn new(options: &str) -> Self {
        let mut open = OpenOptions::with_storage(Arc::new(PosixStorage::new()));
        open.set_from_string(options).unwrap();
        Self::opened(&open)
    }

    /// Creates a scene without tables, in a temporary directory. `open` holds the options of the
    /// scene.
    pub(super) fn opened(open: &OpenOptions) -> Self {
        let own = tempfile::tempdir().unwrap();
        let mut scene =
            Self::of(own.path().to_owned(), open, Arc::new(Version::with_levels(LEVELS)));
        scene._own = Some(own);
        scene
    }

    /// Creates a scene without tables, in storage that can inject faults.
    pub(super) fn simulated(options: &str, storage: &SimStorage) -> Self {
        let directory = PathBuf::from("/database");
        storage.create_directory(&directory).unwrap();
        let mut open = OpenOptions::with_storage(Arc::new(storage.clone()));
        open.set_from_string(options).unwrap();
        Self::of(directory, &open, Arc::new(Version::with_levels(LEVELS)))
    }

    /// Creates a scene from the tables of a version in a directory.
    pub(super) fn of(directory: PathBuf, open: &OpenOptions, version: Arc<Version>) -> Self {
        let open = open.sanitized(&directory, false);
        let io_modes = Arc::new(IoModes::new(open.database()));
        let factory = ReaderFactory::new(&directory, &open, Arc::clone(&io_modes));
        let comparator = Comparator::Bytewise;
        Self {
            readers: Arc::new(factory.readers(&open, "default", &comparator)),
            storage: Arc::clone(open.storage()),
            options: open.column_family("default").clone(),
            database: open.database().clone(),
            io_modes,
            open_budget: Arc::clone(&factory.open_files.compactions),
            directory,
            version,
            numbers: FileNumbers::starting_at(1000),
            snapshots: Vec::new(),
            filter: None,
            cancelled: Arc::default(),
            low_priority: None,
            parts: 1,
            max_output_file_bytes: 1 << 20,
            max_overlap_bytes: u64::MAX,
            _own: None,
        }
    }

    fn format(&self) -> Arc<Format> {
        let context = self.readers.tables.context();
        let comparator = context.comparator.clone();
        Arc::new(Format::new(&self.options, comparator, context.prefix_extractor.clone(), None))
    }

    fn origin(number: u64) -> Origin {
        Origin {
            file_number: number,
            db_id: "8b6c7c3a-2f4e-4a0e-9d7e-5f3b1c2d4e6f".to_owned(),
            session_id: table::unique_id::encode_session_id(1, 2),
            column_family_id: Some(0),
            column_family_name: "default".to_owned(),
            oldest_ancestor_time_s: 1000 + number,
            creation_time_s: 2000 + number,
            newest_key_time_s: 3000 + number,
            ..Origin::default()
        }
    }

    /// Adds a table of these records to a level. Range tombstones are truncated to `bounds`, two
    /// internal keys.
    pub(super) fn add_table(
        &mut self,
        level: usize,
        records: &[Record],
        bounds: Option<(&[u8], &[u8])>,
    ) -> u64 {
        let number = self.numbers.take();
        let path = self.directory.join(format!("{number:06}.sst"));
        let buffers = BufferPool::new(1 << 22);
        let files = NewFiles {
            storage: &*self.storage,
            database: &self.database,
            io_modes: &self.io_modes,
            buffers: &buffers,
            workers: None,
            rate_limiter: None,
        };
        let priority = tailwater_io::pace::Priority::High;
        let writer = files.create(&path, Purpose::FlushWrite, priority, 0, None).unwrap();
        let compression = TableCompression::for_flush(&self.options);
        let origin = Self::origin(number);
        let mut builder = Builder::new(self.format(), &compression, origin, &path, writer).unwrap();
        let mut sorted: Vec<_> = records.iter().map(|it| (it.internal_key(), it)).collect();
        sorted.sort_by(|(a, _), (b, _)| key::compare_internal(&Comparator::Bytewise, a, b));
        for (key, record) in sorted {
            match (record.kind, bounds) {
                (ValueType::RangeDeletion, None) => {
                    builder.add_range_tombstone(&key, &record.value).unwrap();
                }
                (ValueType::RangeDeletion, Some((smallest, largest))) => {
                    let end = internal_key(&record.value, u64::MAX >> 8 << 8 | 0xF);
                    let compare =
                        |a: &[u8], b: &[u8]| key::compare_internal(&Comparator::Bytewise, a, b);
                    let from = if compare(&key, smallest).is_lt() { smallest } else { &key };
                    let to = if compare(&end, largest).is_gt() { largest } else { &end };
                    builder.add_range_tombstone_within(&key, &record.value, from, to).unwrap();
                }
                _ => builder.add(&key, &record.value).unwrap(),
            }
        }
        let (finished, mut writer) = builder.finish().unwrap();
        writer.sync().unwrap();
        writer.close().unwrap();
        let file = NewFile { epoch_number: number, ..finished.new_file(level as u32) };
        self.apply(VersionEdit { new_files: vec![file], ..VersionEdit::default() });
        number
    }

    fn apply(&mut self, edit: VersionEdit) {
        let mut builder = VersionBuilder::from_version(&self.version, &[]);
        builder.apply(&edit).unwrap();
        self.version = Arc::new(builder.finish(&Comparator::Bytewise, LEVELS).unwrap());
    }

    /// Returns the tables of a level.
    pub(super) fn files(&self, level: usize) -> Vec<Arc<FileMetadata>> {
        self.version.levels()[level].files().to_vec()
    }

    /// Creates a compaction of these inputs into a level.
    pub(super) fn compaction(&self, inputs: Vec<InputLevel>, output_level: usize) -> Compaction {
        let files = || inputs.iter().flat_map(|input| &input.files);
        let smallest = files().map(|file| file.smallest_user_key()).min().unwrap().to_vec();
        let largest = files().map(|file| file.largest_user_key()).max().unwrap().to_vec();
        let overlapping = |level: usize| {
            let files = self.version.levels().get(level).map_or(&[][..], |level| level.files());
            let overlaps = |file: &&Arc<FileMetadata>| {
                file.smallest_user_key() <= &largest[..] && file.largest_user_key() >= &smallest[..]
            };
            files.iter().filter(overlaps).cloned().collect::<Vec<_>>()
        };
        let is_bottommost = (output_level + 1..LEVELS).all(|level| overlapping(level).is_empty());
        Compaction {
            grandparents: overlapping(output_level + 1),
            inputs,
            output_level,
            reason: Reason::ManualCompaction,
            kind: CompactionKind::Merge,
            is_bottommost,
            max_output_file_bytes: self.max_output_file_bytes,
            max_overlap_bytes: self.max_overlap_bytes,
            max_subcompactions: self.parts,
        }
    }

    /// Creates a compaction of all tables of these levels into the last of them.
    pub(super) fn levels(&self, levels: &[usize]) -> Compaction {
        let inputs = levels.iter().map(|&level| InputLevel { level, files: self.files(level) });
        self.compaction(inputs.collect(), *levels.last().unwrap())
    }

    /// Creates the job that runs a compaction.
    pub(super) fn job(&self, compaction: Compaction) -> Job {
        let compression = TableCompression::for_level(
            &self.options,
            compaction.output_level,
            1,
            compaction.is_bottommost,
        );
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Job {
            compaction,
            version: Arc::clone(&self.version),
            environment: Environment {
                opening: OpeningId::new(),
                storage: Arc::clone(&self.storage),
                files: Arc::new(TrackedFiles::new(Arc::clone(&self.storage))),
                io_modes: Arc::clone(&self.io_modes),
                options: self.options.clone(),
                database: self.database.clone(),
                snapshots: self.snapshots.clone(),
                filter: self.filter.clone(),
                clock,
                pressure: Arc::default(),
                cancelled: vec![Arc::clone(&self.cancelled)],
                low_priority: self.low_priority.clone(),
            },
            reading: InputSettings {
                readers: Arc::new(self.readers.for_compaction(&self.open_budget)),
                open_budget: Arc::clone(&self.open_budget),
                workers: None,
            },
            writing: OutputSettings {
                directory: self.directory.clone(),
                path_id: 0,
                numbers: self.numbers.clone(),
                format: self.format(),
                compression,
                origin: Self::origin(0),
                rate_limiter: None,
                buffers: BufferPool::new(64 << 20),
                workers: None,
            },
        }
    }

    /// Runs a compaction and replaces its inputs with its outputs.
    pub(super) fn compact(&mut self, compaction: Compaction) -> Result<Outcome> {
        let deleted_files = compaction
            .inputs
            .iter()
            .flat_map(|input| input.files.iter().map(|file| (input.level, file.number())))
            .map(|(level, number)| DeletedFile { level: level as u32, number })
            .collect();
        let outcome = self.job(compaction).run()?;
        self.apply(VersionEdit {
            deleted_files,
            new_files: outcome.outputs.clone(),
            ..VersionEdit::default()
        });
        Ok(outcome)
    }

    fn super_version(&self) -> Arc<SuperVersion> {
        let (version, readers) = (Arc::clone(&self.version), Arc::clone(&self.readers));
        let settings = Arc::new(FamilySettings::new(self.options.clone(), readers));
        Arc::new(SuperVersion::new(1, Vec::new(), version, settings))
    }

    /// Returns the value of a key at a sequence number.
    pub(super) fn get(&self, key: &[u8], at: Sequence) -> Option<Vec<u8>> {
        let current = FullEpochCell::in_bin(Bin::default(), self.super_version());
        let mut value = Vec::new();
        let found = read::get(&current, key, || at, &PROFILE, &mut value, None, None).unwrap();
        found.then_some(value)
    }

    /// Returns all keys and values at a sequence number, read by a forward or backward iterator.
    pub(super) fn iterate(&self, at: Sequence, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let options = ReadOptions::default();
        let mut iterator =
            DbIterator::over(self.super_version(), at, &options, &PROFILE, None).unwrap();
        let mut found = Vec::new();
        if forward { iterator.seek_to_first() } else { iterator.seek_to_last() }.unwrap();
        while iterator.valid() {
            found.push((iterator.key().to_vec(), iterator.value().to_vec()));
            if forward { iterator.next() } else { iterator.prev() }.unwrap();
        }
        if !forward {
            found.reverse();
        }
        found
    }

    /// Returns the contents of a table.
    pub(super) fn contents(&self, file: &FileMetadata) -> Contents {
        let table = Arc::new(self.readers.tables.open_uncached(file, Purpose::UserRead).unwrap());
        let mut contents = Contents::default();
        table
            .for_each_range_tombstone(|start, end| {
                contents.tombstones.push((start.to_vec(), end.to_vec()));
                Ok(())
            })
            .unwrap();
        let mut iterator = crate::table::TableIterator::new(table, PROFILE, &ReadPlan::growing());
        iterator.seek_to_first().unwrap();
        while iterator.valid() {
            contents.records.push((iterator.key().to_vec(), iterator.value().to_vec()));
            iterator.next().unwrap();
        }
        contents
    }

    /// Returns the contents of the tables of a level, in order.
    pub(super) fn level_contents(&self, level: usize) -> Contents {
        let mut all = Contents::default();
        for file in self.files(level) {
            let Contents { records, tombstones } = self.contents(&file);
            all.records.extend(records);
            all.tombstones.extend(tombstones);
        }
        all
    }

    /// Returns the number of files in the scene's directory.
    pub(super) fn file_count(&self) -> usize {
        self.storage.list(&self.directory).unwrap().len()
    }
}

/// How the tests read tables.
const PROFILE: ReadProfile = ReadProfile::new(Purpose::UserRead, false);

/// Formats records and range tombstones, separated by spaces: `key@sequence`, a mark for the kind
/// (none for a value), and the value.
pub(super) fn text(contents: &Contents) -> String {
    let show = |(internal_key, value): &(Vec<u8>, Vec<u8>)| {
        let (user_key, trailer) = key::split(internal_key).unwrap();
        let kind = match ValueType::from_byte(trailer as u8).unwrap() {
            ValueType::Value => "",
            ValueType::Deletion => "-",
            ValueType::SingleDeletion => "--",
            ValueType::Merge => "+",
            ValueType::RangeDeletion => "..",
            ValueType::BlobIndex => "blob",
            ValueType::WideColumnEntity => "entity",
            ValueType::ValuePreferredSequence => "timed",
            ValueType::DeletionWithTimestamp => "timestamp",
            _ => "other",
        };
        format!("{}@{}{kind}{}", user_key.escape_ascii(), trailer >> 8, value.escape_ascii())
    };
    let all = contents.records.iter().chain(&contents.tombstones);
    all.map(show).collect::<Vec<_>>().join(" ")
}

/// Checks the signature of `Job::run` at compile time.
const _: fn(job::Job) -> Result<Outcome> = job::Job::run;
