//! Tests that acknowledged writes are never lost without a report if one bit of a log or MANIFEST
//! is flipped, or one sector of a log is zeroed.
//!
//! In small logs of every kind, the test flips every bit, one at a time. In longer logs it flips
//! only the bits of all record headers and of some bytes spread over the log. After each flip, the
//! test opens the database in a random recovery mode, or in as many modes as `TAILWATER_ROUNDS`, up
//! to all four. Either every acknowledged write exists, or the mode refuses to open the database,
//! or the database reports what was left out. Some of the damaged databases are also opened for
//! writing. A log with damage that no crash explains must then be kept in the folder `lost`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater::inspect::wal::{LogItem, LogReader};
use tailwater::{Db, ErrorKind, OpenOptions, ReadOptions, WriteOptions};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};
use tailwater_testkit::seed;

use crate::database::DIRECTORY;

const MODES: [&str; 4] = [
    "kTolerateCorruptedTailRecords",
    "kAbsoluteConsistency",
    "kPointInTimeRecovery",
    "kSkipAnyCorruptedRecords",
];

/// Number of acknowledged writes in the log.
const WRITES: usize = 9;

/// At each offset at which a record header may begin, the test damages this many bytes. It flips
/// each bit of these bytes separately.
const AROUND_HEADER: u64 = 12;
/// In a log of at most this many bytes, the test damages every byte. It flips each bit separately.
const SMALL: u64 = 600;
/// In a log of more than [`SMALL`] bytes, the test damages this many evenly spread bytes per round,
/// and the bytes at the record headers.
const SPREAD: u64 = 60;

/// Size of the unit that a device writes atomically, in bytes.
const SECTOR: u64 = 512;

/// The files that a database left when its process was killed.
struct Killed {
    text: String,
    disk: SimStorage,
    /// The keys of the acknowledged writes.
    keys: Vec<String>,
    /// The file to damage: the log that holds the keys, or the MANIFEST.
    file: PathBuf,
    /// Whether the log was written into the file of an older log. The strict recovery mode may then
    /// refuse even the intact log, since the remains of the older log look like damage.
    is_recycled: bool,
}

/// One flipped bit of a log.
struct Flip<'a> {
    killed: &'a Killed,
    offset: u64,
    bit: u32,
    mode: &'a str,
}

impl fmt::Display for Flip<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { killed, offset, bit, mode } = self;
        write!(f, "'{}', bit {bit} of byte {offset}, {mode}", killed.text)
    }
}

fn options(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_clock(disk.clock());
    options.set_inline_background(true);
    options.set_from_string("create_if_missing=true").expect("options");
    options.set_from_string(text).expect("options");
    options
}

fn logs(disk: &SimStorage) -> Vec<PathBuf> {
    let entries = disk.list(Path::new(DIRECTORY)).expect("a directory");
    let names = entries.into_iter().map(|entry| entry.name);
    let mut logs: Vec<_> = names.filter(|name| name.ends_with(".log")).collect();
    logs.sort();
    logs.iter().map(|name| Path::new(DIRECTORY).join(name)).collect()
}

/// Returns the offsets in a log file at which records begin and end, and at which the reader
/// reports an irregularity, such as the remains of an older log.
fn landmarks(disk: &SimStorage, log: &Path) -> Vec<u64> {
    let mut reader = LogReader::open(disk, log).expect("a log");
    let mut landmarks = vec![0];
    while let Some(item) = reader.next_item().expect("a log that can be read") {
        match item {
            LogItem::Batch(batch) => {
                let end = batch.placement.offset + batch.placement.length;
                landmarks.extend([batch.placement.offset, end]);
            }
            LogItem::Predecessor { offset, .. } => landmarks.push(offset),
            LogItem::Irregularity(it) => landmarks.push(it.offset.saturating_sub(7)),
            LogItem::TimestampSizes { .. } => {}
            item => panic!("{item:?}"),
        }
    }
    landmarks
}

impl Killed {
    /// Creates a database with [`WRITES`] acknowledged writes, whose values have `length` bytes.
    /// Keeps the files as they are when the process is killed while the database is open.
    fn new(text: &str, length: usize) -> Self {
        let disk = SimStorage::new(1);
        let db = Db::open(DIRECTORY, &options(&disk, text)).expect("a database");
        let family = db.cf_handle("default").expect("the default column family");
        let synced = WriteOptions::new().with_sync(true);
        let is_recycled = text.contains("recycle_log_file_num");
        if is_recycled {
            // The old records have other lengths than the new ones, so that the new log ends inside
            // an old record.
            for round in 0..3 {
                for key in 0..WRITES + 7 {
                    let key = format!("{round}{key}");
                    let value = vec![b'a' + round; 2 * length + 13];
                    db.put_cf_opt(&family, key.as_bytes(), &value, &synced).expect("a put");
                }
                db.flush_all().expect("a flush");
            }
        }
        let keys: Vec<String> = (0..WRITES).map(|key| format!("key{key:02}")).collect();
        for key in &keys {
            let value: Vec<u8> = key.bytes().cycle().take(length).collect();
            db.put_cf_opt(&family, key.as_bytes(), &value, &synced).expect("a put");
        }
        let disk = disk.process_crash_image(1);
        let file = logs(&disk).pop().expect("a log");
        Self { text: text.to_owned(), file, disk, keys, is_recycled }
    }

    fn flip_every_bit(&self) {
        let length = self.disk.metadata(&self.file).expect("a log").length;
        let landmarks = landmarks(&self.disk, &self.file);
        assert!(landmarks.len() > 2 * WRITES, "'{}': the log is another", self.text);
        let is_near =
            |offset: u64| landmarks.iter().any(|&at| (at..at + AROUND_HEADER).contains(&offset));
        let step =
            if length <= SMALL { 1 } else { length.div_ceil(SPREAD * seed::rounds() as u64) };
        let offsets = (0..length).filter(|&offset| offset % step == 0 || is_near(offset));
        let mut seed = seed::rng();
        eprintln!("TAILWATER_SEED={}", seed.value());
        for (index, offset) in offsets.enumerate() {
            for bit in 0..8 {
                let damaged = self.flipped(offset, bit);
                let first = seed.rng.usize(..MODES.len());
                for mode in MODES.iter().cycle().skip(first).take(seed::rounds().min(MODES.len())) {
                    let flip = Flip { killed: self, offset, bit, mode };
                    flip.check_reading(&damaged);
                    if (index + bit as usize).is_multiple_of(32) {
                        flip.check_writing(&damaged);
                    }
                }
            }
        }
    }

    fn flipped(&self, offset: u64, bit: u32) -> SimStorage {
        let file = self.disk.open(&self.file, IoMode::Buffered, Purpose::Wal).expect("a file");
        let mut byte = [0];
        file.read_full_at(&mut byte, offset, Purpose::Wal).expect("a byte of it");
        self.damaged(&[byte[0] ^ (1 << bit)], offset)
    }

    /// Returns a copy of the disk in which the file to damage has these bytes at this offset.
    fn damaged(&self, bytes: &[u8], offset: u64) -> SimStorage {
        let disk = self.disk.process_crash_image(1);
        let file = disk.create(&self.file, Create::Existing, IoMode::Buffered, Purpose::Wal);
        file.expect("a file").write_all_at(bytes, offset, Purpose::Wal).expect("damage");
        disk
    }

    /// Zeroes each sector before the one in which the log's last record begins, one at a time. If a
    /// later sector were zeroed, the log would look as if a crash had cut off its end.
    fn zero_every_sector(&self) {
        let landmarks = landmarks(&self.disk, &self.file);
        let last = landmarks[landmarks.len() - 2];
        for offset in (0..last / SECTOR * SECTOR).step_by(SECTOR as usize) {
            let damaged = self.damaged(&[0; SECTOR as usize], offset);
            for mode in MODES {
                Flip { killed: self, offset, bit: 0, mode }.check_reading(&damaged);
            }
        }
    }

    /// Flips every bit of the MANIFEST. The recovery modes do not apply to a MANIFEST, so one mode
    /// suffices.
    fn flip_every_bit_of_manifest(mut self) {
        let entries = self.disk.list(Path::new(DIRECTORY)).expect("a directory");
        let name = entries.into_iter().find(|entry| entry.name.starts_with("MANIFEST"));
        self.file = Path::new(DIRECTORY).join(name.expect("a MANIFEST").name);
        for offset in 0..self.disk.metadata(&self.file).expect("a MANIFEST").length {
            for bit in 0..8 {
                let mode = "kPointInTimeRecovery";
                let flip = Flip { killed: &self, offset, bit, mode };
                match Db::open_read_only(DIRECTORY, &flip.options(&self.flipped(offset, bit))) {
                    Ok(db) => {
                        let is_reported = !db.left_out().is_empty();
                        assert!(
                            is_reported || self.shown(&db) == WRITES,
                            "{flip}: lost in silence"
                        );
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{flip}: {error}")
                    }
                }
            }
        }
    }

    /// Returns how many of the acknowledged writes the database contains.
    fn shown(&self, db: &Db) -> usize {
        let family = db.cf_handle("default").expect("the default column family");
        let is_there = |key: &&String| {
            let read = db.get_cf_opt(&family, key.as_bytes(), &ReadOptions::default());
            read.expect("a read").is_some()
        };
        self.keys.iter().filter(is_there).count()
    }
}

impl Flip<'_> {
    fn options(&self, disk: &SimStorage) -> OpenOptions {
        options(disk, &format!("wal_recovery_mode={};{}", self.mode, self.killed.text))
    }

    fn check_reading(&self, damaged: &SimStorage) {
        match Db::open_read_only(DIRECTORY, &self.options(damaged)) {
            Ok(db) => {
                let is_all = self.killed.shown(&db) == WRITES;
                assert!(is_all || !db.left_out().is_empty(), "{self}: writes are lost in silence");
            }
            Err(error) => self.check_refusal(&error),
        }
    }

    fn check_refusal(&self, error: &tailwater::Error) {
        assert_eq!(error.kind(), ErrorKind::Corruption, "{self}: {error}");
        assert!(error.path().is_some_and(|path| path == self.killed.file), "{self}: {error}");
        // A flipped bit may make a compressed log look uncompressed. Its records then do not decode
        // as batches, so even the mode that skips corrupted records may refuse the log.
        let may_skip = !self.killed.text.contains("wal_compression");
        let opens_always = self.mode == "kPointInTimeRecovery"
            || self.mode == "kSkipAnyCorruptedRecords" && may_skip;
        assert!(!opens_always, "{self}: {error}");
    }

    /// Opens the database for writing, and performs the checks of `check_reading`. The opening
    /// removes the logs that were recovered, so this also checks that a damaged log was kept.
    fn check_writing(&self, damaged: &SimStorage) {
        let disk = damaged.process_crash_image(2);
        let db = match Db::open(DIRECTORY, &self.options(&disk)) {
            Ok(db) => db,
            Err(error) => return self.check_refusal(&error),
        };
        let is_all = self.killed.shown(&db) == WRITES;
        assert!(is_all || !db.left_out().is_empty(), "{self}: writes are lost in silence");
        if db.left_out().iter().any(|left_out| !left_out.torn_tail) {
            let name = self.killed.file.file_name().expect("a name");
            let kept = Path::new(DIRECTORY).join("lost").join(name);
            assert!(disk.metadata(&kept).is_ok(), "{self}: the log is not kept");
        }
    }
}

#[test]
fn bits_of_plain_logs() {
    Killed::new("", 10).flip_every_bit();
}

#[test]
fn bits_of_compressed_logs() {
    Killed::new("wal_compression=kZSTD", 30).flip_every_bit();
}

#[test]
fn bits_of_logs_that_name_their_predecessor() {
    Killed::new("track_and_verify_wals=true", 10).flip_every_bit();
}

#[test]
fn bits_of_recycled_logs() {
    for more in ["", ";wal_compression=kZSTD", ";track_and_verify_wals=true"] {
        Killed::new(&format!("recycle_log_file_num=1{more}"), 10).flip_every_bit();
    }
}

#[test]
fn bits_of_logs_in_several_blocks() {
    for more in ["", "recycle_log_file_num=1", "wal_compression=kZSTD"] {
        Killed::new(more, 8000).flip_every_bit();
    }
}

#[test]
fn bits_of_direct_logs() {
    let direct = "wal_io_mode=direct;wal_preallocation_block_size=131072";
    for more in ["", ";wal_compression=kZSTD", ";recycle_log_file_num=1"] {
        Killed::new(&format!("{direct}{more}"), 10).flip_every_bit();
    }
}

#[test]
fn bits_of_manifests() {
    Killed::new("write_buffer_size=65536;arena_block_size=4096", 30_000)
        .flip_every_bit_of_manifest();
}

#[test]
fn sectors_of_zeros_in_logs() {
    for more in ["", "wal_compression=kZSTD", "recycle_log_file_num=1", "wal_io_mode=direct"] {
        Killed::new(more, 700).zero_every_sector();
    }
}

#[test]
fn an_undamaged_log_is_recovered_completely() {
    let kinds =
        ["", "wal_compression=kZSTD", "recycle_log_file_num=1", "track_and_verify_wals=true"];
    for text in kinds {
        let killed = Killed::new(text, 10);
        for mode in MODES {
            let text = format!("wal_recovery_mode={mode};{text}");
            match Db::open_read_only(DIRECTORY, &options(&killed.disk, &text)) {
                Ok(db) => {
                    assert_eq!(db.left_out(), [], "{text}");
                    assert_eq!(killed.shown(&db), WRITES, "{text}");
                }
                Err(error) => {
                    let may_refuse = killed.is_recycled && mode == "kAbsoluteConsistency";
                    assert!(may_refuse, "{text}: {error}");
                }
            }
        }
    }
}
