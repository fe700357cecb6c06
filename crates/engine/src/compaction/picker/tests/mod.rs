//! Tests the picker with case files, and checks its invariants.

mod case_files;
mod checks;
mod notation;
mod properties;
mod world;
