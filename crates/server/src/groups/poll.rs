//! A poll by a member of a group.

use std::sync::Arc;

use super::Group;
use super::members::Begun;
use crate::status::Status;

/// A poll in progress by a member of a group. The member keeps the partition until the poll has
/// ended and its messages are committed, or until a handover of the partition times out.
///
/// Dropping the value ends the poll as one that returned no messages.
#[derive(Debug)]
#[must_use = "the poll ends when this is dropped"]
pub(crate) struct Poll {
    group: Arc<Group>,
    begun: Begun,
    is_over: bool,
}

impl Poll {
    pub(super) fn new(group: Arc<Group>, begun: Begun) -> Self {
        Self { group, begun, is_over: false }
    }

    /// Returns the partition to read.
    pub(crate) fn partition(&self) -> u32 {
        self.begun.partition
    }

    /// Ends the poll. It returned messages up to and including the offset `last_offset`, which the
    /// member has yet to commit.
    pub(crate) fn polled(mut self, last_offset: u64) {
        self.is_over = true;
        self.group.members.lock().end_poll(self.begun, Some(last_offset));
    }

    /// Ends the poll, which returned messages up to and including the offset `last_offset`. Calls
    /// `store` to commit that offset.
    ///
    /// # Errors
    /// Partition not owned, if the partition has got another owner since the poll began; the
    /// messages must then not be returned to the client. Errors from `store`; the messages then
    /// count as polled but not committed.
    pub(crate) fn committed<T>(
        mut self,
        last_offset: u64,
        store: impl FnOnce() -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.is_over = true;
        let mut members = self.group.members.lock();
        if !members.is_current(self.begun) {
            return Err(Status::CONSUMER_GROUP_PARTITION_NOT_OWNED);
        }
        let stored = store();
        if stored.is_ok() {
            members.committed_polled(self.begun.partition, last_offset);
        }
        members.end_poll(self.begun, Some(last_offset));
        stored
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        if !self.is_over {
            self.group.members.lock().end_poll(self.begun, None);
        }
    }
}
