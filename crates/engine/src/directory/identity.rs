//! The identity of a database. Both IDENTITY and the MANIFEST contain the database's ID. Tables
//! contain the ID of the session, which begins when the database is opened.

use std::path::Path;

use tailwater_format::file_name::FileKind;
use tailwater_io::{Purpose, Storage};

use crate::error::{Error, Result};
use crate::options::DbOptions;
use crate::version::write_whole;

/// The IDs of a database and of its current session, as written to its files.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseIdentity {
    pub(crate) database_id: String,
    pub(crate) session_id: String,
    /// The host name that new tables record; empty if tables are not to record it.
    pub(crate) host_id: String,
}

impl DatabaseIdentity {
    /// Returns the database ID if the options make it persist in a file. Returns an empty string if
    /// every opening creates a new ID.
    pub(crate) fn durable_id(&self, options: &DbOptions) -> &str {
        if options.write_identity_file || options.write_dbid_to_manifest {
            &self.database_id
        } else {
            ""
        }
    }
}

/// Returns a new database ID, a random UUID.
pub(crate) fn new_identity() -> String {
    let random = fastrand::u128(..);
    // Sets the version field to 4 and the variant field to 1, as RFC 9562 requires for a random
    // UUID.
    let bits = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// Writes the database's ID to IDENTITY, without syncing the directory. Every opening writes
/// CURRENT afterwards and then syncs the directory, before anything depends on the ID.
pub(crate) fn write_identity(storage: &dyn Storage, directory: &Path, id: &str) -> Result<()> {
    let aside = directory.join(FileKind::Temporary(0).to_string());
    write_whole(storage, &aside, id.as_bytes(), Purpose::Metadata)?;
    storage.rename(&aside, &directory.join(FileKind::Identity.to_string()))?;
    Ok(())
}

/// Returns the content of IDENTITY, if it exists.
pub(crate) fn read_identity(storage: &dyn Storage, directory: &Path) -> Result<Option<String>> {
    /// Upper bound of the length of an ID, in bytes.
    const LENGTH_MAX: u64 = 4096;
    let path = directory.join(FileKind::Identity.to_string());
    let Some(bytes) = storage.read_if_exists(&path, LENGTH_MAX, Purpose::Metadata)? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::corruption(&path, "an IDENTITY that is not UTF-8"))?;
    let id = text.trim_end();
    Ok((!id.is_empty()).then(|| id.to_owned()))
}

/// Returns the database ID that persists across openings, if there is one. `in_manifest` is the ID
/// in the MANIFEST, if it has one; otherwise the ID is read from IDENTITY.
pub(crate) fn durable_id(
    storage: &dyn Storage,
    directory: &Path,
    in_manifest: Option<&str>,
) -> Result<Option<String>> {
    match in_manifest {
        Some(id) => Ok(Some(id.to_owned())),
        None => read_identity(storage, directory),
    }
}

/// Returns the host ID that tables record.
pub(crate) fn host_id(options: &DbOptions) -> String {
    match options.db_host_id.as_str() {
        "__hostname__" => tailwater_io::host_name(),
        own => own.to_owned(),
    }
}
