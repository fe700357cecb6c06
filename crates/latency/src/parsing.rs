//! Parsers of command-line argument values.

use clap::ValueEnum;

/// Parses a finite number above 0.
pub fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        _ => Err("not a number above 0".into()),
    }
}

/// Parses the duration of a measurement in seconds, from a millisecond to 1,000,000 seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=1e6).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.001 to 1000000".into()),
    }
}

/// Parses a share: a number above 0 and up to 1.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("not a number above 0 and up to 1".into()),
    }
}

/// Parses a whole number of at least 1.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("not a whole number of at least 1".into()),
    }
}

/// Returns the name of a value on the command line, which reports also use.
pub fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
