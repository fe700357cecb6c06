//! The open blob files of a column family.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tailwater_format::blob::BlobIndex;
use tailwater_format::file_name::FileKind;
use tailwater_io::{IoMode, Purpose, Storage};

use crate::blob::BlobReader;
use crate::{Error, ErrorKind, Result};

/// The open blob files of a column family. They stay open until they leave the version.
#[derive(Debug)]
pub(crate) struct BlobCache {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    open: Mutex<HashMap<u64, Arc<BlobReader>>>,
}

impl BlobCache {
    /// A cache that has no file open. Blob files are in `directory`.
    pub(crate) fn new(storage: Arc<dyn Storage>, directory: PathBuf) -> Self {
        Self { storage, directory, open: Mutex::default() }
    }

    /// Reads the value that a blob index of `user_key` stands for.
    pub(crate) fn read(&self, user_key: &[u8], index: &[u8], purpose: Purpose) -> Result<Vec<u8>> {
        let index = BlobIndex::decode(index).map_err(|error| {
            let message = format!("key '{}': {error}", user_key.escape_ascii());
            Error::new(ErrorKind::Corruption, message)
        })?;
        match index {
            BlobIndex::Inlined { .. } => Err(Error::not_supported("values that expire")),
            BlobIndex::Blob(location) => {
                self.open(location.file_number, purpose)?.read(user_key, &location, purpose)
            }
        }
    }

    /// The reader of a blob file, opened if it is not yet.
    pub(crate) fn open(&self, number: u64, purpose: Purpose) -> Result<Arc<BlobReader>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reader) = open.get(&number) {
            return Ok(Arc::clone(reader));
        }
        let path = self.directory.join(FileKind::Blob(number).to_string());
        let file = self.storage.open(&path, IoMode::Buffered, purpose)?;
        let reader = Arc::new(BlobReader::open(file, purpose)?);
        open.insert(number, Arc::clone(&reader));
        Ok(reader)
    }
}
