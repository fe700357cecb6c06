//! Start and end of the background threads.

use std::sync::Arc;

use tailwater_io::thread::{self, Thread};

use crate::background::WorkingThread;
use crate::db::Writer;
use crate::{Error, Result};

/// The threads of a database. Dropping this joins them, so they must have been told to end before;
/// a thread that drops this is not joined and ends by itself.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Joined on drop.
    others: Vec<Thread>,
    compacting: Vec<Thread>,
}

impl Threads {
    /// Starts a thread that flushes, one that cleans up and some that compact.
    ///
    /// # Errors
    /// Errors of starting a thread, with its name. Threads that were started have ended then.
    pub(crate) fn start(writer: &Arc<Writer>) -> Result<Self> {
        let mut threads = Self::default();
        if let Err(error) = threads.start_all(writer) {
            writer.background.close();
            drop(threads);
            return Err(error);
        }
        Ok(threads)
    }

    fn start_all(&mut self, writer: &Arc<Writer>) -> Result<()> {
        self.others.push(spawn("tailwater-flush", writer, |writer| writer.run_flushes())?);
        self.others.push(spawn("tailwater-clean", writer, |writer| writer.run_cleaning())?);
        self.grow(writer)
    }

    /// Starts threads up to the maximum number of concurrent compactions. Surplus threads rest.
    ///
    /// # Errors
    /// Errors of starting a thread. The database continues with those that run.
    pub(crate) fn grow(&mut self, writer: &Arc<Writer>) -> Result<()> {
        let wanted = writer.database.now().compactions_max();
        writer.background.set_compactions_max(wanted);
        for number in self.compacting.len()..wanted {
            let name = format!("tailwater-comp{number}");
            let thread = spawn(&name, writer, move |writer| writer.run_compactions(number))?;
            self.compacting.push(thread);
        }
        Ok(())
    }
}

fn spawn(
    name: &str,
    writer: &Arc<Writer>,
    work: impl FnOnce(&Writer) + Send + 'static,
) -> Result<Thread> {
    let working = Arc::clone(writer);
    let body = move || {
        let _working = WorkingThread::begin(working.shared.opening);
        work(&working);
    };
    thread::spawn(name, body).map_err(Error::no_thread)
}
