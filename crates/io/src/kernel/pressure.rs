//! Stalls, as the kernel's pressure files have them: `/proc/pressure/memory` and `io`, and
//! `memory.pressure` and `io.pressure` of a group in cgroup v2.

/// For how long tasks waited so far, in microseconds of wall-clock time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// While at least one of them waited.
    pub some_us: Option<u64>,
    /// While all that could have run waited. Old kernels do not tell it of the processor.
    pub full_us: Option<u64>,
}

impl Pressure {
    /// From such a file's text; `None` if it tells nothing.
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
