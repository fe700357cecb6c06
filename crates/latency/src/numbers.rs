//! Computes medians, and formats figures with up to three significant digits.

/// Returns the median. There must be at least one figure.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len() % 2 == 1 {
        figures[middle]
    } else {
        figures[middle - 1..=middle].iter().sum::<f64>() / 2.0
    }
}

/// Formats a number of operations per second with three significant digits.
pub fn rate(rate: f64) -> String {
    match rate {
        rate if rate >= 1e7 => format!("{:.1}M", rate / 1e6),
        rate if rate >= 1e6 => format!("{:.2}M", rate / 1e6),
        rate if rate >= 1e5 => format!("{:.0}k", rate / 1e3),
        rate if rate >= 1e4 => format!("{:.1}k", rate / 1e3),
        rate if rate >= 1e3 => format!("{:.2}k", rate / 1e3),
        rate if rate >= 99.95 => format!("{rate:.0}"),
        rate if rate >= 9.995 => format!("{rate:.1}"),
        rate => format!("{rate:.2}"),
    }
}

/// Formats a duration in microseconds with three significant digits; `k` means thousands.
pub fn micros(us: f64) -> String {
    match us {
        us if us >= 99_950.0 => format!("{:.0}k", us / 1e3),
        us if us >= 9_995.0 => format!("{:.1}k", us / 1e3),
        us if us >= 999.5 => format!("{:.2}k", us / 1e3),
        us if us >= 99.95 => format!("{us:.0}"),
        us if us >= 9.995 => format!("{us:.1}"),
        us => format!("{us:.2}"),
    }
}

/// Formats a duration in microseconds with up to three significant digits and its unit.
pub fn latency(us: f64) -> String {
    let (value, unit) = match us {
        us if us >= 999_500.0 => (us / 1e6, "s"),
        us if us >= 999.5 => (us / 1e3, "ms"),
        us => (us, "us"),
    };
    let text = match value {
        value if value >= 99.95 => return format!("{value:.0} {unit}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    };
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        let texts = [3.94, 12.34, 512.3, 8_512.0, 653_400.0, 1_234_567.0, 24_800_000.0].map(rate);
        assert_eq!(texts, ["3.94", "12.3", "512", "8.51k", "653k", "1.23M", "24.8M"]);
    }

    #[test]
    fn latencies_have_a_unit() {
        let texts = [0.0, 5.0, 12.34, 200.0, 1_550.0, 2_100_000.0].map(latency);
        assert_eq!(texts, ["0 us", "5 us", "12.3 us", "200 us", "1.55 ms", "2.1 s"]);
    }

    #[test]
    fn microseconds_have_three_digits() {
        let texts = [1.234, 12.34, 123.4, 999.9, 12_340.0, 123_400.0].map(micros);
        assert_eq!(texts, ["1.23", "12.3", "123", "1.00k", "12.3k", "123k"]);
    }
}
