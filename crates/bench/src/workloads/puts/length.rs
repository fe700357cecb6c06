//! The condition that ends a measurement: a duration, or a number of writes.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// The condition that ends a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Length {
    /// The measurement ends after this duration. Reports state the duration in seconds.
    #[serde(rename = "seconds", serialize_with = "as_seconds")]
    Time(Duration),
    /// The measurement ends after this number of writes, counted over all writers.
    Writes(u64),
}

fn as_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

impl Length {
    /// Returns the maximum number of writes that one of `writers` writers may make; `writer` is its
    /// number, counted from 0.
    pub(crate) fn writes_of(self, writer: usize, writers: usize) -> u64 {
        match self {
            Self::Time(_) => u64::MAX,
            Self::Writes(all) => {
                let (writer, writers) = (writer as u64, writers as u64);
                all / writers + u64::from(writer < all % writers)
            }
        }
    }

    /// Returns whether the time is up for a writer that began `elapsed` ago.
    pub(crate) fn is_over_after(self, elapsed: Duration) -> bool {
        matches!(self, Self::Time(time) if elapsed >= time)
    }

    /// Returns a description for reports.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Time(time) => format!("{} s", time.as_secs_f64()),
            Self::Writes(1) => "one write".to_owned(),
            Self::Writes(count) => format!("{count} writes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_share_all_writes() {
        for (all, writers) in [(10, 4), (3, 16), (64, 64), (1, 1)] {
            let shares = (0..writers).map(|writer| Length::Writes(all).writes_of(writer, writers));
            let shares: Vec<_> = shares.collect();
            assert_eq!(shares.iter().sum::<u64>(), all, "{shares:?}");
            assert!(shares[0] - shares[writers - 1] <= 1, "{shares:?}");
        }
    }

    #[test]
    fn only_time_ends_what_has_no_number() {
        let second = Length::Time(Duration::from_secs(1));
        assert_eq!(second.writes_of(3, 4), u64::MAX);
        assert!(!second.is_over_after(Duration::from_millis(999)));
        assert!(second.is_over_after(Duration::from_secs(1)));
        assert!(!Length::Writes(1).is_over_after(Duration::MAX));
        assert_eq!(second.describe(), "1 s");
        assert_eq!(serde_json::to_string(&second).unwrap(), "{\"seconds\":1.0}");
    }
}
