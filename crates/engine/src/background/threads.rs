//! Starting and ending the threads.

use std::sync::Arc;

use tailwater_io::thread::{self, Thread};

use crate::db::Writer;
use crate::{Error, ErrorKind, Result};

/// The threads of one database. Dropping them waits for their ends.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    #[expect(dead_code, reason = "dropped to be joined")]
    threads: Vec<Thread>,
}

impl Threads {
    /// Starts a thread that flushes, some that compact and one that cleans up.
    pub(crate) fn start(writer: &Arc<Writer>) -> Result<Self> {
        let compacting = compaction_threads(writer);
        let mut threads = vec![
            spawn("tailwater-flush", writer, |writer| writer.run_flushes())?,
            spawn("tailwater-clean", writer, |writer| writer.run_cleaning())?,
        ];
        for number in 0..compacting {
            let name = format!("tailwater-comp{number}");
            threads.push(spawn(&name, writer, |writer| writer.run_compactions())?);
        }
        Ok(Self { threads })
    }
}

/// How many compactions run at a time: what `max_background_compactions` says, or three quarters of
/// `max_background_jobs`, as RocksDB shares them out.
fn compaction_threads(writer: &Writer) -> usize {
    let database = &writer.database;
    let jobs = database.max_background_jobs;
    let own = match (database.max_background_flushes, database.max_background_compactions) {
        (-1, -1) => jobs - (jobs / 4).max(1),
        (_, compactions) => compactions,
    };
    usize::try_from(own).unwrap_or(0).max(1)
}

fn spawn(name: &str, writer: &Arc<Writer>, work: fn(&Writer)) -> Result<Thread> {
    let working = Arc::clone(writer);
    thread::spawn(name, move || work(&working)).map_err(|error| {
        Error::new(ErrorKind::Io, format!("cannot start the thread '{name}': {error}"))
    })
}
