//! Compactions of tables created by hand or by RocksDB.

mod allocations;
#[path = "../../../tests/common/counting.rs"]
mod counting;
mod cuts;
mod faults;
mod filters;
mod golden;
mod history;
#[path = "../../../tests/common/io_modes.rs"]
#[expect(dead_code, reason = "other tests need disks that refuse I/O modes, and change sizes")]
mod io_modes;
mod model;
mod readers;
mod rules;
mod scene;
