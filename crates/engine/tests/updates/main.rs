//! Following a database through its logs: every batch, in order, exactly once, whatever happens to
//! the logs.
#![cfg(not(loom))]

#[path = "../common/database.rs"]
mod database;
mod during_writes;
mod history;
mod random;
mod refusals;
mod retention;
mod support;
