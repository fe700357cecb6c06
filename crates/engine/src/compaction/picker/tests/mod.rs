//! The picker against case files and against its invariants.

mod case_files;
mod checks;
mod notation;
mod properties;
mod world;
