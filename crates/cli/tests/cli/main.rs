//! The program, run as a user runs it, on databases that RocksDB wrote.

mod damage;
mod documentation;
mod endings;
mod inspecting;
mod options;
mod properties;
mod reading;
mod reverse_order;
mod support;
mod unchanged;
