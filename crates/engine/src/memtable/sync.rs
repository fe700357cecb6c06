//! The atomics that the skiplist uses: those of the standard library or, with `--cfg loom`, those
//! of the model checker loom.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
