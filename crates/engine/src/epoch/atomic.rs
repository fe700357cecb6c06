//! The atomics that loom watches: loom's own in its tests, the standard library's everywhere else.
//!
//! All atomics that a reader accesses under a [`Guard`](super::Guard) come from here, so that a
//! loom test explores the code that runs in production. Loom's tests run with `RUSTFLAGS="--cfg
//! loom" cargo test -p tailwater --lib loom`.

#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};

#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};

/// Makes a constructor `const`, except under loom: a loom atomic belongs to the running model.
macro_rules! constructor {
    ($(#[$attribute:meta])* $visibility:vis fn new() -> Self $body:block) => {
        #[cfg(not(all(loom, test)))]
        $(#[$attribute])*
        $visibility const fn new() -> Self $body

        #[cfg(all(loom, test))]
        $(#[$attribute])*
        $visibility fn new() -> Self $body
    };
}

pub(crate) use constructor;
