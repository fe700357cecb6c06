//! One turn of the engine in a stress test. `db_stress`, which is RocksDB's stress tool, and this
//! program alternately write to the same database.
//!
//! `ci/stress/run.py` runs the two programs. This program opens the database with the options of
//! its OPTIONS file, compares its contents with the expected contents, changes its files but not
//! the value of any key, and compares again:
//!
//! 1. It opens the database for reading only and reads everything. The first run of a turn writes
//!    the contents to the reference file. Later runs of the turn, which follow a kill, must find
//!    the same contents. With `--expected`, it also compares them with the state that `db_stress`
//!    keeps of its keys.
//! 2. Until its time is up, it repeatedly opens the database for writing, with different options
//!    each time, works on it ([`work`]) and closes it.
//! 3. It opens the database for reading only and reads everything again.
//!
//! The program may be killed at any time. With `--settled`, a killed run leaves the contents
//! unchanged. Otherwise it may leave an extra column family, and extra keys that sort after all
//! other keys; the next run removes them.
//!
//! The program prints a line for each step. It exits with 0 on success, with 1 after a line that
//! begins with `FAILED:`, and with 2 after a usage error.

mod arguments;
mod contents;
mod expected;
mod extra;
mod settings;
mod unblocking;
mod work;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tailwater::{Db, ErrorKind, OpenOptions, Purpose};

use arguments::Arguments;
use contents::Contents;
use expected::Keys;
use unblocking::while_unblocked;
use work::Work;

/// Maximum duration of a round, in milliseconds. After each round the database is closed and opened
/// again with other options.
const ROUND_MS: u64 = 2500;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    match take_turn(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("FAILED: {message}");
            ExitCode::FAILURE
        }
    }
}

fn take_turn(arguments: &Arguments) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_millis(arguments.milliseconds);
    let directory = &arguments.directory;
    let mut rng = Rng::with_seed(arguments.seed);
    let own = settings::of_directory(directory, arguments.options.as_deref())?;

    let (reference, sequence) = look(arguments, &own)?;
    println!("found {} keys at sequence {sequence}: {}", reference.len(), reference.digest());

    let keys = Keys::new(arguments);
    let mut is_first = true;
    while is_first || Instant::now() < deadline {
        let (options, text) = if is_first {
            (own.clone(), "its own options".to_owned())
        } else {
            settings::other(&own, &mut rng)?
        };
        is_first = false;
        println!("opening with {text}");
        let remaining = deadline.saturating_duration_since(Instant::now());
        let time = remaining.min(Duration::from_millis(rng.u64(200..ROUND_MS)));
        round(arguments, &options, &keys, &reference, time, &mut rng)?;
    }

    let (kept, last) = look(arguments, &own)?;
    if arguments.keeps_sequence && last != sequence {
        return Err(format!("nothing was written, but sequence {sequence} became {last}"));
    }
    println!("kept {} keys at sequence {last}: {}", kept.len(), kept.digest());
    Ok(())
}

/// Opens the database for reading only, and compares its contents with the reference file. If that
/// file does not exist, writes it. With `--expected`, also compares the contents with the state
/// that `db_stress` keeps. Returns the contents, and the last sequence number of the database.
fn look(arguments: &Arguments, options: &OpenOptions) -> Result<(Contents, u64), String> {
    let db = Db::open_read_only(&arguments.directory, options).map_err(text("reading"))?;
    report_opening(&db)?;
    let contents = Contents::read(&db)?;
    match Contents::load(&arguments.reference)? {
        Some(reference) => contents.compare(&reference)?,
        None => contents.save(&arguments.reference)?,
    }
    if let Some(state) = &arguments.expected {
        let checked = expected::check(&contents, &db, state, arguments)?;
        println!("{checked} keys are as db_stress expects them");
    }
    Ok((contents, db.latest_sequence_number()))
}

/// Opens the database for writing, works on it for `time`, and closes it. Checks the contents
/// before and after the work. Does nothing if the options request direct I/O and the filesystem
/// refuses it.
fn round(
    arguments: &Arguments,
    options: &OpenOptions,
    keys: &Keys,
    reference: &Contents,
    time: Duration,
    rng: &mut Rng,
) -> Result<(), String> {
    let db = match Db::open(&arguments.directory, options) {
        Err(error) if refuses_direct(&error) => {
            println!("refused: {error}");
            return Ok(());
        }
        opened => opened.map_err(text("opening"))?,
    };
    report_opening(&db)?;
    report_modes(&db)?;
    while_unblocked(&db, || {
        if !arguments.keeps_sequence {
            work::remove_extras(&db)?;
        }
        Contents::read(&db)?.compare(reference)?;
        let work = Work::new(&db, options, arguments, keys, reference);
        let done = work.run(Instant::now() + time, rng)?;
        println!("did {done}");
        if !arguments.keeps_sequence {
            work::remove_extras(&db)?;
        }
        Contents::read(&db)?.compare(reference)
    })?;
    if let Some(error) = db.background_error() {
        return Err(format!("a background error: {error}"));
    }
    match rng.u8(..4) {
        0 => drop(db),
        _ => db.close().map_err(text("closing"))?,
    }
    Ok(())
}

/// Prints what recovery did not recover when the database was opened. A kill can only leave an
/// incomplete record at the end of the last log or of the MANIFEST. Anything else is an error.
fn report_opening(db: &Db) -> Result<(), String> {
    for left_out in db.left_out() {
        println!("left out: {left_out:?}");
        if !left_out.torn_tail {
            return Err(format!("more than a torn tail was left out: {left_out:?}"));
        }
    }
    Ok(())
}

/// Whether opening failed because the filesystem refuses direct I/O.
fn refuses_direct(error: &tailwater::Error) -> bool {
    error.kind() == ErrorKind::NotSupported && error.to_string().contains("direct I/O is refused")
}

/// Prints the I/O modes of compactions, as requested and in effect.
fn report_modes(db: &Db) -> Result<(), String> {
    let doing = text("reading the I/O modes");
    let modes = db.property_value("tailwater.io-modes").map_err(doing)?.unwrap_or_default();
    for purpose in [Purpose::CompactionRead, Purpose::CompactionWrite] {
        let start = format!("{}: ", purpose.name());
        let mut lines = modes.lines();
        let line = lines.find(|line| line.starts_with(&start)).ok_or("no mode of compactions")?;
        println!("{line}");
    }
    Ok(())
}

/// Returns a function that converts an error to text, with `doing` before it.
fn text(doing: &str) -> impl Fn(tailwater::Error) -> String {
    move |error| format!("{doing}: {error}")
}

/// Returns a path beside the database's directory: the directory's path, a dot, and `what`.
fn sibling_path(directory: &Path, what: &str) -> std::path::PathBuf {
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(what);
    directory.with_file_name(name)
}
