//! Which blobs a compaction leaves without anyone who refers to them.

use tailwater_format::blob::{BLOB_RECORD_HEADER_LENGTH, BlobIndex};
use tailwater_format::key::{self, ValueType};
use tailwater_format::version_edit::BlobFileGarbage;

use crate::{Error, ErrorKind, Result};

/// The blobs that records refer to which came in and went out again, by blob file.
///
/// It allocates only when it meets a file for the first time. Source:
/// `db/blob/blob_garbage_meter.cc`.
#[derive(Debug, Default)]
pub(crate) struct BlobGarbage {
    /// By file number.
    flows: Vec<Flow>,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    number: u64,
    left: Blobs,
}

/// So many blobs and bytes more came in than went out.
#[derive(Debug, Clone, Copy, Default)]
struct Blobs {
    count: u64,
    bytes: u64,
}

impl BlobGarbage {
    /// Takes a record that came in.
    #[inline]
    pub(crate) fn flow_in(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let Some((number, bytes)) = reference(internal_key, value)? else { return Ok(()) };
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
        Ok(())
    }

    /// Takes a record that goes out. Files that no record came in from are new.
    #[inline]
    pub(crate) fn flow_out(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let Some((number, bytes)) = reference(internal_key, value)? else { return Ok(()) };
        let found = self.flows.binary_search_by_key(&number, |flow| flow.number).ok();
        if let Some(flow) = found.and_then(|at| self.flows.get_mut(at)) {
            flow.left.count = flow.left.count.saturating_sub(1);
            flow.left.bytes = flow.left.bytes.saturating_sub(bytes);
        }
        Ok(())
    }

    /// What became garbage.
    pub(crate) fn garbage(&self) -> impl Iterator<Item = BlobFileGarbage> {
        self.flows.iter().filter(|flow| flow.left.count > 0).map(|flow| BlobFileGarbage {
            number: flow.number,
            blob_count: flow.left.count,
            blob_bytes: flow.left.bytes,
        })
    }
}

/// The blob file that a record refers to, and how many bytes its blob takes there.
#[inline]
fn reference(internal_key: &[u8], value: &[u8]) -> Result<Option<(u64, u64)>> {
    let Some((user_key, trailer)) = key::split(internal_key) else { return Ok(None) };
    if trailer as u8 != ValueType::BlobIndex as u8 {
        return Ok(None);
    }
    let index = BlobIndex::decode(value).map_err(|error| {
        let message = format!("key '{}': {error}", user_key.escape_ascii());
        Error::new(ErrorKind::Corruption, message)
    })?;
    match index {
        BlobIndex::Blob(location) if location.expiration.is_none() => {
            let head = BLOB_RECORD_HEADER_LENGTH + user_key.len();
            Ok(Some((location.file_number, location.size + head as u64)))
        }
        _ => Err(Error::not_supported("values that expire")),
    }
}
