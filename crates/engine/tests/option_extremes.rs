//! Tests extreme values of every option.
//!
//! Each option is set to values at and beyond the limits of its type, to an empty value, and to
//! values that would require more memory, threads or levels than exist. After that, random sets of
//! several such values are tried. A value may be rejected, either when it is set or when the
//! database is opened, by an error that names the option. Otherwise the database must accept
//! writes, flush, compact, and reopen with everything that was written. The same is checked for
//! values that are set while the database is open. The tests limit the address space of the
//! process, so that an allocation whose size is proportional to an option's value fails.
//! `TAILWATER_SEED` repeats the random sets.

#[path = "option_extremes/candidates.rs"]
mod candidates;
#[path = "option_extremes/trial.rs"]
mod trial;

use std::collections::BTreeSet;
use std::sync::Once;

use rustix::process::{Resource, Rlimit, setrlimit};
use tailwater_testkit::seed;

use candidates::Candidate;

/// Limit on the address space of the process, in bytes. It is several times what the tests need.
const ADDRESS_SPACE: u64 = 6 << 30;

/// Number of random option sets per round.
const DRAWS: usize = 60;

/// One in this many option values is also tried with direct I/O.
const PART: usize = 4;

/// Maximum number of options in a random option set.
const OPTIONS_A_DRAW: usize = 12;

/// Options for direct I/O and many small tables.
const PAST_THE_PAGE_CACHE: &str = "\
    compaction_read_io_mode=direct;compaction_write_io_mode=direct;flush_write_io_mode=direct;\
    wal_io_mode=direct;write_buffer_size=64k;level0_file_num_compaction_trigger=2;\
    target_file_size_base=20k;max_bytes_for_level_base=50k;max_subcompactions=3;\
    block_based_table_factory={filter_policy=bloomfilter:10;cache_index_and_filter_blocks=true}";

/// Limits the address space of the process.
fn bound_memory() {
    static BOUNDED: Once = Once::new();
    BOUNDED.call_once(|| {
        let limit = Rlimit { current: Some(ADDRESS_SPACE), maximum: Some(ADDRESS_SPACE) };
        setrlimit(Resource::As, limit).expect("a limit");
    });
}

/// Regression test: an option value was accepted although it made a later flush, compaction or
/// opening fail, or it was rejected by an error that names another option.
#[test]
fn each_extreme_value_is_refused_or_works() {
    let candidates = candidates::all();
    let accepted = try_each("", &candidates);
    let options: BTreeSet<String> = candidates.iter().map(|it| it.option.clone()).collect();
    let refused: Vec<_> = options.difference(&accepted).collect();
    assert!(refused.is_empty(), "no value is accepted of {refused:?}");
}

/// Tests a random subset of the extreme values, to keep the test short.
#[test]
fn each_extreme_value_is_refused_or_works_with_direct_io() {
    let mut seed = seed::rng();
    let mut candidates = candidates::all();
    candidates.retain(|candidate| !candidate.is_ignored && seed.rng.usize(..PART) == 0);
    try_each(PAST_THE_PAGE_CACHE, &candidates);
}

/// Tries each value alone, in addition to the options in `base`. Returns the names of the options
/// of which at least one value was accepted.
fn try_each(base: &str, candidates: &[Candidate]) -> BTreeSet<String> {
    bound_memory();
    let mut failures = Vec::new();
    let mut accepted = BTreeSet::new();
    for candidate in candidates {
        match trial::run(base, std::slice::from_ref(candidate)) {
            Ok(true) => {
                accepted.insert(candidate.option.clone());
            }
            Ok(false) => {}
            Err(failure) => failures.push(format!("{base};{}: {failure}", candidate.text)),
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    accepted
}

#[test]
fn changing_an_option_to_an_extreme_value_is_refused_or_works() {
    bound_memory();
    let mut failures = Vec::new();
    let mut changed = 0;
    for candidate in &candidates::all() {
        match trial::change(candidate) {
            Ok(is_changed) => changed += usize::from(is_changed),
            Err(failure) => failures.push(format!("{}: {failure}", candidate.text)),
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(changed > 500, "only {changed} changes");
}

/// Regression test: the database started as many threads as an option requested. If the system
/// could not start all of them, the database did not open.
#[test]
fn a_database_opens_whatever_number_of_jobs_is_requested() {
    bound_memory();
    let candidate = |option: &str| Candidate {
        option: option.to_owned(),
        text: format!("{option}=2147483647"),
        is_ignored: false,
    };
    let all = [
        "max_background_jobs",
        "max_background_compactions",
        "max_subcompactions",
        "max_compaction_trigger_wakeup_seconds",
        "bgerror_resume_retry_interval",
    ];
    assert_eq!(trial::run_with_threads(&all.map(candidate)), Ok(true));
}

#[test]
fn combinations_of_extreme_values_are_refused_or_work() {
    bound_memory();
    let mut seed = seed::rng();
    let candidates = candidates::all();
    for draw in 0..DRAWS * seed::rounds() {
        let count = seed.rng.usize(2..=OPTIONS_A_DRAW);
        let mut drawn: Vec<Candidate> = Vec::new();
        while drawn.len() < count {
            let candidate = &candidates[seed.rng.usize(..candidates.len())];
            // Draws only values that are accepted without the other drawn values. Otherwise the
            // rejection of one value would prevent the test of the others.
            if drawn.iter().all(|it| it.option != candidate.option)
                && trial::is_accepted(std::slice::from_ref(candidate))
            {
                drawn.push(candidate.clone());
            }
        }
        // Tailwater compacts automatically only in leveled style. In the other styles, level 0 may
        // fill up until writes are stopped.
        let may_fill_up = drawn.iter().any(|it| {
            it.text.contains("compaction_style=") && !it.text.contains("kCompactionStyleLevel")
        });
        if let Err(failure) = trial::run("", &drawn)
            && !(may_fill_up && failure.contains("writes are stopped"))
        {
            let texts: Vec<&str> = drawn.iter().map(|it| it.text.as_str()).collect();
            panic!("seed {}, draw {draw}: {}: {failure}", seed.value(), texts.join(";"));
        }
    }
}
