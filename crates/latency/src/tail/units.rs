//! Parses and formats the command-line values that have units.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Prefixes of units. `K` means 1,000 or 1,024 bytes, depending on the unit. Each further prefix
/// means 1,000 or 1,024 times as many bytes as the one before it.
const LETTERS: &str = "KMGT";

/// A number of bytes.
///
/// It is parsed from a number and an optional unit. The units `K`, `M`, `G` and `T`, as well as
/// `KiB`, `MiB`, `GiB` and `TiB`, are powers of 1,024. The units `KB`, `MB`, `GB` and `TB` are
/// powers of 1,000. A rate may end with `/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Parses a number of bytes of at least 1.
    pub(crate) fn above_zero(text: &str) -> Result<Self, String> {
        match text.parse()? {
            Self(0) => Err("not an amount above 0".into()),
            bytes => Ok(bytes),
        }
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let amount = text.strip_suffix("/s").unwrap_or(text);
        let digits = amount.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: f64 = digits.trim().parse().map_err(|_| format!("'{text}' has no number"))?;
        let unit = amount[digits.len()..].to_ascii_uppercase();
        let unit_bytes =
            unit_bytes(&unit).ok_or_else(|| format!("'{unit}' is not a unit: K, M, G, MiB, MB"))?;
        let bytes = number * unit_bytes;
        if !(0.0..=u64::MAX as f64 / 2.0).contains(&bytes) {
            return Err(format!("'{text}' is not an amount of bytes"));
        }
        Ok(Self(bytes.round() as u64))
    }
}

/// Returns the number of bytes in a unit, which must be in capitals; `None` if it is not a unit.
fn unit_bytes(unit: &str) -> Option<f64> {
    if matches!(unit, "" | "B") {
        return Some(1.0);
    }
    let power = LETTERS.find(unit.chars().next()?)? as i32 + 1;
    match &unit[1..] {
        "" | "IB" => Some(1024f64.powi(power)),
        "B" => Some(1000f64.powi(power)),
        _ => None,
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|(size, _)| self.0 >= *size) {
            Some((size, unit)) => {
                let number = format!("{:.1}", self.0 as f64 / size as f64);
                write!(f, "{} {unit}", number.trim_end_matches(".0"))
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

/// The size of the hot set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HotSet {
    /// A percentage of the memory limit.
    Percent(f64),
    /// A number of bytes, counting only values.
    Bytes(u64),
}

impl FromStr for HotSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(|Bytes(bytes)| Self::Bytes(bytes));
        };
        match percent.trim().parse() {
            Ok(percent) if percent > 0.0 => Ok(Self::Percent(percent)),
            _ => Err(format!("'{text}' is not a percentage above 0")),
        }
    }
}

impl HotSet {
    /// Returns the size in bytes. `limit` is the memory limit in bytes.
    pub(super) fn bytes(self, limit: u64) -> u64 {
        match self {
            Self::Percent(percent) => (limit as f64 * percent / 100.0) as u64,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The rate at which the writer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRate {
    /// Determine a rate that all configurations sustain, before the experiment.
    Calibrate,
    /// This many bytes of keys and values per second.
    BytesPerSecond(u64),
}

impl FromStr for WriteRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "calibrate" => Ok(Self::Calibrate),
            _ => match text.parse()? {
                Bytes(0) => {
                    Err("must be above 0; --configurations no_compaction writes nothing".into())
                }
                Bytes(bytes) => Ok(Self::BytesPerSecond(bytes)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units() {
        let bytes = |text: &str| text.parse::<Bytes>().map(|bytes| bytes.0);
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("1G"), Ok(1 << 30));
        assert_eq!(bytes("1.5 MiB"), Ok(3 << 19));
        assert_eq!(bytes("40MB/s"), Ok(40_000_000));
        assert!(bytes("G").is_err());
        assert!(bytes("1X").is_err());
        assert!(bytes("-1").is_err());
        for none in ["0", "0G", "0.2", "-1", "NaN", "inf", "1e300"] {
            assert!(Bytes::above_zero(none).is_err(), "{none}");
        }
        assert_eq!(Bytes::above_zero("1K"), Ok(Bytes(1 << 10)));
        assert_eq!(Bytes(80 << 20).to_string(), "80 MiB");
        assert_eq!(Bytes(3 << 29).to_string(), "1.5 GiB");
    }

    #[test]
    fn a_hot_set_is_a_percentage_or_an_amount() {
        assert_eq!("40%".parse::<HotSet>().unwrap().bytes(1000), 400);
        assert_eq!("2K".parse::<HotSet>().unwrap().bytes(1000), 2048);
        assert!("0%".parse::<HotSet>().is_err());
    }

    #[test]
    fn a_write_rate_is_an_amount_or_calibrated() {
        assert_eq!("calibrate".parse(), Ok(WriteRate::Calibrate));
        assert_eq!("100MB".parse(), Ok(WriteRate::BytesPerSecond(100_000_000)));
        assert!("0".parse::<WriteRate>().is_err());
    }
}
