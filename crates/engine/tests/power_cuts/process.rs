//! Child processes that use the filesystem on the disk that loses power. This process serves the
//! disk, so it could deadlock if it used the filesystem itself.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tailwater::{Db, Error, OpenOptions, ReadOptions, WriteOptions};
use tailwater_testkit::dump::{self, Entry};

use crate::ledger::Ledger;
use crate::plan::{Plan, WRITERS};
use crate::table_modes::{self, Written};

/// Environment variable with the task of a child process. The first line has the name of the task
/// and its arguments. The second line has the options of the database.
const TASK: &str = "TAILWATER_POWER_CUTS_TASK";
/// Prefixes of the lines in which a child process reports that a put returned, or that an operation
/// failed.
const RETURNED: &str = "returned ";
const FAILED: &str = "failed ";
/// Prefix of the line in which a child process reports what it has written.
const WRITTEN: &str = "written ";
/// The word that denotes [`Syncs::AsPlanned`] in the environment variable [`TASK`].
const AS_PLANNED: &str = "as-planned";
/// Time after which a child process is killed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether the child process syncs the puts that the plan marks as synced. The ledger always
/// assumes these syncs. So the test must report lost data if they are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syncs {
    /// The child process syncs the puts that are synced according to the plan.
    AsPlanned,
    /// The child process syncs no put. Data is lost, and the test must detect that.
    Pretended,
}

/// The test that a child process runs to perform its task. Does nothing in the parent process.
#[test]
fn child_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (words, options) = task.split_once('\n').expect("two lines");
    let words: Vec<&str> = words.split(' ').collect();
    let done = match words[..] {
        ["read", directory, output] => read(Path::new(directory), options, Path::new(output)),
        ["write", directory, seed, syncs, ref first @ ..] => {
            let number = |word: &str| word.parse().expect("a number");
            let first: Vec<u64> = first.iter().copied().map(number).collect();
            write(Path::new(directory), options, Plan { seed: number(seed) }, syncs, &first)
        }
        _ => panic!("no task: {task}"),
    };
    if let Err(error) = done {
        say(&format!("{FAILED}{error}"));
    }
}

fn say(line: &str) {
    // The test harness has begun a line, which the leading line break ends.
    std::io::stdout().write_all(format!("\n{line}\n").as_bytes()).expect("somebody who listens");
}

fn open(directory: &Path, options: &str) -> Result<Db, Error> {
    let mut open = OpenOptions::default();
    open.set_from_string("create_if_missing=true")?;
    open.set_from_string(options)?;
    Db::open(directory, &open)
}

/// Makes puts in all writing threads, and reports how the tables were written. Each thread ends
/// when one of its puts fails.
fn write(
    directory: &Path,
    options: &str,
    plan: Plan,
    syncs: &str,
    first: &[u64],
) -> Result<(), Error> {
    let (written, done) = table_modes::watch(|written| {
        let db = open(directory, options)?;
        written.set_modes(&db);
        let done = put_until_it_fails(&db, plan, syncs, first);
        written.set_bytes(&db);
        done
    });
    say(&format!("{WRITTEN}{}", written.to_line()));
    done
}

fn put_until_it_fails(db: &Db, plan: Plan, syncs: &str, first: &[u64]) -> Result<(), Error> {
    let family = db.cf_handle("default")?;
    let write_on = |writer: usize| {
        for number in first[writer].. {
            let put = plan.put(writer, number);
            let sync = put.sync && syncs == AS_PLANNED;
            let options = WriteOptions::new().with_sync(sync);
            match db.put_cf_opt(&family, &put.key, &put.value, &options) {
                Ok(()) => say(&format!("{RETURNED}{writer} {number}")),
                Err(error) => return say(&format!("{FAILED}{error}")),
            }
        }
    };
    thread::scope(|scope| {
        (0..WRITERS).for_each(|writer| {
            scope.spawn(move || write_on(writer));
        });
    });
    Ok(())
}

/// Opens a database, reads its contents, closes it, and writes the contents to the file `output`.
#[expect(clippy::disallowed_methods, reason = "a dump is no file of a database")]
fn read(directory: &Path, options: &str, output: &Path) -> Result<(), Error> {
    let db = open(directory, options)?;
    let family = db.cf_handle("default")?;
    let mut entries = Vec::new();
    let mut iterator = db.raw_iterator_cf_opt(&family, &ReadOptions::default())?;
    iterator.seek_to_first()?;
    while let Some((key, value)) = iterator.item() {
        let (key, value) = (key.to_vec(), value.to_vec());
        entries.push(Entry { family: "default".to_owned(), key, value });
        iterator.next()?;
    }
    drop(iterator);
    db.close()?;
    std::fs::write(output, dump::bytes(&entries)).expect("a dump");
    Ok(())
}

/// Runs a child process that opens a database and writes until an operation fails. Records in the
/// ledger which puts returned. Failures are expected from the time at which `may_fail` returns
/// true. Returns how the process wrote tables.
///
/// # Errors
/// Returns an earlier failure, or that the process ended without reporting one.
pub(crate) fn write_until_it_fails(
    directory: &Path,
    options: &str,
    plan: Plan,
    syncs: Syncs,
    ledger: &mut Ledger,
    may_fail: impl Fn() -> bool,
) -> Result<Written, String> {
    let syncs = if syncs == Syncs::AsPlanned { AS_PLANNED } else { "pretended" };
    let mut task = format!("write {} {} {syncs}", directory.display(), plan.seed);
    ledger.first().iter().for_each(|first| task += &format!(" {first}"));
    let (mut failed, mut early, mut written) = (false, None, None);
    run(&task, options, |line| {
        if let Some(numbers) = line.strip_prefix(RETURNED) {
            let (writer, number) = numbers.split_once(' ').expect("two numbers");
            let (writer, number) = (writer.parse().expect("one"), number.parse().expect("one"));
            ledger.returned(writer, number, plan.put(writer, number).sync);
        } else if let Some(error) = line.strip_prefix(FAILED) {
            failed = true;
            if early.is_none() && !may_fail() {
                early = Some(format!("an error before the power was cut: {error}"));
            }
        } else if let Some(line) = line.strip_prefix(WRITTEN) {
            written = Some(Written::of_line(line));
        }
    })?;
    match early {
        Some(early) => Err(early),
        None if !failed => Err("the writers ended, and none said why".to_owned()),
        None => written.ok_or_else(|| "the process did not report what it wrote".to_owned()),
    }
}

/// Runs a child process that opens a database for writing and reads it. Returns the contents.
#[expect(clippy::disallowed_methods, reason = "a dump is no file of a database")]
pub(crate) fn read_all(directory: &Path, options: &str) -> Result<Vec<Entry>, String> {
    let scratch = tempfile::tempdir().expect("a directory");
    let output = scratch.path().join("dump");
    let mut failure = None;
    run(&format!("read {} {}", directory.display(), output.display()), options, |line| {
        if let Some(error) = line.strip_prefix(FAILED) {
            failure = Some(error.to_owned());
        }
    })?;
    match failure {
        Some(error) => Err(error),
        None => Ok(dump::parse(&std::fs::read(&output).map_err(|error| error.to_string())?)),
    }
}

/// A child process, which is killed when this object is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a child process that performs a task. Calls `hear` with each line that it prints.
fn run(task: &str, options: &str, mut hear: impl FnMut(&str)) -> Result<(), String> {
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "process::child_process"])
        .args(["--nocapture", "--test-threads=1"])
        .env(TASK, format!("{task}\n{options}"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut process = Process(child);
    let output = process.0.stdout.take().expect("its output");
    let id = process.0.id().to_string();
    let in_time = thread::scope(|scope| {
        let (ended, waits) = mpsc::channel::<()>();
        let watchdog = scope.spawn(move || {
            let timeout = waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
            if timeout {
                let _ = Command::new("kill").args(["-9", &id]).status();
            }
            !timeout
        });
        for line in BufReader::new(output).lines() {
            hear(&line.expect("a line"));
        }
        drop(ended);
        watchdog.join().expect("no panic")
    });
    let status = process.0.wait().expect("its end");
    let task = task.split_once(' ').map_or(task, |(name, _)| name);
    if !in_time {
        return Err(format!("to {task} took more than {} seconds", PATIENCE.as_secs()));
    }
    if !status.success() {
        return Err(format!("the process that was to {task} ended with {status}"));
    }
    Ok(())
}
