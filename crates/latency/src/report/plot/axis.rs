//! Axes: their range, their ticks, and the labels of these.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// A logarithmic axis with fewer powers of ten than this also has ticks at their double and
/// fivefold.
const FEW_DECADES: f64 = 2.2;
/// The desired number of ticks of a linear axis.
const LINEAR_TICKS: f64 = 4.0;

/// An axis.
#[derive(Clone)]
pub(super) struct Axis {
    min: f64,
    max: f64,
    ticks: Vec<f64>,
    is_logarithmic: bool,
    pub(super) has_labels: bool,
    format: fn(f64) -> String,
}

impl Axis {
    /// Creates an axis for values of 0 and more. It has a length even if all values are 0.
    pub(super) fn linear(max: f64, format: fn(f64) -> String) -> Self {
        let max = if max > 0.0 { max } else { 1.0 };
        let step = nice_step(max / LINEAR_TICKS);
        let max = (max / step).ceil() * step;
        let ticks = (0..=(max / step).round() as u32).map(|tick| f64::from(tick) * step).collect();
        Self { min: 0.0, max, ticks, is_logarithmic: false, has_labels: true, format }
    }

    /// Creates an axis of exactly this length, with these ticks.
    pub(super) fn with_ticks(max: f64, ticks: Vec<f64>, format: fn(f64) -> String) -> Self {
        Self { min: 0.0, max, ticks, is_logarithmic: false, has_labels: true, format }
    }

    /// Creates a logarithmic axis for values above 0; others are ignored.
    pub(super) fn logarithmic(
        values: impl IntoIterator<Item = f64>,
        format: fn(f64) -> String,
    ) -> Self {
        let values: Vec<f64> = values.into_iter().filter(|value| *value > 0.0).collect();
        let (min, max) = values
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(min, max), value| (min.min(*value), max.max(*value)));
        let (min, max) = if min <= max { (min * 0.8, max * 1.25) } else { (1.0, 10.0) };
        let few = (max / min).log10() < FEW_DECADES;
        let parts: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = min.log10().floor() as i32..=max.log10().ceil() as i32;
        let ticks = decades.flat_map(|decade| parts.iter().map(move |it| it * 10f64.powi(decade)));
        let ticks = ticks.filter(|tick| (min..=max).contains(tick)).collect();
        Self { min, max, ticks, is_logarithmic: true, has_labels: true, format }
    }

    /// Removes the labels, not the ticks.
    pub(super) fn without_labels(mut self) -> Self {
        self.has_labels = false;
        self
    }

    /// Returns the ticks.
    pub(super) fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// Returns the place of a value as a fraction of the length. A value outside is at its end.
    pub(super) fn fraction(&self, value: f64) -> f64 {
        let place = |value: f64| if self.is_logarithmic { value.log10() } else { value };
        let (min, max) = (place(self.min), place(self.max));
        (place(value.clamp(self.min, self.max)) - min) / (max - min)
    }
}

/// The axis as a coordinate of a chart.
impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        begin + (f64::from(end - begin) * self.fraction(*value)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.min..self.max
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        if self.has_labels { (self.format)(*value) } else { String::new() }
    }
}

/// Returns the smallest number of the form 1, 2 or 5 times a power of ten that is at least `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * 0.999);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let plain = |value: f64| format!("{value}");
        assert_eq!(Axis::linear(9.0, plain).ticks(), [0.0, 5.0, 10.0]);
        assert_eq!(Axis::linear(0.0, plain).ticks(), [0.0, 0.5, 1.0]);
        assert_eq!(Axis::linear(4.0, plain).ticks(), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(Axis::logarithmic([3.0, 40.0], plain).ticks(), [5.0, 10.0, 20.0, 50.0]);
        assert_eq!(Axis::logarithmic([0.0, 3.0, 4000.0], plain).ticks(), [10.0, 100.0, 1000.0]);
    }

    #[test]
    fn values_outside_an_axis_are_at_its_end() {
        let axis = Axis::logarithmic([10.0, 100.0], |_| String::new());
        assert_eq!((axis.fraction(0.0), axis.fraction(1e9)), (0.0, 1.0));
        assert!((axis.fraction(10.0 * 10f64.sqrt()) - 0.5).abs() < 0.01);
    }
}
