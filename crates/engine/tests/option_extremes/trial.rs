//! Tries options: opens a database with them, writes, flushes, compacts and reopens it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tailwater::{ColumnFamily, CompactRangeOptions, Db, OpenOptions, ReadOptions, WriteOptions};
use tailwater_format::options_text::parse_option_string;
use tailwater_io::Clock;
use tailwater_io::clock::ManualClock;
use tailwater_io::sim::SimStorage;

use super::Candidate;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Number of keys that each call of [`work`] writes.
const KEYS: usize = 150;

/// A manual clock whose time jumps forward when a caller waits, so that no wait takes real time.
#[derive(Debug)]
struct Hurrying(Arc<ManualClock>);

impl Clock for Hurrying {
    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns()
    }

    fn wall_us(&self) -> u64 {
        self.0.wall_us()
    }

    fn sleep_until(&self, deadline_ns: u64) {
        self.0.advance(deadline_ns.saturating_sub(self.0.monotonic_ns()));
    }
}

/// Tries option values in addition to the options in `base`. Returns `Ok(true)` if the database
/// works with them, and `Ok(false)` if they are rejected by an error that names one of them.
pub(crate) fn run(base: &str, candidates: &[Candidate]) -> Result<bool, String> {
    caught(|| attempt(base, candidates, true))
}

/// Returns the result of `attempt`, or the message of its panic as an error.
fn caught(attempt: impl FnOnce() -> Result<bool, String>) -> Result<bool, String> {
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}

/// Like [`run`], but flushes and compactions run in background threads.
pub(crate) fn run_with_threads(candidates: &[Candidate]) -> Result<bool, String> {
    attempt("", candidates, false)
}

/// Changes an option while a database is open. Returns `Ok(true)` if the database works after that,
/// and `Ok(false)` if the change is rejected by an error that names the option.
pub(crate) fn change(candidate: &Candidate) -> Result<bool, String> {
    caught(|| attempt_change(candidate))
}

/// Whether these option values can be set and a database can be opened with them.
pub(crate) fn is_accepted(candidates: &[Candidate]) -> bool {
    let disk = SimStorage::new(1);
    options(&disk, "", candidates).is_ok_and(|options| open(&options, candidates).is_ok())
}

fn attempt(base: &str, candidates: &[Candidate], inline: bool) -> Result<bool, String> {
    let disk = SimStorage::new(1);
    let options = match options(&disk, base, candidates) {
        Ok(mut options) => {
            options.set_inline_background(inline);
            options
        }
        Err(Refusal::Named) => return Ok(false),
        Err(Refusal::Unnamed(error)) => return Err(format!("setting: {error}")),
    };
    let db = match open(&options, candidates) {
        Ok(db) => db,
        Err(Refusal::Named) => return Ok(false),
        Err(Refusal::Unnamed(error)) => return Err(format!("opening: {error}")),
    };
    if candidates.iter().all(|candidate| candidate.is_ignored) {
        db.close().map_err(|error| format!("closing: {error}"))?;
        return loaded(&disk).map(|_| true);
    }
    let mut model = Model::new();
    for round in 0..2 {
        work(&db, &mut model, round).map_err(|error| format!("round {round}: {error}"))?;
    }
    db.close().map_err(|error| format!("closing: {error}"))?;
    drop(db);
    let loaded = loaded(&disk)?;
    for (what, mut options) in [("again", options), ("with its OPTIONS file", loaded)] {
        options.set_inline_background(inline);
        let db = Db::open("/db", &options).map_err(|error| format!("opening {what}: {error}"))?;
        check(&db, &model).map_err(|error| format!("opened {what}: {error}"))?;
        work(&db, &mut model, 2).map_err(|error| format!("opened {what}: {error}"))?;
        db.close().map_err(|error| format!("closing {what}: {error}"))?;
    }
    Ok(true)
}

fn attempt_change(candidate: &Candidate) -> Result<bool, String> {
    let disk = SimStorage::new(1);
    let plain = options(&disk, "", &[]).map_err(|_| "plain options".to_owned())?;
    let db = Db::open("/db", &plain).map_err(|error| error.to_string())?;
    let mut model = Model::new();
    work(&db, &mut model, 0)?;
    let assignments = parse_option_string(&candidate.text).map_err(|error| error.to_string())?;
    let changes = assignments.iter().map(|it| (it.name, it.value));
    let changes: Vec<_> = changes.filter(|(name, _)| *name != "compaction_style").collect();
    let family = db.cf_handle("default").map_err(|error| error.to_string())?;
    let changed = match db.set_options_cf(&family, &changes) {
        Err(error) if error.message().contains("is the database's") => {
            db.set_database_options(&changes)
        }
        changed => changed,
    };
    if let Err(error) = changed {
        return match refusal(&error, std::slice::from_ref(candidate)) {
            Refusal::Named => Ok(false),
            Refusal::Unnamed(error) => Err(format!("setting: {error}")),
        };
    }
    if !candidate.is_ignored {
        for round in 1..3 {
            work(&db, &mut model, round).map_err(|error| format!("round {round}: {error}"))?;
        }
    }
    db.close().map_err(|error| format!("closing: {error}"))?;
    drop((family, db));
    let db = Db::open("/db", &loaded(&disk)?).map_err(|error| format!("opening again: {error}"))?;
    check(&db, &model).map_err(|error| format!("opened again: {error}"))?;
    db.close().map_err(|error| format!("closing: {error}"))?;
    Ok(true)
}

enum Refusal {
    /// The options were rejected by an error that names one of them.
    Named,
    /// The options were rejected by this error, which names none of them.
    Unnamed(String),
}

fn refusal(error: &tailwater::Error, candidates: &[Candidate]) -> Refusal {
    let text = error.to_string();
    // The outermost group's name says too little.
    let names = |it: &Candidate| {
        let outermost = usize::from(it.option.contains('.'));
        it.option.split('.').skip(outermost).any(|name| text.contains(name))
    };
    if candidates.iter().any(names) { Refusal::Named } else { Refusal::Unnamed(text) }
}

fn options(
    disk: &SimStorage,
    base: &str,
    candidates: &[Candidate],
) -> Result<OpenOptions, Refusal> {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_clock(Arc::new(Hurrying(disk.clock())));
    options.set_inline_background(true);
    options
        .set_from_string("create_if_missing=true")
        .map_err(|error| refusal(&error, candidates))?;
    options.set_from_string(base).map_err(|error| refusal(&error, candidates))?;
    for candidate in candidates {
        options.set_from_string(&candidate.text).map_err(|error| refusal(&error, candidates))?;
    }
    Ok(options)
}

fn open(options: &OpenOptions, candidates: &[Candidate]) -> Result<Db, Refusal> {
    Db::open("/db", options).map_err(|error| refusal(&error, candidates))
}

/// Returns the options recorded in the OPTIONS file of the database.
fn loaded(disk: &SimStorage) -> Result<OpenOptions, String> {
    let mut loaded = OpenOptions::load_from(Arc::new(disk.clone()), "/db")
        .map_err(|error| format!("loading the OPTIONS file: {error}"))?;
    loaded.set_clock(Arc::new(Hurrying(disk.clock())));
    loaded.set_inline_background(true);
    Ok(loaded)
}

/// Writes keys, flushes, compacts and compares the contents with the model.
fn work(db: &Db, model: &mut Model, round: usize) -> Result<(), String> {
    let family = db.cf_handle("default").map_err(|error| error.to_string())?;
    let say = |what: &'static str| move |error: tailwater::Error| format!("{what}: {error}");
    let options = WriteOptions::default();
    for number in 0..KEYS {
        let key = format!("key{:05}", (number * 7 + round * 31) % (2 * KEYS)).into_bytes();
        // Half of each value is compressible.
        let mut value = vec![b'v'; 40 + number % 100];
        value.extend(format!("{number} {round}").into_bytes());
        db.put_cf_opt(&family, &key, &value, &options).map_err(say("a put"))?;
        model.insert(key, value);
    }
    let large = vec![round as u8; 100_000];
    db.put_cf_opt(&family, b"large", &large, &options).map_err(say("a large put"))?;
    model.insert(b"large".to_vec(), large);
    db.flush_cf(&family).map_err(say("a flush"))?;
    check(db, model)?;
    let synced = WriteOptions::new().with_sync(true);
    db.delete_cf_opt(&family, b"key00007", &synced).map_err(say("a deletion"))?;
    model.remove(&b"key00007"[..]);
    db.put_cf_opt(&family, b"after", b"the flush", &synced).map_err(say("a synced put"))?;
    model.insert(b"after".to_vec(), b"the flush".to_vec());
    db.flush_cf(&family).map_err(say("a second flush"))?;
    let all = CompactRangeOptions::default();
    db.compact_range_cf_opt(&family, None, None, &all).map_err(say("a compaction"))?;
    if let Some(error) = db.background_error() {
        return Err(format!("a background error: {error}"));
    }
    check(db, model)
}

/// Compares the database with the model.
fn check(db: &Db, model: &Model) -> Result<(), String> {
    let family = db.cf_handle("default").map_err(|error| error.to_string())?;
    let reads = ReadOptions::new().with_total_order_seek(true);
    check_scan(db, &family, model, &reads).map_err(|error| format!("a scan: {error}"))?;
    for (key, value) in model.iter().step_by(9) {
        match db.get_cf_opt(&family, key, &reads) {
            Ok(Some(found)) if found == *value => {}
            other => return Err(format!("get({}): {other:?}", key.escape_ascii())),
        }
    }
    match db.get_cf_opt(&family, b"no such key", &reads) {
        Ok(None) => Ok(()),
        other => Err(format!("get of nothing: {other:?}")),
    }
}

fn check_scan(
    db: &Db,
    family: &ColumnFamily,
    model: &Model,
    reads: &ReadOptions,
) -> Result<(), String> {
    let mut iterator = db.raw_iterator_cf_opt(family, reads).map_err(|error| error.to_string())?;
    iterator.seek_to_first().map_err(|error| error.to_string())?;
    let mut found = Model::new();
    while let Some((key, value)) = iterator.item() {
        found.insert(key.to_vec(), value.to_vec());
        iterator.next().map_err(|error| error.to_string())?;
    }
    if found != *model {
        return Err(format!("{} entries instead of {}", found.len(), model.len()));
    }
    Ok(())
}
