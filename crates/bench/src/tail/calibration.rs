//! How fast a writer may write so that every configuration keeps up.
//!
//! Each configuration is given a writer that waits for nothing. It fills the memory that an engine
//! allows it, is slowed down to what flushes and compactions get done, and that is what is looked
//! for; so a run for this is not short. Since compactions are behind by then and would have to
//! catch up, a share of the slowest one's rate is taken.

use std::time::Duration;

use super::child::Beside;
use super::experiment::Experiment;
use crate::store::Failure;

/// How long each configuration writes, at most.
const LONGEST: Duration = Duration::from_secs(60);
/// What share of the slowest configuration's rate is taken.
const SHARE: f64 = 0.6;

/// Bytes a second.
///
/// # Errors
/// Those of the runs.
pub(super) fn sustained_rate(experiment: &Experiment<'_>) -> Result<u64, Failure> {
    let mut slowest = f64::INFINITY;
    let duration = experiment.plan.parameters.duration().min(LONGEST);
    for row in experiment.plan.rows.iter().filter(|row| row.configuration.disturbs()) {
        let name = format!("{} {}", row.engine.name(), row.configuration.name());
        let figures = experiment
            .measure_row(*row, 0, duration, Beside::Writing)
            .map_err(|error| format!("{name}: {error}"))?;
        let rate = figures.write_mb_per_second;
        say!("calibrating: {name} writes {rate:.1} MB/s when nothing holds the writer back");
        slowest = slowest.min(rate);
    }
    if !slowest.is_finite() {
        return Err("--write-rate calibrate: no configuration writes".into());
    }
    let rate = (slowest * SHARE * 1e6) as u64;
    say!("calibrated: {:.1} MB/s", rate as f64 / 1e6);
    Ok(rate.max(1))
}
