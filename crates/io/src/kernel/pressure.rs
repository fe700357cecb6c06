//! Stall times from the kernel's pressure files: `/proc/pressure/memory` and `/proc/pressure/io` of
//! the machine, and `memory.pressure` and `io.pressure` of a cgroup v2 group.

/// Time during which tasks have been stalled so far, in microseconds of wall-clock time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Time during which at least one task was stalled.
    pub some_us: Option<u64>,
    /// Time during which all tasks that were not idle were stalled. Old kernels do not report it
    /// for processors.
    pub full_us: Option<u64>,
}

impl Pressure {
    /// Parses the text of a pressure file; `None` if it has no figures.
    pub fn parse(text: &str) -> Option<Self> {
        let total = |kind: &str| {
            let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(kind));
            let mut words = line?.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix("total="))?.parse().ok()
        };
        let pressure = Self { some_us: total("some"), full_us: total("full") };
        (pressure != Self::default()).then_some(pressure)
    }
}
