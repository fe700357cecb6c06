//! Databases assembled by hand: every checksum is valid, but the contents are not.

mod database;
mod logs;
mod order;
mod reads;
mod table;
mod verification;
