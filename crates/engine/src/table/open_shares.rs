//! Division of the process's limit on open files between the kinds of files of a database.
//!
//! The number of open files of a process is limited (`RLIMIT_NOFILE`). Part of the limit is
//! reserved for files other than the tables and blob files that users read: logs, the MANIFEST,
//! locks, inputs and outputs of compactions, and directories that are listed or synced. Tables and
//! blob files share the rest; the option `max_open_files` can only reduce it.

/// Number of files reserved for logs, the MANIFEST and locks, and for files that the program opens
/// outside the database.
const OTHER_FILES: usize = 64;
/// If [`OTHER_FILES`] exceeds 1/OTHER_PART of the process's limit on open files, only that part of
/// the limit is reserved.
const OTHER_PART: usize = 4;
/// At least 1/COMPACTION_PART of the process's limit on open files is reserved for compactions.
const COMPACTION_PART: usize = 4;
/// Minimum number of files that compactions may open, however low the limit is.
const COMPACTIONS_MIN: usize = 32;
/// Minimum number of tables kept open, however low the limit is.
const TABLES_MIN: usize = 16;
/// Maximum share of blob files among the open files that serve users' reads: 1/BLOB_FILE_PART.
const BLOB_FILE_PART: usize = 8;

/// The maximum numbers of files that a database keeps open, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenShares {
    /// Maximum number of open tables; `None` for no limit.
    pub(crate) tables: Option<usize>,
    /// The process's limit on open files, if it determines `tables`; `None` if the option
    /// `max_open_files` does.
    pub(crate) limited_by: Option<usize>,
    /// Maximum number of open blob files; `None` for no limit.
    pub(crate) blob_files: Option<usize>,
    /// Budget for files that compactions open for themselves, in file descriptors.
    pub(crate) compactions: usize,
}

impl OpenShares {
    /// Divides `limit`, the maximum number of open files, among tables, blob files, compactions and
    /// other files. [`usize::MAX`] means no limit. If `max_open_files` is negative, tables and blob
    /// files get as much as the limit allows.
    pub(crate) fn new(limit: usize, max_open_files: i32) -> Self {
        let others = OTHER_FILES.min(limit / OTHER_PART);
        let for_users = limit - others - limit / COMPACTION_PART;
        let most_blob_files = for_users / BLOB_FILE_PART;
        let most = (for_users - most_blob_files).max(TABLES_MIN);
        let wanted = usize::try_from(max_open_files).ok();
        let is_unlimited = limit == usize::MAX;
        let is_limited = !is_unlimited && wanted.is_none_or(|wanted| wanted > most);
        let tables = if is_limited { Some(most) } else { wanted };
        let blob_files = match wanted {
            Some(wanted) => Some(wanted.min(most_blob_files)),
            None => (!is_unlimited).then_some(most_blob_files),
        };
        let taken = [tables.unwrap_or(most), blob_files.unwrap_or(most_blob_files), others];
        let taken = taken.into_iter().fold(0, usize::saturating_add);
        Self {
            tables,
            limited_by: is_limited.then_some(limit),
            blob_files,
            compactions: limit.saturating_sub(taken).max(COMPACTIONS_MIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_get_the_remainder_of_the_limit_up_to_max_open_files() {
        let all = OpenShares::new(1024, -1);
        assert_eq!((all.tables, all.limited_by), (Some(616), Some(1024)));
        assert_eq!((all.blob_files, all.compactions), (Some(88), 256));
        assert_eq!(OpenShares::new(1024, 5000), all);
        let few = OpenShares::new(1024, 200);
        assert_eq!((few.tables, few.limited_by), (Some(200), None));
        assert_eq!((few.blob_files, few.compactions), (Some(88), 672));
        let unlimited = OpenShares::new(usize::MAX, -1);
        assert_eq!((unlimited.tables, unlimited.limited_by), (None, None));
        assert_eq!(unlimited.blob_files, None);
        let bounded = OpenShares::new(usize::MAX, 5000);
        assert_eq!((bounded.tables, bounded.blob_files), (Some(5000), Some(5000)));
    }

    #[test]
    fn shares_fit_the_limit() {
        for limit in [100, 128, 200, 1024, 20_000, 1 << 20] {
            for max_open_files in [-1, 20, 100, 5000, i32::MAX] {
                let shares = OpenShares::new(limit, max_open_files);
                let users = [shares.tables, shares.blob_files].map(|share| share.expect("a bound"));
                let taken = users[0] + users[1] + shares.compactions;
                assert!(
                    taken <= limit,
                    "{limit} files, max_open_files={max_open_files}: {shares:?}"
                );
            }
        }
        let least = OpenShares::new(10, -1);
        assert_eq!((least.tables, least.compactions), (Some(TABLES_MIN), COMPACTIONS_MIN));
    }
}
