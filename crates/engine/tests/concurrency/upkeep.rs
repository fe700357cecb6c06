//! Tests concurrent writers while other threads flush, sync logs, create and drop column families,
//! and make checkpoints of the database.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use tailwater::{ColumnFamily, Db, ErrorKind, ReadOptions, WriteBatch, WriteOptions};
use tailwater_testkit::seed;

use crate::ledger::{FAMILIES, Ledger, check_bounds};
use crate::scene::{ALL, Place, Scene, check_at_rest, check_sequences, families, read_all};

/// A column family to which the writers do not write.
const ASIDE: &str = "aside";

/// The sequence number of each batch that a thread wrote, and the number of operations in the
/// batch, as returned by [`Scene::write`].
type Written = Vec<(u64, u64)>;

fn pause(rng: &mut Rng) {
    thread::sleep(Duration::from_millis(rng.u64(..4)));
}

/// Flushes memtables, and hands the log to the operating system or syncs it.
fn flush(scene: &Scene<'_>, mut rng: Rng) {
    let handles = families(scene.db);
    while scene.goes_on() {
        let result = match rng.u8(..4) {
            0 => scene.db.flush_cf(&handles[rng.usize(..FAMILIES.len())]),
            1 => scene.db.flush_all(),
            _ => scene.db.flush_wal(rng.bool()),
        };
        scene.must(result.map_err(|error| format!("flushing: {error}")));
        pause(&mut rng);
    }
}

/// Creates column families, writes to each of them and to another column family in one batch, and
/// drops them.
fn change_families(scene: &Scene<'_>, mut rng: Rng) -> Written {
    let db = scene.db;
    let aside = db.cf_handle(ASIDE).expect("a column family");
    let options = aside.options().clone();
    let mut written = Written::new();
    for number in (0_u64..).take_while(|_| scene.goes_on()) {
        let name = format!("temporary-{number}");
        let family = db.create_cf(&name, &options).expect("a new column family");
        for key in 0..rng.u64(1..4) {
            let mut batch = batch_over(&aside, &family, number, key);
            db.write_opt(&mut batch, &WriteOptions::default()).expect("a write to a new family");
            written.push((batch.sequence(), 2));
            check_pair(db, &aside, &family, number, key);
        }
        if rng.bool() {
            db.flush_cf(&family).expect("a flush of a new family");
        }
        pause(&mut rng);
        db.drop_cf(&family).expect("a dropped family");
        let mut refused = batch_over(&aside, &family, u64::MAX, 0);
        let error =
            db.write_opt(&mut refused, &WriteOptions::default()).expect_err("a dropped family");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    written
}

fn batch_over(aside: &ColumnFamily, family: &ColumnFamily, number: u64, key: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    let value = number.to_be_bytes();
    batch.put_cf(aside.id(), key.to_be_bytes(), value).expect("a put");
    batch.put_cf(family.id(), key.to_be_bytes(), value).expect("a put");
    batch
}

fn check_pair(db: &Db, aside: &ColumnFamily, family: &ColumnFamily, number: u64, key: u64) {
    for family in [aside, family] {
        let value =
            db.get_cf_opt(family, key.to_be_bytes(), &ReadOptions::default()).expect("a get");
        assert_eq!(value.as_deref(), Some(&number.to_be_bytes()[..]), "{}", family.name());
    }
}

/// Copies the database, and checks the copies.
fn copy(scene: &Scene<'_>, place: &Place, mut rng: Rng) {
    for number in (0..).take_while(|_| scene.goes_on()) {
        let directory: PathBuf = place.directory().with_extension(format!("copy-{number}"));
        let least = scene.ledger.acknowledged();
        scene.must(scene.db.checkpoint(&directory).map_err(|error| format!("copying: {error}")));
        let most = scene.ledger.begun();
        let copy = Db::open_read_only(&directory, &place.options("")).expect("the copy");
        let state = read_all(&copy, &ALL, &ReadOptions::default(), rng.bool());
        let checked = scene.ledger.check(&state, &ALL);
        let checked = checked.and_then(|found| check_bounds(&found, &least, &most));
        scene.must(checked.map_err(|error| format!("copy {number}: {error}")));
        pause(&mut rng);
    }
}

#[test]
fn writers_concurrent_with_flushes_checkpoints_and_family_changes() {
    let mut seed = seed::rng();
    println!("seed {}", seed.value());
    for place in Place::both(seed.value()) {
        let ledger = Ledger::new(&[2, 70, 1, 5, 90, 3], 100);
        let db = place.open("");
        let default = db.cf_handle("default").expect("the default family");
        db.create_cf(ASIDE, &default.options()).expect("a column family");
        let scene = Scene::new(&db, &ledger);
        let mut forked = || seed.rng.fork();
        let batches = 120 * seed::rounds() as u64;
        let written = thread::scope(|scope| {
            let (scene, place) = (&scene, &place);
            let writers: Vec<_> = (0..ledger.writers())
                .map(|writer| {
                    let options =
                        |number: u64| WriteOptions::new().with_sync(number.is_multiple_of(9));
                    scope.spawn(move || scene.write(writer, batches, options))
                })
                .collect();
            let rng = forked();
            let changes = scope.spawn(move || change_families(scene, rng));
            let (one, two, three) = (forked(), forked(), forked());
            scope.spawn(move || flush(scene, one));
            scope.spawn(move || copy(scene, place, two));
            scope.spawn(move || scene.watch_snapshots(three));
            let threads = writers.into_iter().chain([changes]);
            threads.flat_map(|thread| thread.join().expect("a writer")).collect::<Vec<_>>()
        });
        check_sequences(1, written, db.latest_sequence_number());
        check_at_rest(&db, &ledger).expect("what was written");
        db.close().expect("closing");
        drop(db);
        let db = place.open("");
        check_at_rest(&db, &ledger).expect("what was written before closing");
        assert_eq!(db.column_families().len(), FAMILIES.len() + 1);
    }
}

#[test]
fn writes_that_are_not_logged_are_flushed_by_closing() {
    let mut seed = seed::rng();
    println!("seed {}", seed.value());
    for place in Place::both(seed.value()) {
        let ledger = Ledger::new(&[3, 1, 70, 4], 200);
        let db = place.open("");
        let scene = Scene::new(&db, &ledger);
        let written = thread::scope(|scope| {
            let scene = &scene;
            let writers: Vec<_> = (0..ledger.writers())
                .map(|writer| {
                    // Half of the writers write without the log. The others use the log and sync
                    // some of their writes. Logged and unlogged batches are never in the same write
                    // group.
                    let options = move |number: u64| {
                        WriteOptions::new()
                            .with_disable_wal(writer % 2 == 0)
                            .with_sync(writer % 2 == 1 && number.is_multiple_of(5))
                    };
                    scope.spawn(move || scene.write(writer, 100, options))
                })
                .collect();
            let rng = seed.rng.fork();
            scope.spawn(move || scene.watch_snapshots(rng));
            writers
                .into_iter()
                .flat_map(|writer| writer.join().expect("a writer"))
                .collect::<Vec<_>>()
        });
        check_sequences(1, written, db.latest_sequence_number());
        db.close().expect("closing");
        drop(db);
        check_at_rest(&place.open(""), &ledger).expect("what was written before closing");
    }
}
