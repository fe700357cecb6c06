//! Followers of a database, which read its updates from the logs. A follower must get every batch
//! in order and exactly once, even while logs are switched and removed.
#![cfg(not(loom))]

#[path = "../common/database.rs"]
mod database;
mod during_writes;
mod history;
mod random;
mod refusals;
mod retention;
mod support;
