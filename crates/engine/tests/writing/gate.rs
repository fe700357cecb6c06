//! A storage with a gate. A test can stop one call at the gate and let it continue later. The
//! storage may also have a fuse, which makes calls panic.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tailwater::OpenOptions;
use tailwater_io::buffer::ALIGNMENT;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{
    Create, Error, IoMode, Operation, Purpose, ReadFile, Result, Storage, WriteFile,
};

use crate::fuse::{Fuse, Object};

/// A kind of storage call that the gate can stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Open(Purpose),
    Link,
    CreateDirectory,
    Rename,
    /// A durable write (`RWF_DSYNC`) of a block.
    WriteDurably,
    /// A write of a block to a log.
    WriteLog,
    /// A sync of a log.
    SyncLog,
    /// A sync of a MANIFEST.
    SyncManifest,
    /// A write to a table that a flush writes.
    WriteTable,
    /// A sync of a table that a flush writes.
    SyncTable,
}

#[derive(Debug, Default)]
struct State {
    /// The kind of call that the gate stops, and how many calls of this kind pass the gate before
    /// the stopped one.
    awaited: Option<(Call, usize)>,
    is_reached: bool,
    is_open: bool,
    /// Number of calls of [`Gate::stop`].
    turn: usize,
    /// Whether the stopped call returns an error when it continues. Only syncs support this.
    fails: bool,
}

/// A storage that forwards calls to `files`. A test can stop one call at the gate, and let it
/// continue later.
#[derive(Debug)]
pub(crate) struct Gate {
    files: Arc<dyn Storage>,
    barrier: Arc<Barrier>,
}

#[derive(Debug, Default)]
struct Barrier {
    state: Mutex<State>,
    changed: Condvar,
    fuse: Arc<Fuse>,
}

impl Gate {
    /// Creates a gate in front of the storage of the operating system.
    pub(crate) fn new() -> Arc<Self> {
        Self::over(Arc::new(PosixStorage::new()))
    }

    pub(crate) fn over(files: Arc<dyn Storage>) -> Arc<Self> {
        Arc::new(Self { files, barrier: Arc::default() })
    }

    /// Creates a storage that stops no call but has a fuse. Calls that create, remove or write
    /// files panic when the fuse is armed for [`Object::Storage`].
    pub(crate) fn fused(files: Arc<dyn Storage>, fuse: &Arc<Fuse>) -> Arc<Self> {
        let barrier = Barrier { fuse: Arc::clone(fuse), ..Barrier::default() };
        Arc::new(Self { files, barrier: Arc::new(barrier) })
    }

    /// Returns options for a database on this storage. Opening the database creates it if it is
    /// missing.
    pub(crate) fn options(self: &Arc<Self>, text: &str) -> OpenOptions {
        let mut options = OpenOptions::with_storage(Arc::clone(self) as Arc<dyn Storage>);
        options.set_from_string("create_if_missing=true").expect("options");
        options.set_from_string(text).expect("options");
        options
    }

    /// Arranges that the gate lets `passes` calls of this kind pass and stops the next one. A call
    /// that was stopped before continues.
    pub(crate) fn stop(&self, call: Call, passes: usize) {
        let mut state = self.barrier.state.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = state.turn + 1;
        *state = State { awaited: Some((call, passes)), turn, ..State::default() };
        self.barrier.changed.notify_all();
    }

    /// Waits until a call has been stopped at the gate.
    pub(crate) fn wait(&self) {
        let state = self.barrier.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.barrier.changed.wait_while(state, |state| !state.is_reached));
    }

    /// Lets the storage call that is stopped at the gate continue.
    pub(crate) fn open(&self) {
        self.barrier.state.lock().unwrap_or_else(PoisonError::into_inner).is_open = true;
        self.barrier.changed.notify_all();
    }

    /// Lets the stopped call, a sync, continue and return an error.
    pub(crate) fn open_to_fail(&self) {
        self.barrier.state.lock().unwrap_or_else(PoisonError::into_inner).fails = true;
        self.open();
    }
}

/// Opens the gate when it is dropped. So the stopped call continues even if an assertion fails, and
/// its thread can end.
pub(crate) struct Opening<'g>(pub(crate) &'g Gate);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Barrier {
    /// Waits at the gate if this call is the one to stop. Returns whether the call must return an
    /// error.
    fn pass(&self, call: Call) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut state.awaited {
            Some((awaited, 0)) if *awaited == call => state.awaited = None,
            Some((awaited, passes)) if *awaited == call => {
                *passes -= 1;
                return false;
            }
            _ => return false,
        }
        state.is_reached = true;
        self.changed.notify_all();
        let turn = state.turn;
        let is_stopped = |state: &mut State| !state.is_open && state.turn == turn;
        let opened = self.changed.wait_while(state, is_stopped);
        opened.unwrap_or_else(PoisonError::into_inner).fails
    }
}

impl Storage for Gate {
    tailwater_io::forward_storage!(
        files: remove_directory, list, metadata, identity, canonical_path, capabilities,
        resident_pages, sync_directory, lock, statistics,
    );

    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        self.barrier.pass(Call::Open(purpose));
        self.files.open(path, mode, purpose)
    }

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        self.barrier.fuse.burn(Object::Storage);
        let file = self.files.create(path, create, mode, purpose)?;
        Ok(Box::new(GatedFile { file, barrier: Arc::clone(&self.barrier) }))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.barrier.fuse.burn(Object::Storage);
        self.files.remove(path)
    }

    fn link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.barrier.pass(Call::Link);
        self.files.link(existing, new)
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.barrier.pass(Call::CreateDirectory);
        self.files.create_directory(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.barrier.pass(Call::Rename);
        self.files.rename(from, to)
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Box<dyn WriteFile>,
    barrier: Arc<Barrier>,
}

impl WriteFile for GatedFile {
    tailwater_io::forward_write_file!(
        file: sync_all, truncate, allocate, start_writeback, length, path, mode,
        alignment,
    );

    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize> {
        if bytes.len() == ALIGNMENT && purpose == Purpose::Wal {
            self.barrier.pass(Call::WriteLog);
        }
        if purpose == Purpose::FlushWrite {
            self.barrier.pass(Call::WriteTable);
        }
        self.barrier.fuse.burn(Object::Storage);
        self.file.write_at(bytes, offset, purpose)
    }

    fn sync_data(&mut self, purpose: Purpose) -> Result<()> {
        let fails = match purpose {
            Purpose::Wal => self.barrier.pass(Call::SyncLog),
            Purpose::Manifest => self.barrier.pass(Call::SyncManifest),
            Purpose::FlushWrite => self.barrier.pass(Call::SyncTable),
            _ => false,
        };
        if fails {
            let cause = std::io::Error::other("a sync that the gate failed");
            return Err(Error::new(Operation::Sync, self.path(), cause));
        }
        self.file.sync_data(purpose)
    }

    fn write_durably_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<()> {
        if bytes.len() == ALIGNMENT {
            self.barrier.pass(Call::WriteDurably);
        }
        self.file.write_durably_at(bytes, offset, purpose)
    }
}
