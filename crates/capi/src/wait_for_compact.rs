//! Waits for the end of background compactions.

use std::ffi::c_uchar;
use std::time::Duration;

use crate::boundary::{Class, Failure, entry, give};
use crate::database::rocksdb_t;

/// Options of a wait.
#[derive(Default)]
pub(crate) struct rocksdb_wait_for_compact_options_t {
    /// Has no effect: no function of the interface pauses compactions.
    pub(crate) abort_on_pause: bool,
    pub(crate) flush: bool,
    /// Has no effect: obsolete files are removed later.
    pub(crate) wait_for_purge: bool,
    pub(crate) close_db: bool,
    /// In microseconds; 0 for no limit.
    pub(crate) timeout: u64,
}

entry! {
    fn rocksdb_wait_for_compact_options_create() -> *mut rocksdb_wait_for_compact_options_t {
        Ok(give(rocksdb_wait_for_compact_options_t::default()))
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_destroy(opt: own rocksdb_wait_for_compact_options_t) {
        drop(opt);
        Ok(())
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_set_abort_on_pause(
        opt: &mut rocksdb_wait_for_compact_options_t,
        v: c_uchar,
    ) {
        opt.abort_on_pause = v != 0;
        Ok(())
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_get_abort_on_pause(
        opt: shared rocksdb_wait_for_compact_options_t,
    ) -> c_uchar {
        Ok(opt.abort_on_pause.into())
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_set_flush(
        opt: &mut rocksdb_wait_for_compact_options_t,
        v: c_uchar,
    ) {
        opt.flush = v != 0;
        Ok(())
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_get_flush(
        opt: shared rocksdb_wait_for_compact_options_t,
    ) -> c_uchar {
        Ok(opt.flush.into())
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_set_wait_for_purge(
        opt: &mut rocksdb_wait_for_compact_options_t,
        v: c_uchar,
    ) {
        opt.wait_for_purge = v != 0;
        Ok(())
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_get_wait_for_purge(
        opt: shared rocksdb_wait_for_compact_options_t,
    ) -> c_uchar {
        Ok(opt.wait_for_purge.into())
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_set_close_db(
        opt: &mut rocksdb_wait_for_compact_options_t,
        v: c_uchar,
    ) {
        opt.close_db = v != 0;
        Ok(())
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_get_close_db(
        opt: shared rocksdb_wait_for_compact_options_t,
    ) -> c_uchar {
        Ok(opt.close_db.into())
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_set_timeout(
        opt: &mut rocksdb_wait_for_compact_options_t,
        microseconds: u64,
    ) {
        opt.timeout = microseconds;
        Ok(())
    }
}

entry! {
    fn rocksdb_wait_for_compact_options_get_timeout(
        opt: shared rocksdb_wait_for_compact_options_t,
    ) -> u64 {
        Ok(opt.timeout)
    }
}

entry! {
    fn rocksdb_wait_for_compact(
        db: shared rocksdb_t,
        options: shared rocksdb_wait_for_compact_options_t,
        errptr,
    ) {
        db.ready()?;
        if options.flush {
            db.db.flush_all()?;
        }
        let timeout = (options.timeout != 0).then(|| Duration::from_micros(options.timeout));
        if !db.db.wait_for_compactions(timeout)? {
            return Err(Failure::new(Class::TimedOut, "compactions go on"));
        }
        if options.close_db {
            db.db.close()?;
        }
        Ok(())
    }
}
