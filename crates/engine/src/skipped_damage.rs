//! The damage that iterators skip if their read options ask for that.

use std::collections::HashSet;
use std::sync::Arc;

use tailwater_io::sync::Mutex;

use crate::error::{Error, ErrorKind};

/// A record of the damage that iterators have skipped, for
/// [`ReadOptions::skipped_damage`](crate::ReadOptions::skipped_damage). Clones share the record. It
/// may be used by several threads.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// # let db = tailwater::Db::open_default(directory)?;
/// use tailwater::{ReadOptions, SkippedDamage};
///
/// db.put("a", "1")?;
/// let skipped = SkippedDamage::default();
/// let options = ReadOptions::new().with_skipped_damage(skipped.clone());
/// for entry in db.range_opt(.., &options) {
///     let (_key, _value) = entry?;
/// }
/// for part in skipped.take() {
///     eprintln!("skipped: {}", part.error);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct SkippedDamage(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    parts: Vec<SkippedPart>,
    /// All parts that were ever recorded, with their errors as text. An iterator that turns around
    /// or seeks finds the same damage again.
    known: HashSet<(String, SkippedKeys)>,
}

/// A part of a column family that an iterator skipped because it is damaged.
#[derive(Debug)]
#[non_exhaustive]
pub struct SkippedPart {
    /// The error that reading the part returned. It names the file and, if known, the offset.
    pub error: Error,
    /// The keys that are affected.
    pub keys: SkippedKeys,
}

/// The keys that are affected by skipped damage.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SkippedKeys {
    /// A key whose value cannot be read, or whose operands cannot be merged. The iterator does not
    /// show the key.
    One(Vec<u8>),
    /// All keys of which the part may have records. The iterator shows such a key only if other
    /// parts have records of it. Its value may then be an older one, and the key may have been
    /// deleted.
    Range {
        /// Inclusive lower bound of the keys; `None` for all keys of the file up to `to`.
        from: Option<Vec<u8>>,
        /// Inclusive upper bound of the keys; `None` for all keys of the file from `from` on.
        to: Option<Vec<u8>>,
    },
}

impl SkippedPart {
    /// Returns the key, if one key was skipped because its operands cannot be merged: the merge
    /// operator is missing or failed, or the value would be too long. Nothing is damaged then, and
    /// the key exists.
    pub fn unmerged_key(&self) -> Option<&[u8]> {
        use ErrorKind::{InvalidArgument, LimitReached, UserCode};
        match &self.keys {
            SkippedKeys::One(key)
                if matches!(self.error.kind(), InvalidArgument | LimitReached | UserCode) =>
            {
                Some(key)
            }
            _ => None,
        }
    }
}

impl SkippedDamage {
    /// Returns the parts that were skipped since the last call, in the order in which they were
    /// found. A part that is skipped repeatedly is returned only once.
    pub fn take(&self) -> Vec<SkippedPart> {
        std::mem::take(&mut self.0.lock().parts)
    }

    /// Records that the part whose reading returned `error` is skipped.
    ///
    /// # Errors
    /// Returns `error` if its cause is not damage.
    #[cold]
    pub(crate) fn skip(
        &self,
        error: Error,
        keys: impl FnOnce() -> SkippedKeys,
    ) -> Result<(), Error> {
        // The last three kinds are about the operands of one key.
        let is_damage = matches!(
            error.kind(),
            ErrorKind::Corruption
                | ErrorKind::NotFound
                | ErrorKind::Io
                | ErrorKind::LimitReached
                | ErrorKind::UserCode
                | ErrorKind::InvalidArgument
        );
        if !is_damage || error.is_out_of_descriptors() {
            return Err(error);
        }
        let keys = keys();
        let mut record = self.0.lock();
        if record.known.insert((error.to_string(), keys.clone())) {
            record.parts.push(SkippedPart { error, keys });
        }
        Ok(())
    }
}
