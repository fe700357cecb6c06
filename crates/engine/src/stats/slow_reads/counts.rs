//! What the calling thread's read has read from files so far.

use std::cell::RefCell;

use tailwater_io::attribution;

use crate::block_cache::BlockKind;

/// Number of levels whose blocks are counted separately. Blocks of deeper levels count as those of
/// the last one.
pub(super) const LEVELS: usize = 8;
/// Number of kinds of blocks.
pub(super) const KINDS: usize = BlockKind::ALL.len();

/// Time since a table was added, in nanoseconds, up to which its blocks may not be in the caches
/// because it is new.
const NEW_TABLE_NS: u64 = 10_000_000_000;

/// What a read has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Tables opened.
    pub(crate) tables_opened: u32,
    /// Blocks that were read from files, by level and kind.
    pub(super) blocks: [[u32; KINDS]; LEVELS],
    /// Those of tables that were added within the last [`NEW_TABLE_NS`].
    pub(super) of_new_tables: u32,
    /// Those that another thread read at the same time.
    pub(super) read_by_others: u32,
    /// Values that were read from blob files.
    pub(crate) blobs: u32,
}

impl Counts {
    pub(super) const ZERO: Self = Self {
        tables_opened: 0,
        blocks: [[0; KINDS]; LEVELS],
        of_new_tables: 0,
        read_by_others: 0,
        blobs: 0,
    };
}

struct Account {
    counts: Counts,
    is_used: bool,
}

thread_local! {
    static ACCOUNT: RefCell<Account> =
        const { RefCell::new(Account { counts: Counts::ZERO, is_used: false }) };
}

/// Sets the counts to zero.
#[inline]
pub(super) fn reset() {
    ACCOUNT.with_borrow_mut(|account| {
        if account.is_used {
            *account = Account { counts: Counts::ZERO, is_used: false };
        }
    });
}

/// Returns the counts, and sets them to zero.
pub(super) fn take() -> Counts {
    ACCOUNT.with_borrow_mut(|account| {
        std::mem::replace(account, Account { counts: Counts::ZERO, is_used: false }).counts
    })
}

/// Calls `add` with the counts of the calling thread's read, if its time is attributed.
#[inline]
pub(crate) fn count(add: impl FnOnce(&mut Counts)) {
    if attribution::is_active() {
        ACCOUNT.with_borrow_mut(|account| {
            account.is_used = true;
            add(&mut account.counts);
        });
    }
}

/// Counts a block that was just read from a table of this level, which was added at a time of the
/// system's monotonic clock, or before the database was opened. `is_redundant` says whether another
/// thread read it at the same time.
pub(crate) fn count_block(
    level: usize,
    kind: BlockKind,
    added_ns: Option<u64>,
    is_redundant: bool,
) {
    count(|counts| {
        counts.blocks[level.min(LEVELS - 1)][kind as usize] += 1;
        let age_ns = |added_ns| attribution::last_boundary_ns().saturating_sub(added_ns);
        let is_new = added_ns.is_some_and(|added_ns| age_ns(added_ns) <= NEW_TABLE_NS);
        counts.of_new_tables += u32::from(is_new);
        counts.read_by_others += u32::from(is_redundant);
    });
}
