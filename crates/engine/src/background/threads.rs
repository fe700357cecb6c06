//! Starting and ending the threads.

use std::sync::Arc;

use tailwater_io::thread::{self, Thread};

use crate::db::Writer;
use crate::{Error, ErrorKind, Result};

/// The threads of one database. Dropping them waits for their ends.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    #[expect(dead_code, reason = "dropped to be joined")]
    flushing: Vec<Thread>,
    compacting: Vec<Thread>,
}

impl Threads {
    /// Starts a thread that flushes, one that cleans up and some that compact.
    pub(crate) fn start(writer: &Arc<Writer>) -> Result<Self> {
        let flushing = vec![
            spawn("tailwater-flush", writer, |writer| writer.run_flushes())?,
            spawn("tailwater-clean", writer, |writer| writer.run_cleaning())?,
        ];
        let mut threads = Self { flushing, compacting: Vec::new() };
        threads.grow(writer)?;
        Ok(threads)
    }

    /// Starts threads until there are as many as compactions may run at a time. Those that are
    /// more rest.
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
    thread::spawn(name, move || work(&working)).map_err(|error| {
        Error::new(ErrorKind::Io, format!("cannot start the thread '{name}': {error}"))
    })
}
