//! Concurrent writes of several groups to one direct log. A group that is being written
//! like this is in flight.
//!
//! Each group is durable when its `write` call returns. The call sets a flag of the write
//! (`RWF_DSYNC`) or, if that is slower, flushes the file after the write (`fdatasync`). A flush
//! serves all groups whose writes had ended when the flush began.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::sync::{Condvar, Mutex};
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use super::blocks::Blocks;
use crate::error::{Error, ErrorKind, Result};

/// A slot: the file handle and the buffer with which a group in flight is written. A log creates a
/// new slot only if all its slots are in use.
#[derive(Debug)]
pub(super) struct WriteSlot {
    file: Box<dyn WriteFile>,
    blocks: Blocks,
}

impl WriteSlot {
    /// Creates a slot (file handle and buffer) to write to the log at `path`.
    pub(super) fn new(storage: &dyn Storage, path: &Path) -> Result<Self> {
        let file = storage.create(path, Create::Existing, IoMode::Direct, Purpose::Wal)?;
        Ok(Self { file, blocks: Blocks::new() })
    }

    /// Prepares to write `bytes` followed by `zeros` zero bytes at `offset`. Together they are
    /// whole blocks. They are made durable by `flushes`, if given, otherwise by a flag of the
    /// write.
    pub(super) fn begin_pipelined(
        mut self,
        bytes: &[u8],
        zeros: usize,
        offset: u64,
        flushes: Option<&Arc<Flushes>>,
    ) -> PipelinedWrite {
        self.blocks.set(bytes, zeros);
        PipelinedWrite { slot: self, offset, flushes: flushes.cloned() }
    }
}

/// Whole blocks of a log to be written over zeros.
#[derive(Debug)]
pub(crate) struct PipelinedWrite {
    pub(super) slot: WriteSlot,
    offset: u64,
    /// The flushes that make the write durable; `None` if a flag of the write (`RWF_DSYNC`) does.
    flushes: Option<Arc<Flushes>>,
}

impl PipelinedWrite {
    /// Writes this write's blocks to the log and makes them durable.
    pub(crate) fn write(&mut self) -> Result<()> {
        let Self { slot: WriteSlot { file, blocks }, offset, flushes } = self;
        match flushes {
            None => Ok(file.write_durably_at(blocks.as_slice(), *offset, Purpose::Wal)?),
            Some(flushes) => {
                file.write_all_at(blocks.as_slice(), *offset, Purpose::Wal)?;
                flushes.flush(&mut **file)
            }
        }
    }

    /// Returns the file offset at which this write's blocks end.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.slot.blocks.as_slice().len() as u64
    }
}

/// Makes the writes to one log durable by flushes (`fdatasync`). A flush may make several writes
/// durable.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of completed writes since the log began.
    written: u64,
    /// Number of writes since the log began that a flush (`fdatasync`) has made durable.
    flushed: u64,
    /// Whether a thread is flushing the log (`fdatasync`).
    is_flushing: bool,
    /// The error of a failed flush. Later writes fail with this error: how much reached the device
    /// is unknown after a failed flush, and another flush would not show it.
    failure: Option<Error>,
}

impl Flushes {
    /// Makes a completed write durable: waits for a flush that begins after this call, or performs
    /// such a flush.
    fn flush(&self, file: &mut dyn WriteFile) -> Result<()> {
        let mut state = self.state.lock();
        state.written += 1;
        let own = state.written;
        loop {
            if state.flushed >= own {
                return Ok(());
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.is_flushing {
                state = self.changed.wait(state);
                continue;
            }
            state.is_flushing = true;
            let flushing = Flushing { flushes: self, covers: state.written, result: None };
            drop(state);
            flushing.run(file);
            state = self.state.lock();
        }
    }
}

/// A flush in progress. Threads that wait for it get a result even if it panics.
struct Flushing<'a> {
    flushes: &'a Flushes,
    /// Number of writes, counted from the log's first, that are durable if the flush succeeds.
    covers: u64,
    result: Option<Result<()>>,
}

impl Flushing<'_> {
    fn run(mut self, file: &mut dyn WriteFile) {
        self.result = Some(file.sync_data(Purpose::Wal).map_err(Error::from));
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        let panicked = || Err(Error::new(ErrorKind::Panicked, "the flushing thread panicked"));
        let mut state = self.flushes.state.lock();
        state.is_flushing = false;
        match self.result.take().unwrap_or_else(panicked) {
            Ok(()) => state.flushed = self.covers,
            Err(error) => state.failure = Some(error),
        }
        drop(state);
        self.flushes.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;

    use tailwater_io::Result as IoResult;

    use super::*;

    /// A file whose syncs return the results that the test sends.
    #[derive(Debug)]
    struct Synced<'a>(&'a Mutex<Receiver<IoResult<()>>>, &'a Mutex<usize>);

    impl WriteFile for Synced<'_> {
        fn sync_data(&mut self, _: Purpose) -> IoResult<()> {
            *self.1.lock() += 1;
            self.0.lock().recv().unwrap()
        }

        fn write_at(&mut self, _: &[u8], _: u64, _: Purpose) -> IoResult<usize> {
            unreachable!()
        }

        fn write_durably_at(&mut self, _: &[u8], _: u64, _: Purpose) -> IoResult<()> {
            unreachable!()
        }

        fn sync_all(&mut self, _: Purpose) -> IoResult<()> {
            unreachable!()
        }

        fn truncate(&mut self, _: u64) -> IoResult<()> {
            unreachable!()
        }

        fn allocate(&mut self, _: u64, _: u64) -> IoResult<()> {
            unreachable!()
        }

        fn start_writeback(&mut self, _: u64, _: u64) -> IoResult<()> {
            unreachable!()
        }

        fn length(&self) -> IoResult<u64> {
            unreachable!()
        }

        fn path(&self) -> &Path {
            Path::new("log")
        }

        fn mode(&self) -> IoMode {
            IoMode::Direct
        }
    }

    fn failed() -> IoResult<()> {
        let path = Path::new("log");
        let reason = std::io::ErrorKind::InvalidData;
        Err(tailwater_io::Error::new(tailwater_io::Operation::Sync, path, reason))
    }

    /// Calls `Flushes::flush` after each of four writes. The first call starts an `fdatasync`, and
    /// the other three calls are made while it runs. A second `fdatasync` serves these three.
    /// `ends` are the results of both.
    fn flush_four(ends: [IoResult<()>; 2]) -> (Vec<bool>, usize) {
        let (sender, receiver) = channel();
        let (receiver, syncs) = (Mutex::new(receiver), Mutex::new(0));
        let flushes = Flushes::default();
        let flush = || flushes.flush(&mut Synced(&receiver, &syncs)).is_ok();
        let mut answers = Vec::new();
        thread::scope(|scope| {
            let first = scope.spawn(flush);
            while *syncs.lock() == 0 {
                thread::yield_now();
            }
            let others: Vec<_> = (0..3).map(|_| scope.spawn(flush)).collect();
            while flushes.state.lock().written < 4 {
                thread::yield_now();
            }
            for end in ends {
                sender.send(end).unwrap();
            }
            answers.push(first.join().unwrap());
            answers.extend(others.into_iter().map(|other| other.join().unwrap()));
        });
        let count = *syncs.lock();
        (answers, count)
    }

    #[test]
    fn one_flush_covers_all_completed_writes() {
        assert_eq!(flush_four([Ok(()), Ok(())]), (vec![true; 4], 2));
    }

    #[test]
    fn a_failed_flush_is_not_retried() {
        assert_eq!(flush_four([failed(), Ok(())]), (vec![false; 4], 1));
        let (answers, syncs) = flush_four([Ok(()), failed()]);
        assert_eq!((answers, syncs), (vec![true, false, false, false], 2));
    }
}
