//! Options of reads.

use std::ffi::{c_int, c_uchar};
use std::sync::{Arc, Weak};

use tailwater::{ReadOptions, Snapshot};

use crate::boundary::{Failure, Outcome, entry, give};
use crate::database::rocksdb_t;
use crate::marks::{Marked, Marks};
use crate::rate_limiter::IoPriority;
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
    /// Whether seeks find all keys, which they do in a total order as well.
    auto_prefix_mode: bool,
    priority: IoPriority,
}

impl Marked for rocksdb_readoptions_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl rocksdb_readoptions_t {
    /// Calls `read` with the options for a read of `db`.
    #[inline(always)]
    pub(crate) fn with<R>(
        &self,
        db: &rocksdb_t,
        read: impl FnOnce(&ReadOptions) -> Outcome<R>,
    ) -> Outcome<R> {
        db.ready()?;
        self.marks.check(db)?;
        let converted;
        let options = if self.snapshot.is_none() && !self.auto_prefix_mode {
            &self.options
        } else {
            converted = self.convert()?;
            &converted
        };
        read(options)
    }

    /// Returns the options for a read at this moment: the snapshot may have been released.
    #[inline(never)]
    fn convert(&self) -> Outcome<ReadOptions> {
        let mut options = self.options.clone();
        options.total_order_seek |= self.auto_prefix_mode;
        if let Some(snapshot) = &self.snapshot {
            let released = || Failure::invalid("the snapshot was released");
            let snapshot = snapshot.upgrade().ok_or_else(released)?;
            options.snapshot = Some(Snapshot::clone(&snapshot));
        }
        Ok(options)
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
    fn rocksdb_readoptions_set_auto_prefix_mode(opt: &mut rocksdb_readoptions_t, v: c_uchar) {
        opt.auto_prefix_mode = v != 0;
        Ok(())
    }
}

entry! {
    fn rocksdb_readoptions_get_auto_prefix_mode(opt: shared rocksdb_readoptions_t) -> c_uchar {
        Ok(opt.auto_prefix_mode.into())
    }
}

entry! {
    fn rocksdb_readoptions_set_rate_limiter_priority(opt: &mut rocksdb_readoptions_t, v: c_int) {
        opt.priority = IoPriority(v);
        opt.options.rate_limiter_priority = opt.priority.priority();
        Ok(())
    }
}

entry! {
    fn rocksdb_readoptions_get_rate_limiter_priority(opt: shared rocksdb_readoptions_t) -> c_int {
        Ok(opt.priority.0)
    }
}
