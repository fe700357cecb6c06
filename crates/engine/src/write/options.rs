//! Options of a write.

use tailwater_io::pace::Priority;

use crate::setters::setters;

/// Options of one write. The names and defaults are those of RocksDB's `WriteOptions`.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// # let db = tailwater::Db::open_default(directory)?;
/// use tailwater::WriteOptions;
///
/// // When this returns, the write survives a crash of the machine.
/// db.put_opt("key", "value", &WriteOptions::new().with_sync(true))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Return when the write is on the device, so that it survives a crash of the machine. Default:
    /// false; the write then survives a crash of the process, but perhaps not of the machine.
    pub sync: bool,
    /// Do not log the write: it is lost if the process ends before its memtable is flushed.
    /// Default: false.
    pub disable_wal: bool,
    /// Fail instead of waiting while writes are stalled. Default: false.
    pub no_slowdown: bool,
    /// The priority at which the write is charged to the database's rate limiter
    /// ([`OpenOptions::set_rate_limiter`](crate::OpenOptions::set_rate_limiter)), for which it
    /// waits before its turn. With `None`, the default, as with RocksDB's `IO_TOTAL`, it is not. As
    /// in RocksDB, the only other value that is accepted is [`Priority::User`], and not together
    /// with `disable_wal` or the option `manual_wal_flush`.
    pub rate_limiter_priority: Option<Priority>,
}

impl WriteOptions {
    /// Returns the default options.
    pub const fn new() -> Self {
        Self { sync: false, disable_wal: false, no_slowdown: false, rate_limiter_priority: None }
    }

    /// Sets [`rate_limiter_priority`](Self::rate_limiter_priority).
    #[must_use]
    pub fn with_rate_limiter_priority(mut self, priority: impl Into<Option<Priority>>) -> Self {
        self.rate_limiter_priority = priority.into();
        self
    }
}

setters!(WriteOptions {
    with_sync(sync: bool),
    with_disable_wal(disable_wal: bool),
    with_no_slowdown(no_slowdown: bool),
});
