//! Random writes of every kind, and followers: readers of the batches in the logs, from a random
//! sequence number on.

use fastrand::Rng;
use tailwater::options::ColumnFamilyOptions;
use tailwater::{Db, WriteBatch, WriteOptions};
use tailwater_io::sim::SimStorage;
use tailwater_testkit::seed;

use crate::history::{Follower, History};
use crate::support::open;

/// Number of random operations on each database.
const STEPS: usize = 400;

/// A database, the history of its batches, and its followers.
struct Scene {
    disk: SimStorage,
    /// The options with which the database is opened each time.
    text: String,
    is_manual: bool,
    db: Db,
    history: History,
    followers: Vec<Follower>,
    created: u32,
    context: String,
}

impl Scene {
    fn new(seed: u64, text: &str) -> Self {
        let disk = SimStorage::new(seed);
        Self {
            db: open(&disk, text),
            disk,
            text: text.to_owned(),
            is_manual: text.contains("manual_wal_flush=true"),
            history: History::default(),
            followers: Vec::new(),
            created: 0,
            context: format!("seed {seed}, {text}"),
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.u8(..100) {
            0..50 => self.write(rng),
            50..58 => {
                let families = self.db.column_families();
                self.db.flush_cf(&families[rng.usize(..families.len())]).expect("a flush");
                self.history.flush();
            }
            58..60 => {
                self.db.flush_all().expect("a flush");
                self.history.flush();
            }
            60..65 => {
                self.db.flush_wal(rng.bool()).expect("a flush of the log");
                self.history.hand_on();
            }
            65..68 => self.change_families(rng),
            68..75 => self.follow(rng),
            75..94 => {
                let count = rng.usize(..40);
                self.advance(rng, count);
            }
            94..98 if !self.followers.is_empty() => {
                let gone = rng.usize(..self.followers.len());
                self.followers.swap_remove(gone);
            }
            98 => self.reopen(rng),
            _ => {}
        }
    }

    fn write(&mut self, rng: &mut Rng) {
        let families = self.db.column_families();
        let mut batch = WriteBatch::new();
        for _ in 0..rng.usize(..6) {
            let id = families[rng.usize(..families.len())].id();
            let key = [rng.u8(..), rng.u8(..)];
            let length = if rng.u8(..40) == 0 { 70_000 } else { rng.usize(..400) };
            let value: Vec<u8> = (0..length).map(|_| rng.u8(..) % 16).collect();
            let added = match rng.u8(..6) {
                0 => batch.delete_cf(id, key),
                1 => batch.delete_range_cf(id, [0], key),
                2 => batch.put_log_data(&value),
                _ => batch.put_cf(id, key, &value),
            };
            added.expect("a record");
        }
        if batch.is_empty() {
            // Batches without operations take no sequence number. This log data distinguishes them.
            batch.put_log_data(self.history.len().to_le_bytes()).expect("log data");
        }
        let sync = rng.u8(..10) == 0;
        let options = WriteOptions::new().with_sync(sync);
        self.db.write_opt(&mut batch, &options).expect("a write");
        self.history.add(batch);
        if sync || !self.is_manual {
            self.history.hand_on();
        }
    }

    fn change_families(&mut self, rng: &mut Rng) {
        let families = self.db.column_families();
        match families.last() {
            Some(last) if families.len() > 3 && rng.bool() => {
                self.db.drop_cf(last).expect("a drop");
                self.history.flush();
            }
            _ => {
                self.created += 1;
                let name = format!("family {}", self.created);
                let options = ColumnFamilyOptions::default();
                self.db.create_cf(&name, &options).expect("a column family");
            }
        }
    }

    fn follow(&mut self, rng: &mut Rng) {
        let last = self.history.last_sequence();
        assert!(self.db.updates_since(last + 1).is_err(), "{}", self.context);
        let sequence = rng.u64(..=last);
        let (history, context) = (&self.history, &self.context);
        let follower = history.follow(&self.db, sequence, &self.followers, context);
        self.followers.extend(follower);
    }

    fn advance(&mut self, rng: &mut Rng, count: usize) {
        if !self.followers.is_empty() {
            let at = rng.usize(..self.followers.len());
            if !self.followers[at].advance(count, &self.history, &self.context) {
                self.followers.swap_remove(at);
            }
        }
    }

    fn reopen(&mut self, rng: &mut Rng) {
        self.followers.clear();
        self.db.close().expect("closing");
        self.history.hand_on();
        let keeps = rng.bool();
        self.db = open(&self.disk, &format!("{}avoid_flush_during_recovery={keeps}", self.text));
        if !keeps {
            self.history.flush();
        }
        assert_eq!(
            self.db.latest_sequence_number(),
            self.history.last_sequence(),
            "{}",
            self.context
        );
    }

    fn finish(&mut self) {
        self.db.flush_wal(false).expect("a flush of the log");
        self.history.hand_on();
        for follower in &mut self.followers {
            follower.advance(usize::MAX, &self.history, &self.context);
        }
        self.db.close().expect("closing");
    }
}

/// Options for logs with direct I/O. These contain padding, and preallocated zeros follow their
/// last record.
const DIRECT: &str = "wal_io_mode=direct;wal_preallocation_block_size=16384;";

#[test]
fn every_update_is_returned_in_order_and_once() {
    let mut seed = seed::rng();
    for _ in 0..seed::rounds() {
        for case in 0..32 {
            let text = [
                if case & 1 == 0 { "" } else { "recycle_log_file_num=2;" },
                if case & 2 == 0 { "" } else { "wal_compression=kZSTD;" },
                if case & 4 == 0 { "" } else { "manual_wal_flush=true;" },
                if case & 8 == 0 { "" } else { "wal_dir=/logs;" },
                if case & 16 == 0 { "" } else { DIRECT },
            ];
            let mut scene = Scene::new(seed.rng.u64(..), &text.concat());
            let mut rng = Rng::with_seed(seed.rng.u64(..));
            scene.context = format!("seed {}, {}", seed.value(), scene.context);
            for _ in 0..STEPS {
                scene.step(&mut rng);
            }
            scene.finish();
        }
    }
}
