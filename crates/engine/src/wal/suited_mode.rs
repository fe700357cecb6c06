//! The choice of a log's I/O mode: direct while most groups are synced, buffered while most are
//! not.

/// Number of write groups that are counted before the I/O mode of logs may first change.
const GROUPS_MIN: u32 = 64;
/// Maximum number of write groups that are counted before the I/O mode of logs may change. Each
/// change doubles the number of groups, up to this maximum. The maximum is high because each change
/// begins a new log.
const GROUPS_MAX: u32 = 4096;

/// How the I/O mode of logs is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogMode {
    /// All logs are buffered.
    Buffered,
    /// All logs are direct.
    Direct,
    /// A new log uses direct I/O if most of the write groups shortly before it were synced.
    /// Otherwise the log is buffered.
    Auto,
}

/// Chooses the I/O mode that suits the groups written recently.
pub(super) struct SuitedMode {
    mode: LogMode,
    is_direct: bool,
    /// Number of write groups after which the I/O mode of logs is chosen anew.
    span: u32,
    groups: u32,
    synced: u32,
}

impl SuitedMode {
    /// Creates the initial state, in which no write groups were counted.
    pub(super) fn new(mode: LogMode) -> Self {
        let is_direct = mode == LogMode::Direct;
        Self { mode, is_direct, span: GROUPS_MIN, groups: 0, synced: 0 }
    }

    /// Whether the next log should be direct.
    pub(super) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Counts a group. If three quarters of the groups in a span suit the other mode, the mode
    /// changes. Each change doubles the span, so that alternating workloads cost little.
    pub(super) fn count(&mut self, is_synced: bool) {
        if self.mode != LogMode::Auto {
            return;
        }
        self.groups += 1;
        self.synced += u32::from(is_synced);
        if self.groups < self.span {
            return;
        }
        let suits_other = if self.is_direct {
            4 * (self.groups - self.synced) >= 3 * self.groups
        } else {
            4 * self.synced >= 3 * self.groups
        };
        if suits_other {
            self.is_direct = !self.is_direct;
            self.span = (2 * self.span).min(GROUPS_MAX);
        }
        (self.groups, self.synced) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes write groups, each of which is synced or not, to `suited`. Returns the positions,
    /// counted from 1, of the groups after which the I/O mode changed.
    fn changes(suited: &mut SuitedMode, groups: impl IntoIterator<Item = bool>) -> Vec<usize> {
        let mut before = suited.is_direct();
        let mut changes = Vec::new();
        for (at, is_synced) in groups.into_iter().enumerate() {
            suited.count(is_synced);
            if suited.is_direct() != before {
                changes.push(at + 1);
                before = !before;
            }
        }
        changes
    }

    #[test]
    fn logs_are_direct_while_most_groups_sync_and_buffered_while_most_do_not() {
        let mut suited = SuitedMode::new(LogMode::Auto);
        assert_eq!(changes(&mut suited, [false; 100]), [0; 0]);
        assert!(!suited.is_direct());
        assert_eq!(changes(&mut suited, [true; 100]).len(), 1);
        assert!(suited.is_direct());
        let half = (0..1000).map(|group| group % 2 == 0);
        assert_eq!(changes(&mut suited, half), [0; 0], "a mixed workload changes nothing");
        assert_eq!(changes(&mut suited, [false; 400]).len(), 1);
    }

    #[test]
    fn alternating_workloads_switch_rarely() {
        let mut suited = SuitedMode::new(LogMode::Auto);
        let bursts = (0..200_000).map(|group| group / 300 % 2 == 0);
        let count = changes(&mut suited, bursts).len();
        assert!((1..10).contains(&count), "{count} changes");
    }

    #[test]
    fn an_explicit_mode_never_changes() {
        for (mode, is_direct) in [(LogMode::Buffered, false), (LogMode::Direct, true)] {
            let mut suited = SuitedMode::new(mode);
            assert!(changes(&mut suited, [!is_direct; 10_000]).is_empty());
            assert_eq!(suited.is_direct(), is_direct);
        }
    }
}
