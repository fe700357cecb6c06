//! Reads and writes of users that are charged to a rate limiter.

use std::sync::Arc;

use tailwater::{
    Db, ErrorKind, OpenOptions, RateLimiter, RateLimiterMode, RateLimiterPriority, ReadOptions,
    Statistics, WriteOptions,
};
use tailwater_io::pace::OpType;
use tailwater_io::sim::SimStorage;

use crate::support::{default_family, failure, put, simulated};

const PRIORITIES: [RateLimiterPriority; 4] = [
    RateLimiterPriority::Low,
    RateLimiterPriority::Mid,
    RateLimiterPriority::High,
    RateLimiterPriority::User,
];
const MODES: [RateLimiterMode; 3] =
    [RateLimiterMode::ReadsOnly, RateLimiterMode::WritesOnly, RateLimiterMode::AllIo];

struct Scene {
    db: Db,
    limiter: Arc<RateLimiter>,
    statistics: Arc<Statistics>,
    options: OpenOptions,
}

fn scene(mode: RateLimiterMode, text: &str) -> Scene {
    let disk = SimStorage::new(1);
    let limiter = RateLimiter::new(1 << 40).with_clock(disk.clock()).with_mode(mode);
    let (limiter, statistics) = (Arc::new(limiter), Arc::new(Statistics::new()));
    let text = format!(
        "compression=kNoCompression;block_based_table_factory={{no_block_cache=true}};{text}"
    );
    let mut options = simulated(&disk, &text);
    options.set_rate_limiter(Arc::clone(&limiter)).set_statistics(Arc::clone(&statistics));
    let db = Db::open("/db", &options).expect("a database");
    Scene { db, limiter, statistics, options }
}

impl Scene {
    /// Returns the bytes that were granted since the last call, of each priority.
    fn granted(&self, before: &mut [u64; 4]) -> [u64; 4] {
        let now = PRIORITIES.map(|priority| self.limiter.granted(priority));
        let granted = std::array::from_fn(|at| now[at] - before[at]);
        *before = now;
        granted
    }

    fn ticker(&self, name: &str) -> u64 {
        self.statistics.ticker(&format!("rocksdb.rate.limiter.{name}")).expect("a ticker")
    }
}

/// Reads all keys with gets, a multi-get and iterators.
fn read_all(db: &Db, options: &ReadOptions) {
    let family = default_family(db);
    let keys: Vec<String> = (0..20).map(|key| format!("{key:03}")).collect();
    for key in &keys {
        assert!(db.get_cf_opt(&family, key, options).expect("a get").is_some());
    }
    for value in db.batched_multi_get_cf_opt(&family, &keys, options) {
        assert!(value.expect("a get").is_some());
    }
    for in_flight in [false, true] {
        let options = options.clone().with_async_io(in_flight);
        let mut iterator = db.raw_iterator_cf_opt(&family, &options).expect("an iterator");
        iterator.seek_to_first().expect("a seek");
        let mut count = 0;
        while iterator.valid() {
            count += 1;
            iterator.next().expect("a step");
        }
        assert_eq!(count, keys.len());
    }
}

#[test]
fn reads_with_a_priority_are_charged_if_the_mode_includes_reads() {
    for mode in MODES {
        let scene = scene(mode, "");
        for key in 0..20 {
            put(&scene.db, &format!("{key:03}"), &"v".repeat(5000)).expect("a put");
        }
        scene.db.flush_all().expect("a flush");
        let reader = Db::open_read_only("/db", &scene.options).expect("a database");
        let mut before = [0; 4];
        scene.granted(&mut before);
        let counted = scene.ticker("bytes.read");
        for db in [&scene.db, &reader] {
            read_all(db, &ReadOptions::default());
            assert_eq!(scene.granted(&mut before), [0; 4], "{mode:?}, without a priority");
            for (at, priority) in PRIORITIES.into_iter().enumerate() {
                read_all(db, &ReadOptions::new().with_rate_limiter_priority(priority));
                let granted = scene.granted(&mut before);
                let others: u64 = granted.iter().sum::<u64>() - granted[at];
                // Gets, multi-gets and both iterators each read all values.
                let all = 4 * 20 * 5000;
                let expected = if mode.limits(OpType::Read) { all..2 * all } else { 0..1 };
                assert!(expected.contains(&granted[at]), "{mode:?}, {priority:?}: {granted:?}");
                assert_eq!(others, 0, "{mode:?}, {priority:?}: {granted:?}");
            }
        }
        let total: u64 = PRIORITIES.map(|priority| scene.limiter.granted(priority)).iter().sum();
        let counted = (scene.ticker("bytes.read") - counted, scene.ticker("bytes.write"));
        assert_eq!(counted.0 + counted.1, total, "{mode:?}");
        assert_eq!(counted.0 > 0, mode.limits(OpType::Read), "{mode:?}");
        assert_eq!(scene.ticker("requests.read") > 0, mode.limits(OpType::Read), "{mode:?}");
    }
}

#[test]
fn writes_with_a_priority_are_charged_if_the_mode_includes_writes() {
    for mode in MODES {
        let scene = scene(mode, "");
        let family = default_family(&scene.db);
        let user = WriteOptions::new().with_rate_limiter_priority(RateLimiterPriority::User);
        put(&scene.db, "a", &"v".repeat(10_000)).expect("a put");
        assert_eq!(scene.limiter.granted(RateLimiterPriority::User), 0);
        for options in [user, user.with_sync(true)] {
            let before = scene.limiter.granted(RateLimiterPriority::User);
            scene.db.put_cf_opt(&family, "b", [b'v'; 10_000], &options).expect("a put");
            let granted = scene.limiter.granted(RateLimiterPriority::User) - before;
            let expected = if mode.limits(OpType::Write) { 10_000..10_100 } else { 0..1 };
            assert!(expected.contains(&granted), "{mode:?}: {granted}");
        }
    }
}

#[test]
fn writes_accept_only_the_priority_of_users_and_only_with_the_log() {
    let refused = |text: &str, options: WriteOptions| {
        let scene = scene(RateLimiterMode::AllIo, text);
        let written = scene.db.put_cf_opt(&default_family(&scene.db), "a", "1", &options);
        let (kind, text) = failure(written);
        assert_eq!(kind, ErrorKind::InvalidArgument);
        assert!(text.contains("rate_limiter_priority"), "{text}");
        assert_eq!(scene.limiter.granted(RateLimiterPriority::User), 0);
    };
    for priority in PRIORITIES {
        let options = WriteOptions::new().with_rate_limiter_priority(priority);
        if priority != RateLimiterPriority::User {
            refused("", options);
        } else {
            refused("manual_wal_flush=true", options);
            refused("", options.with_disable_wal(true));
        }
    }
    // Without a rate limiter, the option has no effect.
    let db = Db::open("/db", &simulated(&SimStorage::new(1), "")).expect("a database");
    let user = WriteOptions::new().with_rate_limiter_priority(RateLimiterPriority::User);
    db.put_cf_opt(&default_family(&db), "a", "1", &user).expect("a put");
}
