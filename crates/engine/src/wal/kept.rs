//! Logs that are kept as they are at one point in time, so that they can be copied.

use std::path::{Path, PathBuf};

use tailwater_format::file_name::FileKind;
use tailwater_format::key::MAX_SEQUENCE;

use crate::wal::followed::Follower;

/// The logs that recovery needed at the point in time at which the value was created. They are
/// neither removed nor overwritten while the value lives.
#[derive(Debug)]
pub(crate) struct KeptLogs {
    logs: Vec<KeptLog>,
    _keeper: Follower,
}

#[derive(Debug)]
pub(crate) struct KeptLog {
    pub(crate) path: PathBuf,
    pub(crate) number: u64,
    /// The length in bytes of what was in the log.
    pub(crate) end: u64,
}

impl KeptLogs {
    /// Keeps the logs `numbers` of `directory`, which `follower` has not read. Returns `None` if
    /// one of them has batches that were never published.
    pub(super) fn new(follower: Follower, directory: &Path, numbers: &[u64]) -> Option<Self> {
        let kept = |&number: &u64| {
            let state = follower.state_of(number);
            (state.last_sequence == MAX_SEQUENCE).then(|| KeptLog {
                path: directory.join(FileKind::Wal(number).to_string()),
                number,
                end: state.end,
            })
        };
        let logs = numbers.iter().map(kept).collect::<Option<_>>()?;
        Some(Self { logs, _keeper: follower })
    }

    /// Returns the logs, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeptLog> {
        self.logs.iter()
    }
}
