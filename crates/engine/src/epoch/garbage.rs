//! The garbage of a database: the objects that it has retired or left to its collectors, and that
//! are not yet dropped.
//!
//! Every open database has its own [`Garbage`]. So collecting drops what the database itself has
//! retired, and closing a database drops it all, whatever other databases have retired. One thing
//! is shared: a reader of any database pins an epoch, which delays the drop of objects of all
//! databases.
//!
//! # Objects without an owner
//!
//! [`Garbage::close`] does not wait for readers. The objects that a reader may still see move to a
//! list of the process, [`UNOWNED`]. Caches put their retired hash tables on this list, too,
//! because databases share caches. [`Garbage::collect`] of any database drains the list. While no
//! database is open, nobody does; the next database to be opened or closed then drops the objects.
//!
//! # Heavy objects
//!
//! Some objects take long to drop, such as the memory of a memtable. The last reference to such an
//! object may be dropped by a user's thread, together with an iterator. The object is then left to
//! a [`Collector`], a background thread of the database. [`Bin::drop_elsewhere`] is for objects
//! that no reader can see any more.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};

use super::DOMAIN;
use super::atomic::Ordering;
use super::retired::Retired;

/// The retired objects that belong to no open database.
#[cfg(not(all(loom, test)))]
static UNOWNED: Retired = Retired::new();

#[cfg(all(loom, test))]
static UNOWNED: std::sync::LazyLock<Retired> = std::sync::LazyLock::new(Retired::new);

/// Drops the objects without an owner that no reader can see any more, and returns their number.
pub(crate) fn collect_unowned() -> usize {
    UNOWNED.collect(&DOMAIN)
}

/// The garbage of a database. Dropping it closes it: see [`Garbage::close`].
///
/// The structures of the database have [`Bin`]s, which are weak references to the garbage. A strong
/// reference would be a cycle: table readers and super versions are put into the garbage.
pub(crate) struct Garbage {
    /// Objects that readers may still see.
    retired: Retired,
    /// Objects that no reader can see, and that take long to drop.
    heavy: Retired,
    /// Number of collectors, the threads that drop heavy objects.
    collectors: AtomicUsize,
    is_closed: AtomicBool,
}

impl Garbage {
    /// Creates the garbage of a database that is being opened.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            retired: Retired::new(),
            heavy: Retired::new(),
            collectors: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Returns a bin for a structure of the database.
    pub(crate) fn bin(self: &Arc<Self>) -> Bin {
        Bin(Some(Arc::downgrade(self)))
    }

    /// Takes an object over: a later [`Garbage::collect`] drops it when no guard remains whose
    /// holder could see it.
    ///
    /// The caller must have unlinked the object. Lock-free; allocates.
    pub(crate) fn retire<T: Send + 'static>(&self, object: T) {
        self.retired.push(DOMAIN.advance(), Box::new(object));
    }

    /// Drops the retired objects that no reader can see any more, and returns their number. Does
    /// the same with the objects that belong to no open database.
    ///
    /// For a background thread, since a drop may unlink a file or free an arena. Skips a list from
    /// which a concurrent call is selecting the objects to drop. The dropped objects may themselves
    /// retire and collect.
    pub(crate) fn collect(&self) -> usize {
        self.retired.collect(&DOMAIN) + collect_unowned()
    }

    /// Drops the heavy objects. For background threads, and for writers that wait for memory.
    pub(crate) fn collect_heavy(&self) {
        self.heavy.collect_all();
    }

    /// Returns the number of retired objects of the database that are not yet dropped. Does not
    /// count heavy objects.
    pub(crate) fn waiting(&self) -> usize {
        self.retired.count()
    }

    /// Registers a collector. Until the result is dropped, a background thread must call
    /// [`Garbage::collect_heavy`] from time to time.
    pub(crate) fn begin_collecting(self: &Arc<Self>) -> Collector {
        self.collectors.fetch_add(1, Ordering::SeqCst);
        Collector(Arc::clone(self))
    }

    /// Drops the objects that no reader can see, and makes the others objects without an owner.
    /// Never waits for a reader. What is retired later has no owner either.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.retired.dissolve(&DOMAIN, &UNOWNED);
        self.heavy.collect_all();
        // Objects of databases that were closed before may be due by now. If this is the last
        // database, nobody else drops them.
        collect_unowned();
    }

    fn drop_elsewhere<T: Send + 'static>(&self, object: T) {
        if self.collectors.load(Ordering::SeqCst) == 0 {
            return drop(object);
        }
        self.heavy.push(0, Box::new(object));
        // The last collector may have ended between the check and the push. Nobody else would then
        // drop the object.
        if self.collectors.load(Ordering::SeqCst) == 0 {
            self.heavy.collect_all();
        }
    }
}

impl Drop for Garbage {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Garbage").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

/// The registration of somebody who drops the heavy objects of a database.
#[derive(Debug)]
pub(crate) struct Collector(Arc<Garbage>);

impl Drop for Collector {
    fn drop(&mut self) {
        self.0.collectors.fetch_sub(1, Ordering::SeqCst);
        self.0.collect_heavy();
    }
}

/// Where a structure puts the objects that it retires: the garbage of its database, or the list of
/// objects without an owner, if the structure belongs to no database or its database is closed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bin(Option<Weak<Garbage>>);

impl Bin {
    /// Returns the garbage of the database, if it is open.
    fn owner(&self) -> Option<Arc<Garbage>> {
        let garbage = self.0.as_ref()?.upgrade()?;
        (!garbage.is_closed.load(Ordering::Acquire)).then_some(garbage)
    }

    /// Retires an object: see [`Garbage::retire`]. Never drops it.
    pub(crate) fn retire<T: Send + 'static>(&self, object: T) {
        match self.owner() {
            Some(garbage) => garbage.retire(object),
            None => UNOWNED.push(DOMAIN.advance(), Box::new(object)),
        }
    }

    /// Retires an object of a structure that is being dropped. Without an owner, the object is
    /// dropped at once if no reader can see it. So a table whose last user outlives the database is
    /// closed with this user.
    pub(crate) fn release<T: Send + 'static>(&self, object: T) {
        match self.owner() {
            Some(garbage) => garbage.retire(object),
            None => {
                let stamp = DOMAIN.advance();
                if stamp < DOMAIN.oldest_pinned() {
                    drop(object);
                } else {
                    UNOWNED.push(stamp, Box::new(object));
                }
            }
        }
    }

    /// Leaves an object, which no reader can see any more, to a collector of the database. If there
    /// is none, drops the object. Lock-free; allocates.
    pub(crate) fn drop_elsewhere<T: Send + 'static>(&self, object: T) {
        match self.owner() {
            Some(garbage) => garbage.drop_elsewhere(object),
            None => drop(object),
        }
    }

    /// Drops the retired objects of the database that no reader can see any more, and returns their
    /// number. Without an owner, does the same with the objects without an owner.
    ///
    /// Unlike [`Garbage::collect`], this is also for threads of users: they do not pay for other
    /// databases.
    pub(crate) fn collect(&self) -> usize {
        match self.owner() {
            Some(garbage) => garbage.retired.collect(&DOMAIN),
            None => collect_unowned(),
        }
    }
}
