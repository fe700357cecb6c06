//! In debug builds, the objects that the program holds. A call with another pointer, such as that
//! of an object that was destroyed, aborts the process with a message. In other builds, such a call
//! is undefined, as it is in RocksDB.

#[cfg(debug_assertions)]
use checked::{abort, is_live};
#[cfg(debug_assertions)]
pub(crate) use checked::{add, remove};

/// Records that the program got an object.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn add<T>(_pointer: *const T) {}

/// Records that the program no longer has the object in the argument `name`.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn remove<T>(_pointer: *const T, _name: &str) {}

/// Checks the pointer in the argument `name`. Null is permitted.
#[inline(always)]
pub(crate) fn check<T>(pointer: *const T, name: &str) {
    #[cfg(debug_assertions)]
    if !pointer.is_null() && !is_live(pointer) {
        abort::<T>(name);
    }
    #[cfg(not(debug_assertions))]
    let _ = (pointer, name);
}

#[cfg(debug_assertions)]
mod checked {
    use std::any::type_name;
    use std::collections::BTreeMap;
    use std::io::Write as _;

    use tailwater_io::sync::Mutex;

    /// The types of the objects, by their addresses.
    static LIVE: Mutex<BTreeMap<usize, &'static str>> = Mutex::new(BTreeMap::new());

    pub(crate) fn add<T>(pointer: *const T) {
        LIVE.lock().insert(pointer.addr(), type_name::<T>());
    }

    pub(crate) fn remove<T>(pointer: *const T, name: &str) {
        super::check(pointer, name);
        LIVE.lock().remove(&pointer.addr());
    }

    pub(super) fn is_live<T>(pointer: *const T) -> bool {
        LIVE.lock().get(&pointer.addr()).is_some_and(|&kind| kind == type_name::<T>())
    }

    pub(super) fn abort<T>(name: &str) -> ! {
        let kind = type_name::<T>().rsplit("::").next().unwrap_or_default();
        let message =
            format!("librocksdb: argument {name} is not a live {kind}: was it destroyed?\n");
        let _ = std::io::stderr().write_all(message.as_bytes());
        std::process::abort();
    }
}
