//! Tracks blobs that a compaction leaves unreferenced.

use tailwater_format::blob::{BLOB_RECORD_HEADER_LENGTH, BlobIndex, for_each_blob_index};
use tailwater_format::key::{self, ValueType};
use tailwater_format::version_edit::BlobFileGarbage;

use crate::error::{Error, ErrorKind, Result};

/// For each blob file, counts the references to its blobs that the compaction has read and not
/// written again.
///
/// Memory is allocated only at the first reference to a file. Source:
/// `db/blob/blob_garbage_meter.cc`.
#[derive(Debug, Default)]
pub(crate) struct BlobGarbage {
    /// One element for each blob file to which the records read so far refer, in the order of file
    /// numbers.
    flows: Vec<Flow>,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    number: u64,
    left: Blobs,
}

/// Number and total bytes of the blobs that were read, less those that were written.
#[derive(Debug, Clone, Copy, Default)]
struct Blobs {
    count: u64,
    bytes: u64,
}

impl BlobGarbage {
    /// Counts the references to blobs in a record that was read.
    #[inline]
    pub(crate) fn flow_in(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        for_each_reference(internal_key, value, |number, bytes| {
            let at = match self.flows.binary_search_by_key(&number, |flow| flow.number) {
                Ok(at) => at,
                Err(at) => {
                    self.flows.insert(at, Flow { number, left: Blobs::default() });
                    at
                }
            };
            if let Some(flow) = self.flows.get_mut(at) {
                flow.left.count += 1;
                flow.left.bytes += bytes;
            }
        })
    }

    /// Subtracts the references to blobs in a record that is written. Ignores references to blob
    /// files that the compaction itself wrote: these files have no element in `flows`, because no
    /// record read so far refers to them.
    #[inline]
    pub(crate) fn flow_out(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        for_each_reference(internal_key, value, |number, bytes| {
            let found = self.flows.binary_search_by_key(&number, |flow| flow.number).ok();
            if let Some(flow) = found.and_then(|at| self.flows.get_mut(at)) {
                flow.left.count = flow.left.count.saturating_sub(1);
                flow.left.bytes = flow.left.bytes.saturating_sub(bytes);
            }
        })
    }

    /// Returns, for each blob file, the blobs that became garbage: those referred to by records
    /// that were read, but not by records that were written.
    pub(crate) fn garbage(&self) -> impl Iterator<Item = BlobFileGarbage> {
        self.flows.iter().filter(|flow| flow.left.count > 0).map(|flow| BlobFileGarbage {
            number: flow.number,
            blob_count: flow.left.count,
            blob_bytes: flow.left.bytes,
        })
    }
}

/// Calls `take` for each blob reference in a record, with the number of the blob file and the size
/// of the blob's record in it, in bytes.
#[inline]
fn for_each_reference(
    internal_key: &[u8],
    value: &[u8],
    mut take: impl FnMut(u64, u64),
) -> Result<()> {
    let Some((user_key, trailer)) = key::split(internal_key) else { return Ok(()) };
    let Some(value_type) = ValueType::from_byte(trailer as u8) else { return Ok(()) };
    let head = (BLOB_RECORD_HEADER_LENGTH + user_key.len()) as u64;
    let taken = for_each_blob_index(value_type, value, |index| match BlobIndex::decode(index)? {
        BlobIndex::Blob(location) if location.expiration.is_none() => {
            take(location.file_number, location.size + head);
            Ok(())
        }
        _ => Err(tailwater_format::Error::unsupported("values that expire")),
    });
    taken.map_err(|error| {
        let kind = match error {
            tailwater_format::Error::Unsupported { .. } => ErrorKind::NotSupported,
            tailwater_format::Error::Corruption { .. } => ErrorKind::Corruption,
        };
        Error::new(kind, format!("key '{}': {error}", user_key.escape_ascii()))
    })
}
