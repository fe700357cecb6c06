//! Tests tables that one engine builds outside of a database and that the same or the other engine
//! ingests.
//!
//! Both engines build external tables with random records. Both ingest such tables into databases
//! with random contents, one table or several overlapping ones at a time, with and without
//! snapshots. Both engines must then read the contents that a model expects, even after RocksDB or
//! Tailwater has compacted everything. Both engines must choose the same level and sequence number
//! for each table. A failure prints the seed. `TAILWATER_SEED` repeats the run with that seed, and
//! `TAILWATER_ROUNDS` multiplies the number of runs.

#[path = "common/check.rs"]
mod check;
#[path = "interop_ingest/files.rs"]
mod files;
#[path = "interop_ingest/ingested.rs"]
mod ingested;
#[path = "common/io_modes.rs"]
#[expect(dead_code, reason = "other tests simulate disks")]
mod io_modes;
#[path = "common/interop/laboratory.rs"]
mod laboratory;
#[path = "common/interop/model.rs"]
mod model;
#[path = "common/interop/place.rs"]
mod place;
#[path = "interop_ingest/properties.rs"]
mod properties;
#[path = "common/random.rs"]
mod random;
#[path = "common/interop/shape.rs"]
mod shape;
#[path = "common/interop/step.rs"]
mod step;
