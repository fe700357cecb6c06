//! The report's table of kernel statistics: page cache, stalls and device.

use std::fmt;

use super::report::{ConfigurationReport, Report};

/// For each column: the name of the figure, the heading, and the divisor that converts the figure
/// to the unit in the heading.
const FIGURES: [(&str, &str, f64); 10] = [
    ("dirtied_pages_per_second", "dirty/s", 1.0),
    ("refaulted_pages_per_second", "refault", 1.0),
    ("missed_pages_per_second", "missed/s", 1.0),
    ("memory_stall_us_per_second", "mem us/s", 1.0),
    ("io_stall_us_per_second", "io us/s", 1.0),
    ("active_file_pages", "act MiB", 256.0),
    ("r_await_ms", "r ms", 1.0),
    ("w_await_ms", "w ms", 1.0),
    ("queue_depth", "depth", 1.0),
    ("utilisation", "busy %", 0.01),
];

/// Formats a report's kernel statistics as a table: the median over the runs of each row.
pub(super) struct KernelTable<'r>(pub(super) &'r Report);

impl fmt::Display for KernelTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:9} {:33}", "engine", "configuration")?;
        for (_, head, _) in FIGURES {
            write!(f, " {head:>8}")?;
        }
        writeln!(f)?;
        for ConfigurationReport { row, median, .. } in &self.0.configurations {
            write!(f, "{:9} {:33}", row.engine.name(), row.label())?;
            for (name, _, unit) in FIGURES {
                let figures = median.kernel.figure(name).map(|figure| number(figure / unit));
                write!(f, " {:>8}", figures.as_deref().unwrap_or("-"))?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "\nPages dirtied, refaulted and missed; time that tasks waited for memory and for the \
             disk; active pages;\nlatency of reads and writes at the disk, requests in flight, and \
             utilisation. '-': not reported by this system."
        )
    }
}

fn number(figure: f64) -> String {
    match figure {
        figure if figure >= 10.0 => format!("{figure:.0}"),
        figure => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_less_than_140_columns() {
        assert!(43 + FIGURES.len() * 9 < 140);
    }

    #[test]
    fn figures_are_named_as_the_kernel_has_them() {
        let named = tailwater_io::kernel::Figures::default().named();
        for (name, ..) in FIGURES {
            assert!(named.iter().any(|(figures, _)| *figures == name), "{name}");
        }
    }
}
