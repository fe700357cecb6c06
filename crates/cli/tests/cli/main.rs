//! Tests that run the program as a user does, on databases written by RocksDB and by the program
//! itself.

mod compacting;
mod damage;
mod directories;
mod documentation;
mod during_writes;
mod endings;
mod ingesting;
mod inspecting;
mod killed;
mod loading;
mod message_log;
mod mounts;
mod options;
mod properties;
mod reading;
mod reverse_order;
mod serving;
mod stats;
mod support;
mod tail;
mod unchanged;
mod writing;
