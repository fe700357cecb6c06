//! Tests of groups.

mod assignment;
mod model;
mod registry;
