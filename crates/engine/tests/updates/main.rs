//! Following a database by its logs: every batch, in order, exactly once, whatever happens to the
//! logs.
#![cfg(not(loom))]

mod beside_writers;
#[path = "../common/database.rs"]
mod database;
mod history;
mod random;
mod refusals;
mod retention;
mod support;
