//! Databases that share the threads of an environment.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tailwater::env::{Env, Priority};
use tailwater::{Db, ErrorKind, OpenOptions};
use tailwater_io::sim::SimStorage;

use crate::fuse::{self, Fuse, Object};
use crate::gate::{Call, Gate, Opening};
use crate::support::{eventually, get, level_0, property, put, simulated, unlogged};

fn open(env: &Env, path: &str, mut options: OpenOptions) -> Db {
    options.set_env(env.clone());
    options.set_inline_background(false);
    Db::open(path, &options).expect("a database")
}

/// Tests databases that share one thread for flushes, in which a flush of one of them is stuck.
#[test]
fn databases_are_closed_while_a_flush_of_another_one_is_stuck() {
    let disk = SimStorage::new(1);
    let gate = Gate::over(Arc::new(disk.clone()));
    let env = Env::new().with_clock(disk.clock());
    let stuck = open(&env, "/stuck", gate.options(""));
    let [idle, waiting] = ["/idle", "/waiting"].map(|path| open(&env, path, simulated(&disk, "")));
    for db in [&stuck, &idle, &waiting] {
        put(db, "a", "1").expect("a put");
    }
    gate.stop(Call::SyncTable, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let slowly = scope.spawn(|| stuck.flush_all());
        gate.wait();
        let flush = scope.spawn(|| waiting.flush_all());
        eventually("the flush waits for the thread", || {
            property(&waiting, "rocksdb.mem-table-flush-pending") == "1"
        });
        idle.close().expect("closing");
        waiting.close().expect("closing");
        let error = flush.join().expect("no panic").expect_err("the flush was dropped");
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        assert_eq!(property(&stuck, "rocksdb.num-running-flushes"), "1");
        drop(opening);
        slowly.join().expect("no panic").expect("a flush");
    });
    drop(waiting);
    let waiting = open(&env, "/waiting", simulated(&disk, ""));
    assert_eq!(get(&waiting, "a").as_deref(), Some("1"), "it is in the log");
}

/// Makes a compaction due that merges two tables into the last level of a database with two levels.
fn make_compaction_due(db: &Db) {
    for value in ["1", "2"] {
        put(db, "a", value).expect("a put");
        put(db, "b", value).expect("a put");
        db.flush_all().expect("a flush");
    }
}

const TWO_LEVELS: &str = "num_levels=2;level0_file_num_compaction_trigger=2";

#[test]
fn compactions_into_the_last_level_use_threads_of_their_own_if_there_are_any() {
    for (bottom, threads) in [(1, "tailwater-bot"), (0, "tailwater-comp")] {
        let (disk, fuse) = (SimStorage::new(1), Arc::new(Fuse::default()));
        let env = Env::new().with_clock(disk.clock());
        env.set_background_threads(bottom, Priority::Bottom);
        let mut options = simulated(&disk, TWO_LEVELS);
        fuse::install(&mut options, disk.clock(), &fuse);
        fuse.watch(Object::CompactionFilter, threads);
        // After `install`, which replaces the clock.
        let clock = Arc::clone(options.env().clock());
        let db = open(&env.with_clock(clock), "/db", options);
        make_compaction_due(&db);
        eventually("the tables are compacted", || level_0(&db) == 0);
        assert!(fuse.has_seen_a_call(), "not in {threads}");
        assert_eq!(get(&db, "a").as_deref(), Some("2"));
        db.close().expect("closing");
    }
}

/// Tests that a compaction that waits for a thread is dropped when the database is closed, and
/// releases its inputs.
#[test]
fn a_waiting_compaction_into_the_last_level_does_not_prevent_closing() {
    let (disk, fuse) = (SimStorage::new(1), Arc::new(Fuse::default()));
    let env = Env::new().with_clock(disk.clock());
    env.set_background_threads(1, Priority::Bottom);
    let mut options = simulated(&disk, TWO_LEVELS);
    fuse::install(&mut options, disk.clock(), &fuse);
    let stuck = open(&env, "/stuck", options);
    let waiting = open(&env, "/waiting", simulated(&disk, TWO_LEVELS));
    let (begun, begins) = channel();
    let (end, ended) = channel::<()>();
    fuse.call(Object::CompactionFilter, "tailwater-bot", move || {
        begun.send(()).expect("the test listens");
        let _ = ended.recv();
    });
    make_compaction_due(&stuck);
    begins.recv().expect("a compaction");
    make_compaction_due(&waiting);
    eventually("the compaction waits", || waiting.running_compactions() == 1);
    waiting.close().expect("closing");
    assert_eq!(level_0(&waiting), 2);
    drop((waiting, end));
    eventually("the first compaction has ended", || level_0(&stuck) == 0);
    let waiting = open(&env, "/waiting", simulated(&disk, TWO_LEVELS));
    eventually("the tables are compacted", || level_0(&waiting) == 0);
    assert_eq!(get(&waiting, "a").as_deref(), Some("2"));
}

/// Returns a value that fills several buffers of a table.
fn large() -> String {
    "v".repeat(4 << 20)
}

/// Opens two databases that share one thread for flushes, in which a flush of the first is stuck
/// while `then` runs with the second.
fn while_another_flush_is_stuck(
    gate_options: &str,
    call: Call,
    jobs: u32,
    then: impl FnOnce(&SimStorage, &Env, &Db),
) {
    let disk = SimStorage::new(1);
    let gate = Gate::over(Arc::new(disk.clone()));
    let env = Env::new().with_clock(disk.clock());
    let stuck = open(&env, "/stuck", gate.options(gate_options));
    let options = simulated(&disk, &format!("max_background_jobs={jobs}"));
    let other = open(&env, "/other", options);
    put(&stuck, "a", &large()).expect("a put");
    gate.stop(call, 0);
    thread::scope(|scope| {
        let opening = Opening(&gate);
        let slowly = scope.spawn(|| stuck.flush_all());
        gate.wait();
        then(&disk, &env, &other);
        drop(opening);
        slowly.join().expect("no panic").expect("a flush");
    });
}

#[test]
fn closing_flushes_unlogged_data_while_a_flush_of_another_database_is_stuck() {
    for call in [Call::WriteTable, Call::SyncTable] {
        while_another_flush_is_stuck("compression=kNoCompression", call, 2, |disk, env, db| {
            db.put_opt("a", large(), &unlogged()).expect("a put");
            db.close().expect("closing");
            let db = open(env, "/other", simulated(disk, ""));
            assert_eq!(get(&db, "a"), Some(large()));
        });
    }
}

#[test]
fn flushes_that_wait_move_to_another_pool_when_theirs_loses_its_threads() {
    while_another_flush_is_stuck("", Call::SyncTable, 2, |_, env, db| {
        put(db, "a", "1").expect("a put");
        thread::scope(|scope| {
            let flush = scope.spawn(|| db.flush_all());
            eventually("the flush waits for the thread", || {
                property(db, "rocksdb.mem-table-flush-pending") == "1"
            });
            env.set_background_threads(0, Priority::High);
            flush.join().expect("no panic").expect("a flush");
        });
    });
}

#[test]
fn an_atomic_flush_occupies_one_thread() {
    let atomic = "atomic_flush=true;max_background_jobs=8";
    while_another_flush_is_stuck(atomic, Call::SyncTable, 8, |_, env, db| {
        assert_eq!(env.background_threads(Priority::High), 2);
        for _ in 0..3 {
            put(db, "a", "1").expect("a put");
            db.flush_all().expect("a flush");
        }
    });
}

/// Tests a job that closes the last database of the environment while another thread closes it, and
/// waits for the environment's threads.
#[test]
fn a_job_of_the_program_may_close_the_last_database() {
    let disk = SimStorage::new(1);
    let env = Env::new().with_clock(disk.clock());
    env.set_background_threads(1, Priority::User);
    let db = Arc::new(open(&env, "/db", simulated(&disk, "")));
    let (begun, begins) = channel();
    let in_job = Arc::clone(&db);
    assert!(env.schedule(Priority::User, move || {
        begun.send(()).expect("the test listens");
        // The other thread meanwhile waits for this job, or will.
        thread::sleep(Duration::from_millis(50));
        in_job.close().expect("closing");
    }));
    begins.recv().expect("a job");
    db.close().expect("closing");
}
