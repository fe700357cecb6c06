//! Incidents: changes during a run. They test how a cache copes with change.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// An incident that is caused in each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Incident {
    /// Halfway through the run, the memory limit is halved, in sixteen steps
    LowerLimit,
    /// From halfway through the run, another process uses half of the memory limit
    Neighbour,
    /// Halfway through the run, the whole database is scanned once
    Scan,
    /// The hot set shifts by half of its size every ten seconds
    MovingHotSet,
}

impl Incident {
    /// Returns whether the incident requires a memory limit.
    pub(super) fn needs_limit(self) -> bool {
        matches!(self, Self::LowerLimit | Self::Neighbour)
    }
}
