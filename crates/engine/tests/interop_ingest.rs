//! Tables that one engine builds outside a database and the other ingests.
//!
//! Both engines build external tables of random records of every kind, and both ingest them into
//! databases of random contents, one table or several overlapping ones, with and without snapshots.
//! A model has the expected contents, for both, even after the other engine has compacted
//! everything; and both must choose the same levels and sequence numbers. A failure names the seed;
//! `TAILWATER_SEED` repeats it, and `TAILWATER_ROUNDS` multiplies the number of runs.

#[path = "common/check.rs"]
mod check;
#[path = "interop_ingest/files.rs"]
mod files;
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
#[path = "interop_ingest/taken_in.rs"]
mod taken_in;
