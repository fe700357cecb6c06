//! The environment. There is only the system's.

use std::os::unix::ffi::OsStrExt as _;

use tailwater::{PosixStorage, Storage};

use crate::boundary::{entry, give, path};
use crate::marks::{Marked, Marks};

/// An environment.
pub(crate) struct rocksdb_env_t {
    pub(crate) marks: Marks,
}

impl Marked for rocksdb_env_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

entry! {
    fn rocksdb_create_default_env() -> *mut rocksdb_env_t {
        Ok(give(rocksdb_env_t { marks: Marks::default() }))
    }
}

entry! {
    fn rocksdb_env_destroy(env: own rocksdb_env_t) {
        drop(env);
        Ok(())
    }
}

entry! {
    fn rocksdb_create_dir_if_missing(env: maybe rocksdb_env_t, path: text, errptr) {
        let _ = env;
        let path = self::path(path);
        if !path.as_os_str().as_bytes().is_empty() {
            PosixStorage::new().create_directory(path).map_err(tailwater::Error::from)?;
        }
        Ok(())
    }
}
