//! Entries at and above the maximum length, and databases whose entries together are long.
//!
//! Most tests lower the maximum: entries of real length need many gigabytes of memory. So the tests
//! of this program run one after the other. The entries of `real_size` have real length.
#![cfg(not(loom))]

mod blocks;
#[path = "../common/database.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod database;
mod fitting;
mod interop;
mod merges;
mod random;
mod real_size;
mod refusals;
mod replayed;
mod support;
