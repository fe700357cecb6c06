//! Slowing writes down, and stopping them, while flushes and compactions are behind.
//!
//! Between the slowdown bound and the stop bound of a condition, writes are limited to a rate that
//! follows the compaction backlog ([`delay_rate`]). Shortly before the slowdown bound, compactions
//! hurry ([`CompactionPressure`]).

mod allowance;
mod conditions;
mod controller;
mod delay_rate;
mod pressure;

pub(crate) use conditions::StallConditions;
pub use conditions::{StallCause, StallState};
pub(crate) use controller::{FamilyLook, StallController};
pub(crate) use pressure::CompactionPressure;
