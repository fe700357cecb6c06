//! Starting and ending the threads.

use std::sync::Arc;

use tailwater_io::thread::{self, Thread};

use crate::background::OwnWork;
use crate::db::Writer;
use crate::{Error, Result};

/// The threads of one database. Dropping them waits for their ends, so whoever does has asked them
/// to end; a thread that drops itself among them goes on to its own end.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Dropped to be joined.
    others: Vec<Thread>,
    compacting: Vec<Thread>,
}

impl Threads {
    /// Starts a thread that flushes, one that cleans up and some that compact.
    ///
    /// # Errors
    /// Those of starting a thread, with its name. Those that were started have ended then.
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

    /// Starts threads until there are as many as compactions may run at a time. Those that are
    /// more rest.
    ///
    /// # Errors
    /// Those of starting a thread. The database goes on with those that there are.
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
        let _own = OwnWork::begin(working.shared.opening);
        work(&working);
    };
    thread::spawn(name, body).map_err(Error::no_thread)
}
