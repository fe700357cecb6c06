//! Snapshots: reads that see no later write.

use std::sync::Arc;

use tailwater_format::key::Sequence;

/// The state of a database at one moment. What it shows is kept for as long as a clone of it lives.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<Sequence>);

impl Snapshot {
    pub(crate) fn at(sequence: Sequence) -> Self {
        Self(Arc::new(sequence))
    }

    /// The highest sequence number it shows.
    pub fn sequence(&self) -> Sequence {
        *self.0
    }
}
