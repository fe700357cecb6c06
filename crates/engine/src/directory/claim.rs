//! Claims: files that name the owner of the files in a directory outside a database's home.
//!
//! A database claims a directory before it writes anything else there. The claim is written to a
//! temporary file, synced, and hard-linked to its final name. The link fails if another database
//! has claimed the directory first. So the directory always has either no claim or a complete one.
//!
//! A crash before the link is safe: the directory is unclaimed and unchanged.
//!
//! The format is that of [`tailwater_format::claim`].

use std::path::{Path, PathBuf};

use tailwater_format::claim::Claim;
use tailwater_format::file_name::FileKind;
use tailwater_io::{FileIdentity, Purpose, Storage};

use crate::error::{Error, Result};
use crate::version::write_whole;

/// Maximum number of bytes that are read from a claim.
const CLAIM_BYTES_MAX: u64 = 64 << 20;

/// The home of a database, as recorded in claims.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    /// The absolute path of the home, with links resolved.
    pub(crate) path: PathBuf,
    pub(crate) identity: FileIdentity,
}

impl Home {
    /// Returns the path and the identity of the home directory `directory`.
    pub(crate) fn at(storage: &dyn Storage, directory: &Path) -> Result<Self> {
        let path = storage.canonical_path(directory)?;
        let identity = storage.identity(&path)?;
        Ok(Self { path, identity })
    }

    /// Returns the claim of a database on `directory`, an absolute path with links resolved.
    /// `database_id` is the database's id, and `self` is its home. `identity` is the claimed
    /// directory's device and inode.
    pub(super) fn claim(
        &self,
        database_id: &str,
        directory: &Path,
        identity: FileIdentity,
    ) -> Claim {
        let FileIdentity { device, inode } = self.identity;
        let claim = Claim::new(database_id, device, inode, &self.path.to_string_lossy());
        match directory.strip_prefix(&self.path) {
            Ok(inside) => claim.inside(&inside.to_string_lossy(), identity.device, identity.inode),
            Err(_) => claim,
        }
    }

    /// Whether `claim`, which was found in `directory`, belongs to the database with this id and
    /// this home.
    ///
    /// The database ids must be equal. An id is empty if the database has no durable id, and an
    /// empty id equals every id. In addition, one of two conditions must hold:
    ///
    /// - The claim names this home: the inode is equal, and the device or the path is equal. A
    ///   renamed home keeps device and inode. The device number may change when the home's
    ///   filesystem is mounted again.
    /// - The directory is inside the home, at the same relative path as in the claim. A copy of the
    ///   home includes a copy of such a directory, which belongs to the copied database. But the
    ///   claim also records the device and inode of the claimed directory. If `directory` still has
    ///   these, it was not copied: it is a mount point that the home and its copy share. Then it
    ///   belongs to the home whose path is in the claim.
    pub(super) fn is_named_by(
        &self,
        claim: &Claim,
        database_id: &str,
        directory: &Path,
        identity: FileIdentity,
    ) -> bool {
        let own = self.claim(database_id, directory, identity);
        let is_named = claim.database_id == own.database_id
            || claim.database_id.is_empty()
            || own.database_id.is_empty();
        let is_this_home = claim.home_inode == own.home_inode
            && (claim.home_device == own.home_device || claim.home_path == own.home_path);
        let goes_along = match (&claim.inside, &own.inside) {
            (Some(then), Some(now)) => {
                then.path == now.path && (then != now || claim.home_path == own.home_path)
            }
            _ => false,
        };
        is_named && (is_this_home || goes_along)
    }
}

/// Returns the claim in a directory, if there is one.
pub(super) fn read_claim(storage: &dyn Storage, directory: &Path) -> Result<Option<Claim>> {
    let path = claim_path(directory);
    let Some(bytes) = storage.read_if_exists(&path, CLAIM_BYTES_MAX, Purpose::Metadata)? else {
        return Ok(None);
    };
    Claim::parse(&bytes).map(Some).map_err(|error| Error::decoding(&path, 0, error))
}

/// Claims a directory that has no claim.
///
/// # Errors
/// Errors from writing; invalid argument, if another database claimed it at the same time.
pub(super) fn make_claim(storage: &dyn Storage, directory: &Path, claim: &Claim) -> Result<()> {
    let aside = write_aside(storage, directory, claim)?;
    let path = claim_path(directory);
    let linked = match storage.link(&aside, &path) {
        Ok(()) => Ok(()),
        Err(_) => match read_claim(storage, directory)? {
            // An earlier attempt created this claim, and a crash followed.
            Some(there) if there == *claim => Ok(()),
            Some(there) => Err(claimed_by(directory, &there)),
            // There is no claim, so the link failed because the filesystem does not support links.
            None => storage.rename(&aside, &path).map_err(Error::from),
        },
    };
    match storage.remove(&aside) {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => linked?,
    }
    storage.sync_directory(directory)?;
    Ok(())
}

/// Replaces the existing claim.
pub(super) fn replace_claim(storage: &dyn Storage, directory: &Path, claim: &Claim) -> Result<()> {
    let aside = write_aside(storage, directory, claim)?;
    // A crash here is safe: the old claim counts.
    storage.rename(&aside, &claim_path(directory))?;
    storage.sync_directory(directory)?;
    Ok(())
}

/// Removes the claim in a directory, if there is one. Also removes the lock file, and the temporary
/// claim that the database in `home` created there. The removal is durable.
pub(crate) fn remove_claim(storage: &dyn Storage, home: &Home, directory: &Path) -> Result<()> {
    let lock = directory.join(FileKind::OutsideLock.to_string());
    for path in [aside_path(directory, home.identity), lock, claim_path(directory)] {
        match storage.remove(&path) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    storage.sync_directory(directory)?;
    Ok(())
}

/// Returns the error for a directory that another database has claimed.
pub(super) fn claimed_by(directory: &Path, claim: &Claim) -> Error {
    let Claim { database_id, home_path, .. } = claim;
    let message = format!(
        "the directory is claimed by database {database_id} in {home_path}; if that database was \
         moved here or is gone, adopt the directory (set_adopt_directories, --adopt-directories)"
    );
    Error::invalid_argument(message).in_file(directory)
}

fn write_aside(storage: &dyn Storage, directory: &Path, claim: &Claim) -> Result<PathBuf> {
    let home = FileIdentity { device: claim.home_device, inode: claim.home_inode };
    let aside = aside_path(directory, home);
    write_whole(storage, &aside, claim.to_text().as_bytes(), Purpose::Metadata)?;
    Ok(aside)
}

/// Returns the path of the temporary file to which a claim is written first. The path depends on
/// `home`. So databases that claim a directory at the same time write to different files.
fn aside_path(directory: &Path, home: FileIdentity) -> PathBuf {
    let FileIdentity { device, inode } = home;
    directory.join(format!("{}-{device}-{inode}.dbtmp", FileKind::Claim))
}

fn claim_path(directory: &Path) -> PathBuf {
    directory.join(FileKind::Claim.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(inode: u64) -> FileIdentity {
        FileIdentity { device: 1, inode }
    }

    /// Regression test: the home of a database was copied, and the same log directory was mounted
    /// in both homes. In the copy, the log directory was treated as a copied directory. So opening
    /// the copied database replayed and removed the original's logs.
    #[test]
    fn a_copied_directory_inside_a_copied_home_belongs_to_the_copy() {
        let original = Home { path: "/a".into(), identity: id(1) };
        let copy = Home { path: "/b".into(), identity: id(2) };
        let restored = Home { path: "/a".into(), identity: id(3) };
        let claim = original.claim("id", "/a/logs".as_ref(), id(10));
        let is_named = |home: &Home, directory: &str, identity| {
            home.is_named_by(&claim, "id", directory.as_ref(), identity)
        };
        assert!(is_named(&original, "/a/logs", id(10)));
        assert!(is_named(&copy, "/b/logs", id(20)));
        assert!(!is_named(&copy, "/b/logs", id(10)));
        assert!(!is_named(&copy, "/b/other", id(20)));
        assert!(is_named(&restored, "/a/logs", id(10)));
    }
}
