//! The paths of a log's files.
//!
//! ```text
//! DIRECTORY/
//!   LOCK
//!   TAILWATER-LOG                   identity: format version and id of the log
//!   BOOT                            machine boot and shared memory of the last opening
//!   catalog-000001.journal          streams, topics and partitions
//!   offsets-000001.journal          offsets of consumers and groups
//!   streams/S/topics/T/partitions/
//!     P.I/                          partition P in incarnation I
//!       OFFSET-TIMESTAMP-G.log      its segments, and their indexes
//! ```
//!
//! A new incarnation begins when a partition is created or purged, and its number is never reused.
//! Obsolete files are therefore recognized by their path: if the catalog does not name the
//! incarnation of a directory, the directory is obsolete and is removed.

use std::path::{Path, PathBuf};

use tailwater_format::message::name::{FileName, StartName, TEMPORARY};
use tailwater_io::Storage;

use crate::Result;
use crate::catalog::{Catalog, PartitionId};
use crate::patience::patiently;

/// Name of the file that is locked while the log is open.
pub(crate) const LOCK: &str = "LOCK";
/// Name of the file that identifies a directory as a log.
pub(crate) const IDENTITY: &str = "TAILWATER-LOG";
/// Name of the file that records the boot ID and the shared-memory directory used when the log was
/// last opened.
pub(crate) const BOOT: &str = "BOOT";
/// Name of the directory that contains the directories of all streams.
pub(crate) const STREAMS: &str = "streams";

/// Returns the directory that contains the incarnations of all partitions of a topic.
pub(crate) fn partitions_directory(log: &Path, stream: u32, topic: u32) -> PathBuf {
    log.join(STREAMS)
        .join(stream.to_string())
        .join("topics")
        .join(topic.to_string())
        .join("partitions")
}

/// Returns the directory with the files of one incarnation of a partition.
pub(crate) fn incarnation_directory(log: &Path, id: PartitionId, incarnation: u64) -> PathBuf {
    let name = format!("{}.{incarnation}", id.partition);
    partitions_directory(log, id.stream, id.topic).join(name)
}

/// Parses the name of an incarnation's directory (`P.I`). Returns the partition's id within its
/// topic, and the number of the incarnation.
pub(crate) fn parse_incarnation(name: &str) -> Option<(u32, u64)> {
    let (partition, incarnation) = name.split_once('.')?;
    let parsed = (partition.parse().ok()?, incarnation.parse().ok()?);
    (format!("{}.{}", parsed.0, parsed.1) == name).then_some(parsed)
}

/// Begins an incarnation of a partition: reserves its number and creates its directory. A number
/// whose directory exists is skipped, because its files belong to somebody else. Returns the number
/// and the directory.
///
/// # Errors
/// I/O errors.
pub(crate) fn create_incarnation(
    storage: &dyn Storage,
    log: &Path,
    catalog: &Catalog,
    id: PartitionId,
) -> Result<(u64, PathBuf)> {
    loop {
        let incarnation = catalog.reserve_incarnation();
        let directory = incarnation_directory(log, id, incarnation);
        match storage.metadata(&directory) {
            Err(error) if error.is_not_found() => {
                storage.create_directory(&directory)?;
                return Ok((incarnation, directory));
            }
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
    }
}

/// Text between the name of a segment's file and the position from which on recovery has cut off
/// bytes, in the name of the file that keeps these bytes.
pub(crate) const CUT: &str = ".cut-";

/// Returns whether a file of this name in the directory of an incarnation belongs to the log.
fn is_own(name: &str) -> bool {
    let of_segment = name.strip_suffix(TEMPORARY).unwrap_or(name);
    let of_segment = of_segment.split_once(CUT).map_or(of_segment, |(segment, _)| segment);
    FileName::parse(of_segment).is_some() || StartName::parse(name).is_some()
}

/// Removes the directory of an incarnation and the log's files in it. Files of others, and then the
/// directory, stay. Errors are ignored: what remains is removed when the log is next opened.
pub(crate) fn remove_incarnation(storage: &dyn Storage, directory: &Path) {
    let Ok(entries) = patiently(|| storage.list(directory)) else { return };
    for entry in entries.iter().filter(|entry| is_own(&entry.name)) {
        let _ = storage.remove(&directory.join(&entry.name));
    }
    let _ = storage.remove_directory(directory);
}

/// Removes each directory of a partition's incarnation if the catalog does not contain the
/// incarnation. Each creation or purge of a partition begins an incarnation with its own directory.
/// An unused directory remains after its partition was purged or deleted, or after the creation of
/// its partition was interrupted.
///
/// # Errors
/// Errors from listing the directories.
pub(crate) fn remove_left_over(
    storage: &dyn Storage,
    log: &Path,
    is_named: impl Fn(PartitionId, u64) -> bool,
) -> Result<()> {
    let names = |directory: &Path| -> Result<Vec<String>> {
        match storage.list(directory) {
            Ok(entries) => Ok(entries.into_iter().map(|entry| entry.name).collect()),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    };
    let numbers = |directory: &Path| -> Result<Vec<u32>> {
        Ok(names(directory)?.iter().filter_map(|name| name.parse().ok()).collect())
    };
    let streams = log.join(STREAMS);
    for stream in numbers(&streams)? {
        for topic in numbers(&streams.join(stream.to_string()).join("topics"))? {
            let partitions = partitions_directory(log, stream, topic);
            for name in names(&partitions)? {
                let Some((partition, incarnation)) = parse_incarnation(&name) else { continue };
                if !is_named(PartitionId { stream, topic, partition }, incarnation) {
                    remove_incarnation(storage, &partitions.join(name));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incarnation_directory_names_round_trip() {
        let id = PartitionId { stream: 1, topic: 2, partition: 3 };
        let path = incarnation_directory(Path::new("/log"), id, 40);
        assert_eq!(path, Path::new("/log/streams/1/topics/2/partitions/3.40"));
        assert_eq!(parse_incarnation("3.40"), Some((3, 40)));
        for name in ["3", "3.", "03.40", "3.40.5", "3.+40", "x.1", "3.040"] {
            assert_eq!(parse_incarnation(name), None, "{name}");
        }
    }
}
