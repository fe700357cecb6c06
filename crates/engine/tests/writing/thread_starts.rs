//! Databases on a system that cannot start more threads.
#![cfg(debug_assertions)]

use std::error::Error as _;

use tailwater::{Db, ErrorKind};
use tailwater_io::sim::SimStorage;
use tailwater_io::thread::{NotStarted, with_starts_left};

use crate::support::{get, put, simulated};

/// Regression test: if a thread could not be started, `open` never returned and kept the database's
/// lock. It waited for the threads that it had already started, but had not asked them to end.
#[test]
fn opening_fails_without_a_lock_if_a_thread_cannot_be_started() {
    let disk = SimStorage::new(1);
    let mut options = simulated(&disk, "wal_io_mode=direct;max_background_jobs=4");
    options.set_inline_background(false);
    let open = || Db::open("/db", &options);
    let mut missing = Vec::new();
    let db = loop {
        match with_starts_left(missing.len(), open) {
            Ok(db) => break db,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                let source = error.source().and_then(|it| it.downcast_ref::<std::io::Error>());
                let source = source.and_then(std::io::Error::get_ref);
                assert!(source.is_some_and(|it| it.is::<NotStarted>()), "{error}");
                let text = error.to_string();
                let name = text.split('\'').nth(1).expect("the thread's name").to_owned();
                missing.push(name);
                // The failed opening has released the lock and ended its threads, so the database
                // can be opened.
                open().expect("with room for all threads").close().expect("closing");
            }
        }
    };
    for name in ["write0", "compw0", "compr0", "flush", "clean", "comp0", "comp2", "wal"] {
        let name = format!("tailwater-{name}");
        assert!(missing.contains(&name), "{name} is not among {missing:?}");
    }
    put(&db, "a", "1").expect("a put");
    db.flush_all().expect("a flush");
    assert_eq!(get(&db, "a").as_deref(), Some("1"));
}

/// Tests that an open database continues with fewer threads if the system cannot start all the
/// threads that an option change requests.
#[test]
fn raising_max_background_jobs_succeeds_without_all_threads() {
    let disk = SimStorage::new(1);
    let mut options = simulated(&disk, "max_background_jobs=2");
    options.set_inline_background(false);
    let db = Db::open("/db", &options).expect("a database");
    let more = [("max_background_jobs", "16")];
    with_starts_left(1, || db.set_database_options(&more)).expect("it is no failure");
    put(&db, "a", "1").expect("a put");
    db.flush_all().expect("a flush");
    db.close().expect("closing");
}
