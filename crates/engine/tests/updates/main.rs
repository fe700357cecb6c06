//! Following a database through its logs. A follower must get every batch, in order and exactly
//! once, whatever happens to the logs.
#![cfg(not(loom))]

#[path = "../common/database.rs"]
mod database;
mod during_writes;
mod history;
mod random;
mod refusals;
mod retention;
mod support;
