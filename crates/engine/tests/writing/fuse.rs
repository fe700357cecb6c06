//! User-defined objects that share a fuse. When a test arms the fuse for one of the objects, the
//! object panics or runs an action when it is called.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tailwater::{
    CompactionFilter, CustomCompactionFilter, CustomMergeOperator, CustomPrefixExtractor,
    FilterContext, FilterDecision, FilteredValue, MergeOperator, OpenOptions, PrefixExtractor,
};
use tailwater_format::Comparator;
use tailwater_format::comparator::CustomComparator;
use tailwater_io::Clock;

/// The kinds of user-defined objects of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    Comparator,
    MergeOperator,
    PrefixExtractor,
    CompactionFilter,
    Clock,
    Storage,
}

impl Object {
    /// Returns a text that every error about a panic of this object must contain.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Comparator => "comparator 'tests.Fused'",
            Self::MergeOperator => "merge operator 'tests.Fused'",
            Self::PrefixExtractor => "prefix extractor 'tests.Fused'",
            Self::CompactionFilter => "compaction filter 'tests.Fused'",
            // Errors do not name a clock or a storage, since these are usually not user-defined. So
            // a test looks for the message of the panic instead of a name.
            Self::Clock | Self::Storage => "on purpose",
        }
    }
}

/// A switch with which a test makes user-defined objects fail. An armed fuse selects one object and
/// some threads. When such a thread calls a method of the object, the object panics or runs an
/// action. `None` means that the fuse is not armed, so nothing happens.
#[derive(Debug, Default)]
pub(crate) struct Fuse(Mutex<Option<Armed>>);

struct Armed {
    object: Object,
    /// Only calls in threads whose names begin with this text panic or are counted.
    threads: &'static str,
    /// Number of calls that still succeed before the panic.
    passes: usize,
    /// An action that the next call of the object runs instead of a panic. The call also disarms
    /// the fuse.
    instead: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Armed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Armed").field("object", &self.object).finish_non_exhaustive()
    }
}

impl Fuse {
    /// Makes an object panic whenever a thread whose name begins with `threads` calls one of its
    /// methods.
    pub(crate) fn arm(&self, object: Object, threads: &'static str) {
        self.arm_after(object, threads, 0);
    }

    /// Like [`Fuse::arm`], but the first `passes` of these method calls succeed.
    pub(crate) fn arm_after(&self, object: Object, threads: &'static str, passes: usize) {
        self.set(Some(Armed { object, threads, passes, instead: None }));
    }

    /// When a thread whose name begins with `threads` next calls a method of the object, the method
    /// runs `work`.
    pub(crate) fn call(
        &self,
        object: Object,
        threads: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) {
        let instead: Box<dyn FnOnce() + Send> = Box::new(work);
        self.set(Some(Armed { object, threads, passes: 0, instead: Some(instead) }));
    }

    fn set(&self, armed: Option<Armed>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = armed;
    }

    /// Counts the method calls of an object from threads whose names begin with `threads`, without
    /// any panic.
    pub(crate) fn watch(&self, object: Object, threads: &'static str) {
        self.arm_after(object, threads, usize::MAX);
    }

    /// Whether a method of the watched object was called since [`Fuse::watch`].
    pub(crate) fn has_seen_a_call(&self) -> bool {
        let armed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        armed.as_ref().is_some_and(|armed| armed.passes < usize::MAX)
    }

    /// Disarms the fuse, so that no object panics any more.
    pub(crate) fn disarm(&self) {
        self.set(None);
    }

    pub(crate) fn burn(&self, object: Object) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default();
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(armed) = &mut *slot else { return };
        if armed.object != object || !name.starts_with(armed.threads) {
            return;
        }
        if let Some(instead) = armed.instead.take() {
            *slot = None;
            drop(slot);
            instead();
            return;
        }
        assert!(armed.passes > 0, "on purpose");
        armed.passes -= 1;
    }
}

/// Implements every kind of user-defined object. Each method first asks the [`Fuse`], which may
/// panic.
struct Fused(Arc<Fuse>);

impl CustomComparator for Fused {
    fn name(&self) -> &str {
        "tests.Fused"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.burn(Object::Comparator);
        a.cmp(b)
    }
}

impl CustomMergeOperator for Fused {
    fn name(&self) -> &str {
        "tests.Fused"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.0.burn(Object::MergeOperator);
        let mut value = base.unwrap_or_default().to_vec();
        operands.iter().for_each(|operand| value.extend_from_slice(operand));
        Some(value)
    }
}

impl CustomPrefixExtractor for Fused {
    fn name(&self) -> &str {
        "tests.Fused"
    }

    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        self.0.burn(Object::PrefixExtractor);
        key.get(..1)
    }
}

impl CustomCompactionFilter for Fused {
    fn name(&self) -> &str {
        "tests.Fused"
    }

    fn filter(&self, _: &FilterContext, _: &[u8], _: FilteredValue<'_>) -> FilterDecision {
        self.0.burn(Object::CompactionFilter);
        FilterDecision::Keep
    }
}

/// A clock whose methods panic while the fuse is armed for clocks.
#[derive(Debug)]
struct FusedClock {
    clock: Arc<dyn Clock>,
    fuse: Arc<Fuse>,
}

impl Clock for FusedClock {
    fn monotonic_ns(&self) -> u64 {
        self.fuse.burn(Object::Clock);
        self.clock.monotonic_ns()
    }

    fn wall_us(&self) -> u64 {
        self.fuse.burn(Object::Clock);
        self.clock.wall_us()
    }

    fn sleep_until(&self, deadline_ns: u64) {
        self.clock.sleep_until(deadline_ns);
    }
}

/// Adds user-defined objects to the options. They panic when this fuse is armed for them. Also sets
/// the options that make column families use these objects.
pub(crate) fn install(options: &mut OpenOptions, clock: Arc<dyn Clock>, fuse: &Arc<Fuse>) {
    let fused = Arc::new(Fused(Arc::clone(fuse)));
    options.add_comparator(Comparator::Custom(fused.clone()));
    options.add_merge_operator(MergeOperator::Custom(fused.clone()));
    options.add_prefix_extractor(PrefixExtractor::Custom(fused.clone()));
    options.add_compaction_filter(CompactionFilter::Custom(fused));
    options.set_clock(Arc::new(FusedClock { clock, fuse: Arc::clone(fuse) }));
    let text = "comparator=tests.Fused;merge_operator=tests.Fused;prefix_extractor=tests.Fused;\
                compaction_filter=tests.Fused;\
                block_based_table_factory={filter_policy=bloomfilter:10:false}";
    options.set_from_string(text).expect("options");
}
