//! Who counts the memory of a memtable, and who frees it.

use std::sync::Arc;

use crate::epoch::Bin;
use crate::write_buffer_manager::{MemTableCharge, WriteBufferManager};

/// The account of a memtable's memory. The parts of the memtable share it: each part has a clone.
/// The default counts nothing, and frees the memory on the thread that drops it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    /// Counts the memory.
    charge: Option<Arc<MemTableCharge>>,
    /// The bin of the database, whose collectors free the memory.
    bin: Bin,
}

impl Account {
    /// Creates the account of a new memtable. The process counts the memory and, if it is given,
    /// `manager`.
    pub(crate) fn new(manager: Option<&Arc<WriteBufferManager>>, bin: Bin) -> Self {
        Self { charge: Some(Arc::new(MemTableCharge::new(manager.cloned()))), bin }
    }

    /// Counts memory that the memtable has allocated.
    pub(super) fn add(&self, bytes: usize) {
        if let Some(charge) = &self.charge {
            charge.add(bytes);
        }
    }

    /// Counts the memory of the memtable's range deletions, which is `bytes` now.
    pub(super) fn add_tombstones(&self, bytes: usize) {
        if let Some(charge) = &self.charge {
            charge.add_tombstones(bytes);
        }
    }

    /// Notes that the memtable accepts no more writes.
    pub(super) fn seal(&self) {
        if let Some(charge) = &self.charge {
            charge.seal();
        }
    }

    /// Frees memory of the memtable in a background thread, because that may take long. The memory
    /// counts until it is freed.
    pub(super) fn free<T: Send + 'static>(&mut self, memory: T) {
        // The fields of a tuple are dropped in order, so the charge is dropped last.
        self.bin.drop_elsewhere((memory, self.charge.take()));
    }
}
