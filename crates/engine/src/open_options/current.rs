//! The options of an open database: those that are fixed, and those that can be changed.

use std::sync::{Arc, MutexGuard};

use tailwater_io::pace::RateLimiter;
use tailwater_io::sync::Mutex;

use crate::epoch::{EpochCell, FullEpochCell};
use crate::open_options::OpenOptions;
use crate::options::DbOptions;

/// The options of an open database: the options with which it was opened, and the current options.
///
/// Options are kept in three forms because they are read in three ways. Writes read the database's
/// fixed options without counting a reference ([`CurrentOptions::fixed`]). Readers find a column
/// family's options with its super version
/// ([`FamilySettings`](crate::column_family::FamilySettings)). [`CurrentOptions::open`] has all
/// options and the user's objects, for creating column families and writing OPTIONS files.
#[derive(Debug)]
pub(crate) struct CurrentOptions {
    opened_with: DbOptions,
    now: FullEpochCell<DbOptions>,
    /// Includes the options of the existing column families.
    open: Mutex<OpenOptions>,
    rate_limiter: EpochCell<RateLimiter>,
    is_inline: bool,
}

impl CurrentOptions {
    /// Starts with the options with which the database was opened.
    pub(crate) fn new(open: OpenOptions) -> Self {
        let opened_with = open.database().clone();
        Self {
            now: FullEpochCell::new(Arc::new(opened_with.clone())),
            opened_with,
            rate_limiter: EpochCell::new(open.rate_limiter()),
            is_inline: open.inline_background(),
            open: Mutex::new(open),
        }
    }

    /// Returns the options with which the database was opened. Only the values of options that
    /// cannot be changed are current. Cheap enough to be called by every write.
    #[inline]
    pub(crate) fn fixed(&self) -> &DbOptions {
        &self.opened_with
    }

    /// Returns the current options of the database, for a piece of work that keeps using them until
    /// it ends. Counts a reference, so it is too slow to be called by every write.
    pub(crate) fn now(&self) -> Arc<DbOptions> {
        self.now.load_arc()
    }

    /// Locks the options of the database and its column families, with the user's objects.
    pub(crate) fn open(&self) -> MutexGuard<'_, OpenOptions> {
        self.open.lock()
    }

    /// Whether background work is done by the threads that request it.
    pub(crate) fn is_inline(&self) -> bool {
        self.is_inline
    }

    /// Returns the rate limiter of flushes and compactions, if there is one.
    pub(crate) fn rate_limiter(&self) -> Option<Arc<RateLimiter>> {
        self.rate_limiter.load_arc()
    }

    /// Replaces the current options of the database.
    pub(crate) fn change_database(&self, options: DbOptions) {
        let rate = options.rate_limiter_bytes_per_sec;
        let has_new_rate = rate != self.now().rate_limiter_bytes_per_sec;
        self.open().set_database(options.clone());
        self.now.store(Arc::new(options));
        if has_new_rate {
            self.change_rate(rate);
        }
    }

    /// If there is a rate limiter and the new rate is not 0, changes its rate, which takes effect
    /// immediately. Otherwise creates or removes the rate limiter; running work keeps the one with
    /// which it began.
    fn change_rate(&self, bytes_per_second: u64) {
        match self.rate_limiter.load_arc() {
            Some(limiter) if bytes_per_second > 0 => {
                limiter.set_bytes_per_second(bytes_per_second);
            }
            _ => self.rate_limiter.store(self.open().rate_limiter()),
        }
    }
}
