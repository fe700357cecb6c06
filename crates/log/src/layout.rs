//! The paths of a log's files.
//!
//! ```text
//! DIRECTORY/
//!   LOCK
//!   TAILWATER-LOG                   identity: format version and id of the log
//!   BOOT                            id of the machine's boot in which it was last opened
//!   catalog-000001.journal          streams, topics and partitions
//!   offsets-000001.journal          offsets of consumers and groups
//!   streams/S/topics/T/partitions/
//!     P.I/                          partition P in incarnation I
//!       OFFSET-TIMESTAMP-G.log      its segments, and their indexes
//! ```
//!
//! An incarnation begins when a partition is created or purged, and its number is never reused.
//! Files of another incarnation are therefore recognised by their path: a directory that the
//! catalog does not name is left over, and is removed.

use std::path::{Path, PathBuf};

use crate::catalog::PartitionId;

/// Name of the file that is locked while the log is open.
pub(crate) const LOCK: &str = "LOCK";
/// Name of the file that makes a directory a log.
pub(crate) const IDENTITY: &str = "TAILWATER-LOG";
/// Name of the file with the boot of the machine in which the log was last opened.
pub(crate) const BOOT: &str = "BOOT";
/// Name of the directory of all streams.
pub(crate) const STREAMS: &str = "streams";

/// Returns the directory with all incarnations of a topic's partitions.
pub(crate) fn partitions_directory(log: &Path, stream: u32, topic: u32) -> PathBuf {
    log.join(STREAMS)
        .join(stream.to_string())
        .join("topics")
        .join(topic.to_string())
        .join("partitions")
}

/// Returns the directory of one incarnation of a partition.
pub(crate) fn incarnation_directory(log: &Path, id: PartitionId, incarnation: u64) -> PathBuf {
    let name = format!("{}.{incarnation}", id.partition);
    partitions_directory(log, id.stream, id.topic).join(name)
}

/// Reads the name of an incarnation's directory: partition and incarnation.
pub(crate) fn parse_incarnation(name: &str) -> Option<(u32, u64)> {
    let (partition, incarnation) = name.split_once('.')?;
    let parsed = (partition.parse().ok()?, incarnation.parse().ok()?);
    (format!("{}.{}", parsed.0, parsed.1) == name).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incarnations_are_read_back() {
        let id = PartitionId { stream: 1, topic: 2, partition: 3 };
        let path = incarnation_directory(Path::new("/log"), id, 40);
        assert_eq!(path, Path::new("/log/streams/1/topics/2/partitions/3.40"));
        assert_eq!(parse_incarnation("3.40"), Some((3, 40)));
        for name in ["3", "3.", "03.40", "3.40.5", "3.+40", "x.1", "3.040"] {
            assert_eq!(parse_incarnation(name), None, "{name}");
        }
    }
}
