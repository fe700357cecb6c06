//! Workloads, each of which runs on any store.

pub(crate) mod basket;
pub(crate) mod overwriting;
pub(crate) mod puts;
