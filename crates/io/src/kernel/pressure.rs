//! Stalls from the kernel's pressure files: `/proc/pressure/memory` and `io`, and `memory.pressure`
//! and `io.pressure` of a group in cgroup v2.

/// Time that tasks have stalled so far, in microseconds of wall-clock time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// While at least one task stalled.
    pub some_us: Option<u64>,
    /// While all runnable tasks stalled. Old kernels do not report it for the processor.
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
