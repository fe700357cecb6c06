//! Logs that are padded to be written past the page cache: every gap that padding can fill, at
//! every place of a block, as RocksDB reads it.

use std::collections::BTreeSet;

use crate::laboratory::{self, CREATE, in_laboratory};
use crate::logs::{MODES_OF_RECYCLED, logs, look};
use crate::model::Model;
use crate::place::Place;
use crate::shape::Shape;
use crate::shapes::RECOVERY_MODES;
use crate::step::{Durability, Record, Step, Write};
use tailwater::Db;
use tailwater::inspect::wal::{LogItem, LogReader};
use tailwater_format::log::{BLOCK_LENGTH, HEADER_LENGTH, RECYCLABLE_HEADER_LENGTH};
use tailwater_io::posix::PosixStorage;

/// What groups are padded to, in bytes.
const ALIGNMENT: usize = 4096;
/// How many places a block has for the end of a group.
const PLACES: usize = BLOCK_LENGTH / ALIGNMENT;
/// Gaps so short that a record of padding may not fit, and some longer ones.
const SHORT: usize = 40;

/// From so many bytes on, a value's length takes two bytes.
const LENGTH_MIN: usize = 128;

/// Where a group's batch ended: how far from the next boundary, and at which boundary of its block.
type End = (usize, usize);

/// Writes groups of one batch each.
struct Groups<'a> {
    db: &'a Db,
    model: &'a mut Model,
    random: &'a mut fastrand::Rng,
    count: usize,
}

impl Groups<'_> {
    /// Groups that end with every gap, the short ones at every place.
    fn write_all(&mut self, place: &Place) {
        self.write(LENGTH_MIN);
        // What a batch takes besides.
        let rest = ALIGNMENT - ends(place)[0].0 - LENGTH_MIN;
        for _ in 0..100 * PLACES {
            let missing = missing(place);
            if missing.is_empty() {
                return;
            }
            for (gap, _) in missing {
                // A group may begin at any place.
                if self.random.bool() {
                    self.write(1000);
                }
                // One that meets the end of a block takes a header more.
                let headers = [0, HEADER_LENGTH, RECYCLABLE_HEADER_LENGTH];
                let header = headers[self.random.usize(..headers.len())];
                self.write(2 * ALIGNMENT - rest - gap - header);
            }
        }
        panic!("gaps, and where, that were not seen: {:?}", missing(place));
    }

    /// Groups of any length: how long one is when it is compressed cannot be said before.
    fn write_any(&mut self, place: &Place) {
        for _ in 0..3 * ALIGNMENT {
            let length = self.random.usize(..2 * ALIGNMENT);
            self.write(length);
        }
        let gaps: BTreeSet<usize> = ends(place).iter().map(|(gap, _)| *gap).collect();
        let short = (0..SHORT).filter(|gap| gaps.contains(gap)).count();
        let (all, most) = (gaps.len(), ALIGNMENT * 8 / 10);
        assert!(all > most && short > SHORT / 2, "only {all} gaps were seen, {short} short ones");
    }

    /// A group with so many bytes that do not compress, and a key of its own.
    fn write(&mut self, length: usize) {
        let filler: Vec<u8> = (0..length).map(|_| self.random.u8(..)).collect();
        self.count += 1;
        let key = format!("group{:06}", self.count).into_bytes();
        let records = [Record::Put(b"filler".to_vec(), filler), Record::Put(key, Vec::new())];
        let write = |record| Write { family: "default".to_owned(), record };
        let step = Step::Write(records.into_iter().map(write).collect(), Durability::Logged);
        step.perform(self.db).expect("a group");
        self.model.apply(&step);
    }
}

/// What [`Groups`] has not yet ended with: the short gaps at every place, the others anywhere.
fn missing(place: &Place) -> Vec<End> {
    let seen: BTreeSet<End> = ends(place).into_iter().collect();
    let gaps: BTreeSet<usize> = seen.iter().map(|(gap, _)| *gap).collect();
    let short = (0..SHORT).flat_map(|gap| (0..PLACES).map(move |place| (gap, place)));
    let short = short.filter(|end| !seen.contains(end));
    let long = (SHORT..ALIGNMENT).filter(|gap| !gaps.contains(gap));
    short.chain(long.map(|gap| (gap, 0))).collect()
}

/// Where the batches of the newest log end.
fn ends(place: &Place) -> Vec<End> {
    let log = logs(place).pop().expect("a log");
    let mut reader = LogReader::open(&PosixStorage::new(), &log).expect("a log");
    let mut ends = Vec::new();
    while let Some(item) = reader.next_item().expect("a log that can be read") {
        if let LogItem::Batch(batch) = item {
            let end = (batch.placement.offset + batch.placement.length) as usize;
            let boundary = end.next_multiple_of(ALIGNMENT);
            ends.push((boundary - end, boundary / ALIGNMENT % PLACES));
        }
    }
    ends
}

#[test]
fn every_gap_is_padded_so_that_rocksdb_reads_on() {
    in_laboratory("direct logs with every gap", |laboratory| {
        for more in ["", "recycle_log_file_num=1", "wal_compression=kZSTD"] {
            let mut shape = Shape::new(more, "write_buffer_size=1000000000");
            shape.ours = "wal_io_mode=direct;wal_preallocation_block_size=262144".to_owned();
            let context = format!("{}, '{more}'", laboratory.context);
            let place = laboratory.next_place();
            let mut model = shape.model();
            if let Err(error) =
                Db::open(&place.database(), &shape.open_options(&place, &model, CREATE))
            {
                println!("skipped: {error}");
                return;
            }
            let place = laboratory.next_place();
            let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
            let random = &mut laboratory.rng;
            let mut groups = Groups { db: &db, model: &mut model, random, count: 0 };
            if more.contains("compression") {
                groups.write_any(&place);
            } else {
                groups.write_all(&place);
            }
            let modes: &[&str] =
                if more.contains("recycle") { &MODES_OF_RECYCLED } else { &RECOVERY_MODES };
            for mode in modes {
                look(laboratory, &shape, &place, &model, mode, &context);
            }
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        }
    });
}
