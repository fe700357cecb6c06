//! Options of a write.

/// Options of one write. The names and defaults are those of RocksDB's `WriteOptions`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Return when the write is on the device, so that it survives a crash of the machine. Default:
    /// false, which survives a crash of the process.
    pub sync: bool,
    /// Do not log the write: it is lost if the process ends before its memtable is flushed.
    /// Default: false.
    pub disable_wal: bool,
    /// Fail instead of waiting while writes are stalled. Default: false.
    pub no_slowdown: bool,
}
