//! Determines a write rate that every configuration sustains (`--write-rate calibrate`).
//!
//! Each configuration runs with an unthrottled writer. At first the writer fills the memory that
//! the engine allows. Then the engine slows the writer down to the speed of flushes and
//! compactions, and this rate is measured. A calibration run must therefore not be too short. The
//! measured rate is still too high, because the compaction backlog grows during the run. Therefore
//! only a fraction of the slowest configuration's rate is used.

use std::time::Duration;

use super::figures::Figures;
use super::plan::{Plan, Row};
use crate::failure::Failure;

/// Maximum duration of the calibration run of each configuration.
const LONGEST: Duration = Duration::from_secs(60);
/// The fraction of the slowest configuration's write rate that becomes the write rate of the
/// experiment.
const SHARE: f64 = 0.6;

/// Returns the write rate for the experiment, in bytes per second. `measure` runs one configuration
/// of one engine (a row) for a given duration, with an unthrottled writer, and returns its figures.
pub(super) fn sustained_rate(
    plan: &Plan,
    measure: impl Fn(Row, Duration) -> Result<Figures, Failure>,
) -> Result<u64, Failure> {
    let mut slowest = f64::INFINITY;
    let duration = plan.parameters.duration().min(LONGEST);
    for row in plan.rows.iter().filter(|row| row.configuration.disturbs()) {
        let name = format!("{} {}", row.engine.name(), row.configuration.name());
        let figures = measure(*row, duration).map_err(|error| format!("{name}: {error}"))?;
        let rate = figures.write_mb_per_second;
        say!("calibrating: {name} writes {rate:.1} MB/s with an unthrottled writer");
        slowest = slowest.min(rate);
    }
    if !slowest.is_finite() {
        return Err("--write-rate calibrate: none of the configurations writes".into());
    }
    let rate = (slowest * SHARE * 1e6) as u64;
    say!("calibrated: {:.1} MB/s", rate as f64 / 1e6);
    Ok(rate.max(1))
}
