//! Databases assembled by hand: every checksum is valid, but the contents are not. Some have logs
//! with random damage.

mod database;
mod logs;
mod order;
mod reads;
mod recovery_modes;
mod table;
mod verification;
