//! The table of the means of the runs (`--mean`).

use std::fmt;

use serde_json::Value;

use super::report::{ConfigurationReport, Report};
use crate::numbers::{Rate, micros};

/// A function that formats a figure.
type Write = fn(f64) -> String;

/// For each column: the name of the figure, the heading, and the function that formats it.
const FIGURES: [(&str, &str, Write); 5] = [
    ("reads_per_second", "reads/s", |rate| Rate(rate).to_string()),
    ("p50_us", "p50 us", micros),
    ("p99_us", "p99 us", micros),
    ("p999_us", "p99.9 us", micros),
    ("p9999_us", "p99.99 us", micros),
];

/// Formats a report's means as a table, each with its coefficient of variation.
pub(super) struct MeanTable<'r>(pub(super) &'r Report);

impl fmt::Display for MeanTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:9} {:33}", "engine", "configuration")?;
        for (_, head, _) in FIGURES {
            write!(f, " {head:>17}")?;
        }
        writeln!(f)?;
        for ConfigurationReport { row, mean, variation, .. } in &self.0.configurations {
            write!(f, "{:9} {:33}", row.engine.name(), row.label())?;
            for (name, _, written) in FIGURES {
                let of = |figures: &Value| figures.get(name).and_then(Value::as_f64);
                let mean = of(mean).map_or("-".to_owned(), written);
                let variation = of(variation).map(|share| format!(" ({:.1} %)", 100.0 * share));
                write!(f, " {:>17}", mean + variation.as_deref().unwrap_or_default())?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "\nMeans of the runs. In parentheses the coefficient of variation: the standard \
             deviation divided by\nthe mean."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_less_than_140_columns() {
        assert!(43 + FIGURES.len() * 18 < 140);
    }
}
