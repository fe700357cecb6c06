//! Compactions of tables that were laid out by hand or by RocksDB.

mod allocations;
#[path = "../../../tests/common/counting.rs"]
mod counting;
mod faults;
mod filters;
mod golden;
mod history;
mod model;
mod readers;
mod rules;
mod scene;
