//! Number formats of RocksDB's reports (`util/string_util.cc`).

use std::fmt;

/// A count. It is shown in K from ten thousand, in M from ten million and in G from ten billion.
pub(super) struct Count(pub(super) u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            number @ 0..10_000 => number.to_string(),
            number @ 10_000..10_000_000 => format!("{}K", number / 1000),
            number @ 10_000_000..10_000_000_000 => format!("{}M", number / 1_000_000),
            number => format!("{}G", number / 1_000_000_000),
        };
        f.pad(&text)
    }
}

/// A size in bytes. It is shown in the largest of the units KB, MB, GB and TB in which the shown
/// number is at least 1. A size below 1 KB is shown in KB.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut size = self.0 as f64 / 1024.0;
        let mut units = ["KB", "MB", "GB", "TB"].into_iter();
        let mut unit = units.next().unwrap_or_default();
        for larger in units {
            if size < 1024.0 {
                break;
            }
            size /= 1024.0;
            unit = larger;
        }
        f.pad(&format!("{size:.2} {unit}"))
    }
}

/// A duration in microseconds. It is shown as hours, minutes and seconds.
pub(super) struct Micros(pub(super) u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes) = (self.0 / 3_600_000_000, self.0 / 60_000_000 % 60);
        let seconds = (self.0 % 60_000_000) as f64 / 1e6;
        write!(f, "{hours:02}:{minutes:02}:{seconds:05.3} H:M:S")
    }
}

/// Converts bytes to MB (2^20 bytes).
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Converts bytes to GB (2^30 bytes).
pub(super) fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_truncated_as_by_rocksdb() {
        let counts = [0, 9999, 10_000, 9_999_999, 10_000_000, 10_000_000_000];
        let shown = counts.map(|count| Count(count).to_string());
        assert_eq!(shown, ["0", "9999", "10K", "9999K", "10M", "10G"]);
        let sizes = [0, 1023, 1 << 20, 3 << 29, 5 << 50].map(|size| Bytes(size).to_string());
        assert_eq!(sizes, ["0.00 KB", "1.00 KB", "1.00 MB", "1.50 GB", "5120.00 TB"]);
        let times = [0, 61_500_000, 3_600_000_000 * 30].map(|time| Micros(time).to_string());
        assert_eq!(times, ["00:00:0.000 H:M:S", "00:01:1.500 H:M:S", "30:00:0.000 H:M:S"]);
    }
}
