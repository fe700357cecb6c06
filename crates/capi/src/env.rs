//! The environment. There is only that of the process.

use std::ffi::c_int;
use std::os::unix::ffi::OsStrExt as _;

use tailwater::env::{Env, Priority};
use tailwater::{PosixStorage, Storage};

use crate::boundary::{Outcome, entry, give, path};
use crate::marks::{Marked, Marks};

/// A handle to the environment of the process.
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
        env.map_or(Ok(()), |env| env.marks.refusal())?;
        let path = self::path(path);
        if !path.as_os_str().as_bytes().is_empty() {
            PosixStorage::new().create_directory(path).map_err(tailwater::Error::from)?;
        }
        Ok(())
    }
}

fn threads(priority: Priority) -> Outcome<c_int> {
    let count = Env::of_process().background_threads(priority);
    Ok(c_int::try_from(count).unwrap_or(c_int::MAX))
}

/// Sets the number of threads of a pool; a negative number counts as 0.
pub(crate) fn set_threads(count: c_int, priority: Priority) -> Outcome<()> {
    let count = usize::try_from(count).unwrap_or(0);
    Env::of_process().set_background_threads(count, priority);
    Ok(())
}

entry! {
    fn rocksdb_env_get_background_threads(env: maybe rocksdb_env_t) -> c_int {
        let _ = env;
        threads(Priority::Low)
    }
}

entry! {
    fn rocksdb_env_set_background_threads(env: maybe rocksdb_env_t, n: c_int) {
        let _ = env;
        set_threads(n, Priority::Low)
    }
}

entry! {
    fn rocksdb_env_get_bottom_priority_background_threads(env: maybe rocksdb_env_t) -> c_int {
        let _ = env;
        threads(Priority::Bottom)
    }
}

entry! {
    fn rocksdb_env_set_bottom_priority_background_threads(env: maybe rocksdb_env_t, n: c_int) {
        let _ = env;
        set_threads(n, Priority::Bottom)
    }
}

entry! {
    fn rocksdb_env_get_high_priority_background_threads(env: maybe rocksdb_env_t) -> c_int {
        let _ = env;
        threads(Priority::High)
    }
}

entry! {
    fn rocksdb_env_set_high_priority_background_threads(env: maybe rocksdb_env_t, n: c_int) {
        let _ = env;
        set_threads(n, Priority::High)
    }
}

entry! {
    fn rocksdb_env_get_low_priority_background_threads(env: maybe rocksdb_env_t) -> c_int {
        let _ = env;
        threads(Priority::Low)
    }
}

entry! {
    fn rocksdb_env_set_low_priority_background_threads(env: maybe rocksdb_env_t, n: c_int) {
        let _ = env;
        set_threads(n, Priority::Low)
    }
}

entry! {
    fn rocksdb_env_lower_thread_pool_io_priority(env: maybe rocksdb_env_t) {
        let _ = env;
        Env::of_process().lower_thread_pool_io_priority(Priority::Low);
        Ok(())
    }
}

entry! {
    fn rocksdb_env_lower_thread_pool_cpu_priority(env: maybe rocksdb_env_t) {
        let _ = env;
        Env::of_process().lower_thread_pool_cpu_priority(Priority::Low);
        Ok(())
    }
}

entry! {
    fn rocksdb_env_lower_high_priority_thread_pool_io_priority(env: maybe rocksdb_env_t) {
        let _ = env;
        Env::of_process().lower_thread_pool_io_priority(Priority::High);
        Ok(())
    }
}

entry! {
    fn rocksdb_env_lower_high_priority_thread_pool_cpu_priority(env: maybe rocksdb_env_t) {
        let _ = env;
        Env::of_process().lower_thread_pool_cpu_priority(Priority::High);
        Ok(())
    }
}

entry! {
    /// Waits for the threads that a program has started with `Env::StartThread`. The C interface
    /// cannot start any.
    fn rocksdb_env_join_all_threads(env: maybe rocksdb_env_t) {
        let _ = env;
        Ok(())
    }
}
