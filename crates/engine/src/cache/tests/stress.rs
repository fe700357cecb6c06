//! Concurrent operations of many threads.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

use super::*;

#[test]
fn one_of_many_inserts_of_a_key_wins() {
    const THREADS: usize = 4;
    let cache = cache_of(100);
    let start = Barrier::new(THREADS);
    for round in 0..300 {
        let key = key(1, round);
        let insert = || {
            start.wait();
            cache.insert(key, Block::new(key, 0), 0, Priority::Low)
        };
        let outcomes = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(insert)).collect();
            threads.into_iter().map(|thread| thread.join().expect("inserts")).collect::<Vec<_>>()
        });
        let admitted = outcomes.iter().filter(|found| outcome(found) == "admitted").count();
        let present = outcomes.iter().filter(|found| outcome(found) == "present").count();
        assert_eq!((admitted, present), (1, THREADS - 1), "round {round}");
        let mut values = outcomes.into_iter().map(Inserted::into_cached);
        let first = values.next().expect("four of them");
        assert!(values.all(|value| Arc::ptr_eq(&first, &value)), "round {round}");
        drop(first);
        settle(&cache);
    }
}

#[test]
fn readers_miss_nothing_while_the_table_grows() {
    const BLOCKS: u64 = 60_000;
    let cache = Cache::with_shards(1 << 30, 1);
    let inserted = AtomicU64::new(0);
    let seed = seed();
    thread::scope(|scope| {
        for thread in 0..2 {
            let (cache, inserted) = (&cache, &inserted);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed.wrapping_add(thread));
                loop {
                    let limit = inserted.load(Ordering::Acquire);
                    if limit == BLOCKS {
                        return;
                    }
                    let block = random.u64(..limit.max(1));
                    assert!(limit == 0 || hit(cache, key(1, block)), "missed {block} of {limit}");
                }
            });
        }
        for block in 0..BLOCKS {
            drop(cache.insert(key(1, block), Block::new(key(1, block), 0), 0, Priority::Low));
            inserted.store(block + 1, Ordering::Release);
        }
    });
}

/// State that the threads of the stress test share.
struct Weather {
    cache: Cache<Block>,
    alive: Arc<AtomicUsize>,
    stop: AtomicBool,
    admitted: AtomicUsize,
    erased: AtomicUsize,
}

impl Weather {
    /// Returns the number of entries evicted so far. While threads run, it is approximate.
    fn evicted(&self) -> usize {
        let gone = self.erased.load(Ordering::Relaxed) + self.cache.entries();
        self.admitted.load(Ordering::Relaxed).saturating_sub(gone)
    }
}

/// Runs one thread of the stress test: random calls of all operations.
fn storm(weather: &Weather, seed: u64) {
    let Weather { cache, alive, stop, admitted, erased } = weather;
    const FILES: u64 = 4;
    const BLOCKS: u64 = 400;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut held = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let key = key(random.u64(1..=FILES), random.u64(..BLOCKS));
        match random.u8(..100) {
            0..30 => {
                let block = Block::counted(key, random.u64(..), alive);
                let charge = random.usize(..8192);
                let inserted = cache.insert(key, block, charge, Priority::Low);
                if outcome(&inserted) == "admitted" {
                    admitted.fetch_add(1, Ordering::Relaxed);
                }
                let cached = inserted.into_cached();
                cached.verify(key);
                if random.u8(..4) == 0 {
                    held.push((key, cached));
                }
            }
            30..80 => {
                let guard = pin();
                if let Some(found) = cache.lookup(key, &guard) {
                    found.verify(key);
                    if random.u8(..8) == 0 {
                        held.push((key, Arc::clone(found)));
                    }
                    thread::yield_now();
                    found.verify(key);
                }
            }
            80..90 => {
                erased.fetch_add(usize::from(cache.erase(key)), Ordering::Relaxed);
            }
            90 => {
                erased.fetch_add(cache.erase_file(key.file), Ordering::Relaxed);
            }
            91 => drop(entries_of(cache, key.file)),
            92 => drop(cache.pinned_usage()),
            _ => held.clear(),
        }
        held.iter().for_each(|(key, block)| block.verify(*key));
        if held.len() > 32 {
            held.clear();
        }
        let usage = cache.usage();
        assert!(usage <= cache.capacity(), "{usage} bytes of {} in use", cache.capacity());
    }
}

#[test]
fn concurrent_operations_respect_the_capacity_and_leak_nothing() {
    let seed = seed();
    let alive = Arc::new(AtomicUsize::new(0));
    for shards in [1, 4] {
        let weather = Weather {
            cache: Cache::with_shards(500_000, shards),
            alive: Arc::clone(&alive),
            stop: AtomicBool::new(false),
            admitted: AtomicUsize::new(0),
            erased: AtomicUsize::new(0),
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let weather = &weather;
                    scope.spawn(move || storm(weather, seed.wrapping_add(thread)))
                })
                .collect();
            // The test runs for a minimum time, and until something was evicted. On a busy machine,
            // a thread that is preempted while it holds a guard delays all evictions.
            let start = Instant::now();
            let is_enough =
                || start.elapsed() > Duration::from_millis(700) && weather.evicted() > 100;
            while !is_enough()
                && start.elapsed() < Duration::from_secs(30)
                && !threads.iter().any(|thread| thread.is_finished())
            {
                thread::sleep(Duration::from_millis(5));
            }
            weather.stop.store(true, Ordering::Relaxed);
        });
        let (cache, erased) = (&weather.cache, weather.erased.load(Ordering::Relaxed));
        assert!(weather.evicted() > 100 && erased > 100, "{} {erased}", weather.evicted());
        for file in 1..=4 {
            cache.erase_file(file);
        }
        settle(cache);
        assert_eq!((cache.entries(), cache.usage()), (0, 0));
        assert_eq!(alive.load(Ordering::Relaxed), 0, "values leak");
    }
}
