//! A database whose tables the table builder writes. The test writes the MANIFEST and the other
//! files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater::for_tests::Builder;
use tailwater::for_tests::{FinishedTable, Format, Origin, TableCompression};
use tailwater::for_tests::{check_column_family, sanitize_column_family};
use tailwater::options::{self, ColumnFamilyOptions, DbOptions};
use tailwater::{OpenOptions, PrefixExtractor};
use tailwater_format::Comparator;
use tailwater_format::file_name::{self, FileKind};
use tailwater_format::key::{self, MAX_SEQUENCE, ValueType};
use tailwater_format::record_log::Writer;
use tailwater_format::table::unique_id::encode_session_id;
use tailwater_format::version_edit::{NewFile, VersionEdit};
use tailwater_io::buffer::BufferPool;
use tailwater_io::posix::PosixStorage;
use tailwater_io::stream::{SequentialWriter, WriterOptions};
use tailwater_io::{Create, IoMode, Purpose, Storage};
use tailwater_testkit::dump::Entry;

use crate::records::{self, Record};

const DATABASE_ID: &str = "8b6c7c3a-2f4e-4a0e-9d7e-5f3b1c2d4e6f";
const MANIFEST: u64 = 1;

/// A database that is being written, and its expected contents.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) path: PathBuf,
    pub(crate) options: OpenOptions,
    pub(crate) dump: Vec<Entry>,
    pub(crate) tables: usize,
    /// Number of records in all tables.
    pub(crate) records: u64,
    /// The highest sequence number in the tables.
    pub(crate) sequence: u64,
    storage: Arc<dyn Storage>,
    session_id: String,
    next_file: u64,
    families: Vec<(String, String)>,
    edits: Vec<VersionEdit>,
}

/// A range deletion, truncated to the bounds `smallest` and `largest` of a table.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

/// Returns the column family options that `text` describes. Adjusts and checks them as the opening
/// of a database does.
pub(crate) fn family_options(text: &str) -> ColumnFamilyOptions {
    let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
    options::set_from_string(&mut database, &mut family, text)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    sanitize_column_family(&mut family, &database, false);
    check_column_family(&family, &database).unwrap_or_else(|error| panic!("{text}: {error}"));
    family
}

/// Returns the format with which the tables of a column family are written.
pub(crate) fn format(options: &ColumnFamilyOptions, merge_operator: Option<&str>) -> Arc<Format> {
    let name = options.comparator.id().expect("a comparator");
    let comparator = Comparator::built_in(name).expect("a comparator that is built in");
    let extractor = match &options.prefix_extractor {
        options::PrefixExtractor::None => None,
        options::PrefixExtractor::Fixed(length) => Some(PrefixExtractor::Fixed(*length)),
        options::PrefixExtractor::Capped(length) => Some(PrefixExtractor::Capped(*length)),
        options::PrefixExtractor::Noop => Some(PrefixExtractor::Noop),
        other => panic!("'{other:?}' extracts nothing"),
    };
    Arc::new(Format::new(options, comparator, extractor, merge_operator))
}

/// Creates a file, and returns its writer.
pub(crate) fn writer(storage: &dyn Storage, path: &Path) -> SequentialWriter {
    let file = storage
        .create(path, Create::New, IoMode::Buffered, Purpose::FlushWrite)
        .unwrap_or_else(|error| panic!("{error}"));
    let options =
        WriterOptions { buffer_bytes: 16 << 10, ..WriterOptions::new(Purpose::FlushWrite) };
    SequentialWriter::new(file, options, &BufferPool::new(64 << 10), None)
        .unwrap_or_else(|error| panic!("{error}"))
}

impl Database {
    /// Creates the directory of a database with an empty default column family. The database can be
    /// opened after [`Self::finish`].
    #[expect(clippy::disallowed_methods, reason = "a directory for the test's files")]
    pub(crate) fn new(path: PathBuf, session: u64) -> Self {
        std::fs::create_dir(&path).expect("a new directory");
        Self {
            path,
            options: OpenOptions::default(),
            dump: Vec::new(),
            tables: 0,
            records: 0,
            sequence: 0,
            storage: Arc::new(PosixStorage::new()),
            session_id: encode_session_id(session, session.rotate_left(17)),
            next_file: MANIFEST + 1,
            families: Vec::new(),
            edits: Vec::new(),
        }
    }

    /// Returns the name and the option string of each column family except the default one.
    pub(crate) fn families(&self) -> Vec<(&str, &str)> {
        self.families.iter().map(|(name, options)| (name.as_str(), options.as_str())).collect()
    }

    /// Adds a column family with one table in level 0 for each list of records. The oldest table
    /// comes first.
    pub(crate) fn add_family(&mut self, name: &str, text: &str, tables: &[Vec<Record>]) {
        let options = family_options(text);
        let format = format(&options, Some("StringAppendOperator"));
        let comparator = format.comparator().clone();
        let compression = TableCompression::for_flush(&options);
        let files = tables
            .iter()
            .zip(1..)
            .map(|(table, epoch_number)| {
                let finished = self.build(name, &format, &compression, table, &[]);
                check_finished(&finished, table, &comparator);
                NewFile { epoch_number, ..finished.new_file(0) }
            })
            .collect();
        for (key, value) in records::live(&tables.concat(), &comparator) {
            self.dump.push(Entry { family: name.to_owned(), key, value });
        }
        self.put_family(name, text, options, files);
    }

    /// Adds a column family with tables in any levels. Each table has a level, records, and range
    /// deletions that are truncated to the bounds of the table.
    pub(crate) fn add_levels(
        &mut self,
        name: &str,
        text: &str,
        tables: &[(u32, Vec<Record>, Vec<Cut>)],
    ) {
        let options = family_options(text);
        let format = format(&options, None);
        let compression = TableCompression::for_flush(&options);
        let files = tables
            .iter()
            .map(|(level, records, cuts)| {
                let finished = self.build(name, &format, &compression, records, cuts);
                NewFile { epoch_number: 1, ..finished.new_file(*level) }
            })
            .collect();
        self.put_family(name, text, options, files);
    }

    fn put_family(
        &mut self,
        name: &str,
        text: &str,
        options: ColumnFamilyOptions,
        files: Vec<NewFile>,
    ) {
        self.families.push((name.to_owned(), text.to_owned()));
        let column_family = self.families.len() as u32;
        self.edits.push(VersionEdit {
            column_family,
            column_family_add: Some(name.to_owned()),
            comparator: options.comparator.id().map(str::to_owned),
            ..VersionEdit::default()
        });
        self.edits.push(VersionEdit {
            column_family,
            new_files: files,
            log_number: Some(0),
            ..VersionEdit::default()
        });
        self.options.set_column_family(name, options);
    }

    fn origin(&self, family: &str) -> Origin {
        Origin {
            file_number: self.next_file,
            db_id: DATABASE_ID.to_owned(),
            session_id: self.session_id.clone(),
            host_id: "host".to_owned(),
            column_family_id: Some(self.families.len() as u32 + 1),
            column_family_name: family.to_owned(),
            oldest_ancestor_time_s: 1_700_000_000,
            creation_time_s: 1_700_000_100,
            oldest_key_time_s: 1_700_000_000,
            newest_key_time_s: 1_700_000_099,
            external: false,
        }
    }

    fn build(
        &mut self,
        family: &str,
        format: &Arc<Format>,
        compression: &TableCompression,
        records: &[Record],
        cuts: &[Cut],
    ) -> FinishedTable {
        self.next_file += 1;
        self.tables += 1;
        self.records += records.len() as u64;
        let path = self.path.join(FileKind::Table(self.next_file).to_string());
        let (origin, writer) = (self.origin(family), writer(&*self.storage, &path));
        let mut builder = Builder::new(Arc::clone(format), compression, origin, &path, writer)
            .unwrap_or_else(|error| panic!("{error}"));
        for cut in cuts {
            builder
                .add_range_tombstone_within(&cut.start, &cut.end, &cut.smallest, &cut.largest)
                .unwrap_or_else(|error| panic!("{error}"));
        }
        add(&mut builder, records, format.comparator());
        assert_eq!(builder.num_entries() as usize, records.len() + cuts.len());
        let (estimate, least) = (builder.size_estimate(), builder.size());
        let (finished, mut writer) = builder.finish().unwrap_or_else(|error| panic!("{error}"));
        let (size, tail_size) = (finished.size, finished.tail_size);
        assert!(size > least && tail_size <= size);
        assert!(size <= estimate, "{size} bytes, not {estimate}: {:?}", finished.properties);
        writer.sync().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(writer.close().ok(), Some(size));
        finished
    }

    /// Writes the MANIFEST and the other files of the database.
    pub(crate) fn finish(&mut self) {
        let first = VersionEdit {
            database_id: Some(DATABASE_ID.to_owned()),
            comparator: Some(Comparator::Bytewise.name().to_owned()),
            log_number: Some(0),
            next_file_number: Some(self.next_file + 1),
            last_sequence: Some(self.sequence),
            max_column_family: Some(self.families.len() as u32),
            ..VersionEdit::default()
        };
        let (mut log, mut bytes) = (Writer::new(MANIFEST, false), Vec::new());
        for edit in [&first].into_iter().chain(&self.edits) {
            let mut record = Vec::new();
            edit.encode(&mut record).expect("an edit that RocksDB takes");
            log.add_record(&record, &mut bytes).expect("a record");
        }
        self.write(FileKind::Manifest(MANIFEST), &bytes);
        self.write(FileKind::Current, file_name::format_current(MANIFEST).as_bytes());
        self.write(FileKind::Identity, DATABASE_ID.as_bytes());
    }

    #[expect(clippy::disallowed_methods, reason = "small files of a test's database")]
    fn write(&self, kind: FileKind, bytes: &[u8]) {
        std::fs::write(self.path.join(kind.to_string()), bytes).expect("a small file");
    }
}

/// Adds records to a table in key order. Adds the range deletions in the first half of `records`
/// before all other records, and those in the second half among the other records.
pub(crate) fn add(builder: &mut Builder, records: &[Record], comparator: &Comparator) {
    let mut records: Vec<(Vec<u8>, &Record)> =
        records.iter().map(|record| (record.internal_key(), record)).collect();
    let half = records.len() / 2;
    for (key, record) in &records[..half] {
        if record.kind == ValueType::RangeDeletion {
            builder.add_range_tombstone(key, &record.value).expect("a range");
        }
    }
    let rest = records.split_off(half);
    records.retain(|(_, record)| record.kind != ValueType::RangeDeletion);
    records.extend(rest);
    records.sort_by(|(a, _), (b, _)| key::compare_internal(comparator, a, b));
    for (key, record) in &records {
        match record.kind {
            ValueType::RangeDeletion => builder.add_range_tombstone(key, &record.value),
            _ => builder.add(key, &record.value),
        }
        .unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Checks that the bounds and sequence numbers that the table builder reports match the records.
fn check_finished(finished: &FinishedTable, records: &[Record], comparator: &Comparator) {
    let compare = |a: &Vec<u8>, b: &Vec<u8>| key::compare_internal(comparator, a, b);
    let ends = records.iter().map(|record| match record.kind {
        ValueType::RangeDeletion => {
            let (sequence, kind) = (MAX_SEQUENCE, ValueType::RangeDeletion);
            Record { key: record.value.clone(), sequence, kind, value: Vec::new() }.internal_key()
        }
        _ => record.internal_key(),
    });
    assert_eq!(Some(&finished.largest), ends.max_by(compare).as_ref());
    let starts = records.iter().map(Record::internal_key);
    assert_eq!(Some(&finished.smallest), starts.min_by(compare).as_ref());
    let sequences = || records.iter().map(|record| record.sequence);
    assert_eq!(Some(finished.smallest_sequence), sequences().min());
    assert_eq!(Some(finished.largest_sequence), sequences().max());
    assert_eq!(finished.oldest_blob_file_number, None);
    assert_ne!(finished.unique_id, [0; 2]);
}
