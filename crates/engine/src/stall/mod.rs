//! Slowing down or stopping writes while flushes and compactions do not keep up.
//!
//! Each condition has a slowdown limit and a stop limit. Between the two, writes are limited to a
//! rate that depends on the compaction backlog ([`delay_rate`]). Shortly before the slowdown limit,
//! compactions speed up: several run at the same time, and those of low priority switch to normal
//! priority ([`CompactionPressure`]).

mod allowance;
mod conditions;
mod controller;
mod delay_rate;
mod pressure;

pub use conditions::{StallCause, StallState};
pub(crate) use conditions::{StallConditions, many_level_0_tables};
pub(crate) use controller::{FamilyConditions, StallController};
pub(crate) use pressure::{CompactionPressure, Waiting};
