//! Incidents in the middle of a run that a cache must cope with.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What happens besides, in each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Incident {
    /// Halfway the memory limit becomes half of what it was, in sixteen steps
    LowerLimit,
    /// From halfway on another process has half of the limit's memory
    Neighbour,
    /// Halfway somebody reads the whole database once, in the order of its keys
    Scan,
    /// The hot set moves on by half of itself every ten seconds
    MovingHotSet,
}

impl Incident {
    /// Returns whether it requires a memory limit.
    pub(super) fn needs_limit(self) -> bool {
        matches!(self, Self::LowerLimit | Self::Neighbour)
    }
}
