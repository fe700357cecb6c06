//! Determines the write rate that every configuration sustains.
//!
//! Each configuration runs an unthrottled writer. The writer first fills the memory that the engine
//! allows; then the engine slows it down to the rate of flushes and compactions, which is the
//! measured rate. A calibration run must therefore not be short. At the end of a calibration run
//! compactions have a backlog, so the engine did not sustain the measured rate. Therefore only a
//! fraction of the slowest configuration's rate is used.

use std::time::Duration;

use super::figures::Figures;
use super::plan::{Plan, Row};
use crate::failure::Failure;

/// Maximum duration of the calibration run of each configuration.
const LONGEST: Duration = Duration::from_secs(60);
/// Fraction of the slowest configuration's rate that is used.
const SHARE: f64 = 0.6;

/// Returns the rate in bytes per second. `measure` runs a row for a duration, next to an
/// unthrottled writer.
///
/// # Errors
/// Errors from the runs.
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
