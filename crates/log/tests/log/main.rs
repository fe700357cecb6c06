//! Tests of the message log: its public interface, comparisons with models, crashes, failing calls,
//! and damaged files.

mod common;

#[cfg(not(shuttle))]
mod bounded;
#[cfg(not(shuttle))]
mod callbacks;
#[cfg(not(shuttle))]
mod crash;
#[cfg(not(shuttle))]
mod damage;
#[cfg(not(shuttle))]
mod descriptors;
#[cfg(not(shuttle))]
mod durable;
#[cfg(not(shuttle))]
mod failures;
#[cfg(not(shuttle))]
mod first;
#[cfg(not(shuttle))]
mod foreign_files;
#[cfg(not(shuttle))]
mod held;
#[cfg(not(shuttle))]
mod idle;
#[cfg(not(shuttle))]
mod inspecting;
#[cfg(shuttle)]
mod interleavings;
#[cfg(not(shuttle))]
mod io_modes;
#[cfg(not(shuttle))]
mod kernel_modes;
#[cfg(not(shuttle))]
mod killed;
#[cfg(not(shuttle))]
mod lost_memory;
#[cfg(not(shuttle))]
mod model;
#[cfg(not(shuttle))]
mod order;
#[cfg(not(shuttle))]
mod panics;
#[cfg(not(shuttle))]
mod partial_blocks;
#[cfg(not(shuttle))]
mod power_cuts;
#[cfg(not(shuttle))]
mod process;
#[cfg(not(shuttle))]
mod reading;
#[cfg(not(shuttle))]
mod records;
#[cfg(not(shuttle))]
mod retention;
