//! The course of a run as plots: latencies, what the engine did, and the kernel's figures.

use super::timeline::{Moment, Second, Timeline};
use crate::numbers::{latency, rate};
use crate::report::{Course, Hue, Lane, Line, Panel};

/// Maximum number of points of a line. If there are more, each group of points is represented by
/// its largest value.
const POINTS_MAX: usize = 240;
/// Bytes of a page of memory.
const PAGE_BYTES: f64 = 4096.0;
const MIB: f64 = (1 << 20) as f64;

const BLUE: Hue = Hue(0);
const ORANGE: Hue = Hue(1);
const GREEN: Hue = Hue(2);
const PURPLE: Hue = Hue(3);
const RED: Hue = Hue(4);

/// Returns the course of a run; `None` if the run was too short for it.
pub(crate) fn course(timeline: &Timeline) -> Option<Course> {
    let ends = timeline.latencies.values().flatten().map(|second| second.at_s);
    let seconds = ends.reduce(f64::max)?;
    let mut panels: Vec<Panel> = timeline
        .latencies
        .iter()
        .map(|(kind, seconds)| latencies(kind, seconds, timeline.latencies.len() > 1))
        .collect();
    panels.push(rates(timeline));
    let (engine, kernel) = (&timeline.engine, &timeline.kernel);
    panels.push(Panel {
        format: |mib| format!("{mib} MiB"),
        is_logarithmic: false,
        lines: vec![
            line("page cache", GREEN, kernel, "cached_pages", PAGE_BYTES / MIB),
            line("dirty pages", RED, kernel, "dirty_pages", PAGE_BYTES / MIB),
            line("block cache", PURPLE, engine, "block_cache_bytes", 1.0 / MIB),
        ],
    });
    panels.push(Panel {
        format: |rate| format!("{rate} MB/s"),
        is_logarithmic: false,
        lines: vec![
            line("device: read", BLUE, kernel, "device_read_bytes_per_second", 1e-6),
            line("written", ORANGE, kernel, "device_write_bytes_per_second", 1e-6),
        ],
    });
    panels.push(Panel {
        format: |threads| format!("{threads}"),
        is_logarithmic: false,
        lines: vec![
            line("threads running", GREEN, kernel, "running_us_per_second", 1e-6),
            line("waiting for a processor", RED, kernel, "run_delay_us_per_second", 1e-6),
        ],
    });
    for panel in &mut panels {
        panel.lines.retain(|line| !line.points.is_empty());
    }
    panels.retain(|panel| !panel.lines.is_empty());
    Some(Course { seconds, lanes: lanes(timeline), panels })
}

fn latencies(kind: &str, seconds: &[Second], is_named: bool) -> Panel {
    let line = |name: &str, hue, of: fn(&Second) -> Option<f64>| Line {
        name: if is_named && name == "p50" { format!("{kind} p50") } else { name.to_owned() },
        hue,
        points: thinned(seconds.iter().filter_map(|it| Some((it.at_s, of(it)?))).collect()),
    };
    Panel {
        format: latency,
        is_logarithmic: true,
        lines: vec![
            line("p50", GREEN, |second| second.p50_us),
            line("p99", BLUE, |second| second.p99_us),
            line("p99.9", PURPLE, |second| second.p999_us),
            line("max", ORANGE, |second| second.max_us),
        ],
    }
}

fn rates(timeline: &Timeline) -> Panel {
    let lines = timeline.latencies.iter().enumerate().map(|(number, (kind, seconds))| Line {
        name: if number == 0 { format!("{kind} per second") } else { kind.clone() },
        hue: Hue(number),
        points: thinned(seconds.iter().map(|second| (second.at_s, second.per_second)).collect()),
    });
    Panel { format: rate, is_logarithmic: false, lines: lines.collect() }
}

/// Returns the line of a figure, which is multiplied by `unit`. The line has no points if the
/// figure was not measured or is always 0.
fn line(name: &str, hue: Hue, moments: &[Moment], figure: &str, unit: f64) -> Line {
    let point = |moment: &Moment| Some((*moment.get("at_s")?, moment.get(figure)? * unit));
    let mut points: Vec<_> = moments.iter().filter_map(point).collect();
    if points.iter().all(|(_, value)| *value == 0.0) {
        points.clear();
    }
    Line { name: name.to_owned(), hue, points: thinned(points) }
}

fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let group = points.len().div_ceil(POINTS_MAX).max(1);
    let largest = |group: &[(f64, f64)]| group.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(group).filter_map(largest).collect()
}

fn lanes(timeline: &Timeline) -> Vec<Lane> {
    let events = |kind: &str| {
        let events = timeline.events.iter().filter(|event| event.kind == kind);
        levels(events.map(|event| (event.begin_s, event.end_s)))
    };
    let mut stalls = vec![(0.0, 0.0)];
    for moment in &timeline.engine {
        let figure = |name| moment.get(name).copied().unwrap_or(0.0);
        if let Some(last) = stalls.last_mut() {
            last.1 = figure("stall_share");
        }
        stalls.push((figure("at_s"), 0.0));
    }
    let mut lanes = vec![
        Lane { name: "compact", hue: ORANGE, steps: events("compaction") },
        Lane { name: "flush", hue: BLUE, steps: events("flush") },
        Lane { name: "stall", hue: RED, steps: stalls },
    ];
    lanes.retain(|lane| lane.steps.iter().any(|(_, level)| *level > 0.001));
    lanes
}

/// Returns how many of the periods include each time: the times at which the number changes, each
/// with the number from then on.
fn levels(periods: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut changes: Vec<_> =
        periods.flat_map(|(begin, end)| [(begin, 1.0), (end, -1.0)]).collect();
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut level = 0.0;
    for change in &mut changes {
        level += change.1;
        change.1 = level;
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_periods_are_counted() {
        let found = levels([(1.0, 3.0), (2.0, 4.0)].into_iter());
        assert_eq!(found, [(1.0, 1.0), (2.0, 2.0), (3.0, 1.0), (4.0, 0.0)]);
    }

    #[test]
    fn a_long_line_keeps_its_peaks() {
        let points: Vec<_> = (0..1000).map(|at| (f64::from(at), f64::from(at % 500))).collect();
        let thin = thinned(points);
        assert!(thin.len() <= POINTS_MAX && thin.contains(&(499.0, 499.0)), "{thin:?}");
    }
}
