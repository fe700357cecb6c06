//! Percentile curves. The horizontal axis counts nines: p90, p99, p99.9 and p99.99 are equally far
//! apart.

use super::axis::Axis;
use super::{Stroked, Width, chart, svg};
use crate::failure::Failure;
use crate::latencies::{NINES, POINTS_PER_NINE};
use crate::numbers::latency;
use crate::report::Curve;

pub(super) fn draw(curves: &[Curve], width: Width) -> Result<String, Failure> {
    let ticks = vec![0.5_f64.log10().abs(), 1.0, 2.0, 3.0, 4.0];
    let nines = Axis::with_ticks(NINES as f64, ticks, |nines| {
        let percent = 100.0 * (1.0 - 0.1_f64.powf(nines));
        format!("p{}", format!("{percent:.2}").trim_end_matches('0').trim_end_matches('.'))
    });
    // The first point of a curve is the minimum, which is of no interest.
    let all = curves.iter().flat_map(|curve| curve.points_us.iter().copied().skip(1));
    let latencies = Axis::logarithmic(all, latency);
    svg(width, width.of(280, 380), |area| {
        let lines = curves.iter().map(|Curve { stroke, points_us, .. }| {
            let points = points_us.iter().enumerate().skip(1);
            let points = points.map(|(point, us)| (point as f64 / POINTS_PER_NINE as f64, *us));
            Stroked { color: stroke.color(), width: 2, points: points.collect() }
        });
        chart(area, &nines, &latencies, lines)
    })
}
