//! The options of an open database, some of which can be changed while it is open.

use std::sync::{Arc, MutexGuard};

use tailwater_io::pace::RateLimiter;
use tailwater_io::sync::Mutex;

use crate::epoch::{Bin, EpochCell, FullEpochCell};
use crate::open_options::OpenOptions;
use crate::options::{DbOptions, SetOptions};

/// The options of an open database: those with which it was opened, and the current ones.
///
/// They are kept in three forms for three kinds of access. Writes need database options that cannot
/// change, without incrementing a reference count: [`CurrentOptions::fixed`]. Reads get a column
/// family's options from its super version: see
/// [`FamilySettings`](crate::column_family::FamilySettings). [`CurrentOptions::open`] has all
/// options and the user's objects, which are needed to create column families and to write OPTIONS
/// files.
#[derive(Debug)]
pub(crate) struct CurrentOptions {
    opened_with: DbOptions,
    now: FullEpochCell<DbOptions>,
    /// Current options, including those of all existing column families.
    open: Mutex<OpenOptions>,
    rate_limiter: EpochCell<RateLimiter>,
    is_inline: bool,
}

impl CurrentOptions {
    /// Creates the current options of a database that is opened with the options `open`. Options
    /// that were replaced are retired into `bin`.
    pub(crate) fn new(open: OpenOptions, bin: &Bin) -> Self {
        let opened_with = open.database().clone();
        Self {
            now: FullEpochCell::in_bin(bin.clone(), Arc::new(opened_with.clone())),
            opened_with,
            rate_limiter: EpochCell::in_bin(bin.clone(), open.rate_limiter()),
            is_inline: open.inline_background(),
            open: Mutex::new(open),
        }
    }

    /// Returns the options with which the database was opened. An option that can be changed while
    /// the database is open may have another value by now. The call is cheap enough for every
    /// write.
    #[inline]
    pub(crate) fn fixed(&self) -> &DbOptions {
        &self.opened_with
    }

    /// Returns the current options of the database. A job takes them once and uses them until it
    /// ends. The call increments a reference count, so it is too slow for every write.
    pub(crate) fn now(&self) -> Arc<DbOptions> {
        self.now.load_arc()
    }

    /// Locks the options of the database and its column families. They include the user's objects,
    /// such as comparators.
    pub(crate) fn open(&self) -> MutexGuard<'_, OpenOptions> {
        self.open.lock()
    }

    /// Whether background work runs on the threads that request it.
    pub(crate) fn is_inline(&self) -> bool {
        self.is_inline
    }

    /// Returns the rate limiter of flushes and compactions, if there is one.
    pub(crate) fn rate_limiter(&self) -> Option<Arc<RateLimiter>> {
        self.rate_limiter.load_arc()
    }

    /// Replaces the current options of the database.
    pub(crate) fn change_database(&self, changed: &SetOptions<DbOptions>) {
        let rate = changed.effective.rate_limiter_bytes_per_sec;
        let has_new_rate = rate != self.now().rate_limiter_bytes_per_sec;
        self.open().change_database(changed);
        self.now.store(Arc::new(changed.effective.clone()));
        if has_new_rate {
            self.change_rate(rate);
        }
    }

    /// Applies a new rate in bytes per second; 0 means no limit. If there is a rate limiter and the
    /// new rate is not 0, changes the rate of the limiter, which takes effect immediately.
    /// Otherwise creates or removes the rate limiter; jobs that are already running keep what they
    /// began with.
    fn change_rate(&self, bytes_per_second: u64) {
        match self.rate_limiter.load_arc() {
            Some(limiter) if bytes_per_second > 0 => {
                limiter.set_bytes_per_second(bytes_per_second);
            }
            _ => self.rate_limiter.store(self.open().rate_limiter()),
        }
    }
}
