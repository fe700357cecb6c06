//! The atomics of the skiplist: the standard ones, or the model checker's with `--cfg loom`.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
