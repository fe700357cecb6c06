//! Logs that are written with direct I/O. Tailwater pads the log after each write group, up to the
//! next multiple of the alignment. RocksDB must read past padding of every length, at every aligned
//! position in a log block.

use std::collections::BTreeSet;

use crate::laboratory::{self, CREATE, in_laboratory};
use crate::logs::{MODES_OF_RECYCLED, logs, look};
use crate::model::Model;
use crate::place::Place;
use crate::shape::{Shape, join};
use crate::shapes::RECOVERY_MODES;
use crate::step::{Durability, Record, Step, Write};
use tailwater::inspect::wal::{LogItem, LogReader};
use tailwater::{Db, WriteBatch, WriteOptions};
use tailwater_format::record_log::{BLOCK_LENGTH, HEADER_LENGTH, RECYCLABLE_HEADER_LENGTH, Writer};
use tailwater_io::posix::PosixStorage;
use tailwater_testkit::filesystem::say;

/// Alignment to which write groups are padded, in bytes.
const ALIGNMENT: usize = 4096;
/// Number of aligned positions in a log block. Each write group, with its padding, ends at one of
/// these positions.
const PLACES: usize = BLOCK_LENGTH / ALIGNMENT;
/// Gaps of fewer bytes than this are short. A short gap may be too small for a padding record.
const SHORT: usize = 40;
/// Length of a value, in bytes. A write group with one such value ends, with its padding, at the
/// first aligned position after its beginning. A group with a longer value has the same overhead in
/// the log: its length takes two bytes, as `ONE_PLACE` does, even in a zstd frame.
const ONE_PLACE: usize = 1000;

/// Where a batch ends in a log. The first number identifies the first aligned position at or after
/// this end, by its index in the log block. The second number is the gap: the number of bytes from
/// the end of the batch to that position.
type End = (usize, usize);

/// The gaps that have not occurred yet. A gap is the space between the end of a write group and the
/// next aligned position.
struct Missing {
    /// The gaps of fewer than [`SHORT`] bytes, each with the index of the aligned position that
    /// follows it. Every short gap must occur before every aligned position.
    short: BTreeSet<End>,
    /// The lengths of the gaps of at least [`SHORT`] bytes. Each length must occur at least once,
    /// before any aligned position.
    long: BTreeSet<usize>,
}

/// Writes groups of one batch each to the database. Writes the same log to memory, too, to learn
/// where each group ends in the log. That depends on how well the batch compresses, so it is not
/// known in advance.
struct Groups<'a> {
    db: &'a Db,
    model: &'a mut Model,
    random: &'a mut fastrand::Rng,
    beside: Writer,
    bytes: Vec<u8>,
    ends: Vec<End>,
    missing: Missing,
}

impl Missing {
    fn everything() -> Self {
        let short = (0..PLACES).flat_map(|place| (0..SHORT).map(move |gap| (place, gap)));
        Self { short: short.collect(), long: (SHORT..ALIGNMENT).collect() }
    }

    /// Returns the length of a gap that must still occur. The gap may end at the aligned position
    /// with the index `place`.
    fn at(&self, place: usize) -> Option<usize> {
        let short = self.short.range((place, 0)..(place + 1, 0)).next();
        short.map(|&(_, gap)| gap).or_else(|| self.long.first().copied())
    }

    fn remove(&mut self, end: End) {
        self.short.remove(&end);
        self.long.remove(&end.1);
    }

    fn is_empty(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }
}

impl Groups<'_> {
    /// Writes groups until no gap is left in `missing`. `header` is the length of a log record's
    /// header, in bytes.
    fn write_all(&mut self, header: usize) {
        // The length of a one-put group in the log, minus the length of the put's value.
        let rest = self.write(ONE_PLACE) - ONE_PLACE;
        for _ in 0..2 * ALIGNMENT {
            let begin = self.beside.offset() as usize / ALIGNMENT % PLACES;
            let Some(gap) = self.missing.at((begin + 2) % PLACES) else {
                if self.missing.is_empty() {
                    return;
                }
                self.write(ONE_PLACE);
                continue;
            };
            // A group that crosses the end of a log block is split into two records, so it has one
            // more header.
            let more = if begin == PLACES - 1 { header } else { 0 };
            self.write(2 * ALIGNMENT - gap - rest - more);
        }
        let Missing { short, long } = &self.missing;
        panic!("gaps that were not seen: {long:?}; places and gaps: {short:?}");
    }

    /// Writes a group that puts a new key with an incompressible value of `length` bytes. Returns
    /// the length of the group in the log, in bytes, without its padding.
    fn write(&mut self, length: usize) -> usize {
        let key = format!("group{:06}", self.ends.len()).into_bytes();
        let mut value = vec![0; length];
        self.random.fill(&mut value);
        let family = self.db.cf_handle("default").expect("a column family");
        let mut batch = WriteBatch::new();
        batch.put_cf(family.id(), &key, &value).expect("a put");
        self.db.write_opt(&mut batch, &WriteOptions::default()).expect("a group");
        let write = Write { family: "default".to_owned(), record: Record::Put(key, value) };
        self.model.apply(&Step::Write(vec![write], Durability::Logged));
        let begin = self.beside.offset() as usize;
        self.beside.add_record(batch.data(), &mut self.bytes).expect("a record");
        let end = self.beside.offset() as usize;
        self.beside.pad(&mut self.bytes);
        self.bytes.clear();
        self.ends.push(place_of(end));
        self.missing.remove(place_of(end));
        end - begin
    }
}

/// Returns where a batch ends, as an [`End`]. `end` is the offset of this end in the log.
fn place_of(end: usize) -> End {
    let boundary = end.next_multiple_of(ALIGNMENT);
    (boundary / ALIGNMENT % PLACES, boundary - end)
}

/// Returns where each batch of the newest log ends.
fn ends(place: &Place) -> Vec<End> {
    let log = logs(place).pop().expect("a log");
    let mut reader = LogReader::open(&PosixStorage::new(), &log).expect("a log");
    let mut ends = Vec::new();
    while let Some(item) = reader.next_item().expect("a log that can be read") {
        if let LogItem::Batch(batch) = item {
            ends.push(place_of((batch.placement.offset + batch.placement.length) as usize));
        }
    }
    ends
}

#[test]
fn rocksdb_reads_past_the_padding_of_every_gap() {
    in_laboratory("direct logs with every gap", |laboratory| {
        for (is_recyclable, is_compressed) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let recycle = if is_recyclable { "recycle_log_file_num=1" } else { "" };
            let compress = if is_compressed { "wal_compression=kZSTD" } else { "" };
            let more = join(&[recycle, compress]);
            let mut shape = Shape::new(&more, "write_buffer_size=1000000000");
            // The memtable and the preallocation are so large that all groups are in one log.
            shape.ours = "wal_io_mode=direct;wal_preallocation_block_size=100000000".to_owned();
            let context = format!("{}, '{more}'", laboratory.context);
            let place = laboratory.next_place();
            let mut model = shape.model();
            if let Err(error) =
                Db::open(place.database(), &shape.open_options(&place, &model, CREATE))
            {
                return say(&format!("LEFT OUT: direct logs with every gap: {error}"));
            }
            let place = laboratory.next_place();
            let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
            let mut bytes = Vec::new();
            let beside = if is_compressed {
                Writer::new_compressed(0, is_recyclable, &mut bytes).expect("a log")
            } else {
                Writer::new(0, is_recyclable)
            };
            let mut groups = Groups {
                db: &db,
                model: &mut model,
                random: &mut laboratory.rng,
                beside,
                bytes,
                ends: Vec::new(),
                missing: Missing::everything(),
            };
            let header = if is_recyclable { RECYCLABLE_HEADER_LENGTH } else { HEADER_LENGTH };
            groups.write_all(header);
            let expected = groups.ends;
            assert!(ends(&place) == expected, "{context}: a group ends where it was not to end");
            let modes: &[&str] = if is_recyclable { &MODES_OF_RECYCLED } else { &RECOVERY_MODES };
            for mode in modes {
                look(laboratory, &shape, &place, &model, mode, &context);
            }
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        }
    });
}
