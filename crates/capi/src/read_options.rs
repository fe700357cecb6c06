//! Options of reads.

use std::borrow::Cow;
use std::ffi::c_uchar;
use std::sync::{Arc, Weak};

use tailwater::{ReadOptions, Snapshot};

use crate::boundary::{Failure, Outcome, entry, give};
use crate::database::rocksdb_t;
use crate::marks::{Marked, Marks};
use crate::snapshot::rocksdb_snapshot_t;

/// Options of reads.
#[derive(Default)]
pub(crate) struct rocksdb_readoptions_t {
    pub(crate) options: ReadOptions,
    pub(crate) marks: Marks,
    /// Has no effect: files are always removed in the background.
    pub(crate) background_purge: bool,
    /// The snapshot to read. These options do not keep it.
    snapshot: Option<Weak<Snapshot>>,
}

impl Marked for rocksdb_readoptions_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl rocksdb_readoptions_t {
    /// Returns the options for a read of `db`.
    #[inline]
    pub(crate) fn ready(&self, db: &rocksdb_t) -> Outcome<Cow<'_, ReadOptions>> {
        db.ready()?;
        self.marks.check(db)?;
        match &self.snapshot {
            None => Ok(Cow::Borrowed(&self.options)),
            Some(snapshot) => {
                let released = || Failure::invalid("the snapshot was released");
                let snapshot = snapshot.upgrade().ok_or_else(released)?;
                Ok(Cow::Owned(self.options.clone().with_snapshot(Snapshot::clone(&snapshot))))
            }
        }
    }
}

entry! {
    fn rocksdb_readoptions_create() -> *mut rocksdb_readoptions_t {
        Ok(give(rocksdb_readoptions_t::default()))
    }
}

entry! {
    fn rocksdb_readoptions_destroy(opt: own rocksdb_readoptions_t) {
        drop(opt);
        Ok(())
    }
}

entry! {
    fn rocksdb_readoptions_set_snapshot(
        opt: &mut rocksdb_readoptions_t,
        snap: maybe_const rocksdb_snapshot_t,
    ) {
        opt.snapshot = snap.map(|snap| Arc::downgrade(&snap.snapshot));
        Ok(())
    }
}

entry! {
    fn rocksdb_readoptions_set_iterate_lower_bound(
        opt: &mut rocksdb_readoptions_t,
        key: option[keylen],
    ) {
        opt.options.iterate_lower_bound = key.map(<[u8]>::to_vec);
        Ok(())
    }
}

entry! {
    fn rocksdb_readoptions_set_iterate_upper_bound(
        opt: &mut rocksdb_readoptions_t,
        key: option[keylen],
    ) {
        opt.options.iterate_upper_bound = key.map(<[u8]>::to_vec);
        Ok(())
    }
}

entry! {
    /// Makes seeks find all keys, which a total order does as well.
    fn rocksdb_readoptions_set_auto_prefix_mode(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        opt.options.total_order_seek |= v != 0;
        opt.marks.store("", "auto_prefix_mode", v.into(), 0, crate::marks::Effect::Nothing);
        Ok(())
    }
}

entry! {
    fn rocksdb_readoptions_get_auto_prefix_mode(opt: shared rocksdb_readoptions_t) -> c_uchar {
        Ok((opt.marks.stored("auto_prefix_mode", 0) != 0).into())
    }
}
