//! Two column families in one database: one of counters with a merge operator, and one of sessions
//! with a compaction filter that removes expired sessions.
//!
//! ```sh
//! cargo run -p tailwater --example column_families
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater::{
    CompactionFilter, CustomCompactionFilter, CustomMergeOperator, Db, FilterContext,
    FilterDecision, FilteredValue, MergeOperator, OpenOptions, Result, WriteBatch,
};

/// Keeps the largest of the 64-bit numbers merged into a key.
struct Largest;

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

impl CustomMergeOperator for Largest {
    fn name(&self) -> &str {
        "example.Largest"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all = existing.iter().chain(operands).map(|bytes| number(bytes));
        // If a value is not a number, the merge fails, and so does the read that needed it. The
        // stored value and operands are not lost.
        let largest = all.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
        Some(largest.to_be_bytes().to_vec())
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge(key, None, operands)
    }
}

/// Removes expired sessions. The value of a session is the time at which it expires.
struct Expired {
    now_s: AtomicU64,
}

impl CustomCompactionFilter for Expired {
    fn name(&self) -> &str {
        "example.Expired"
    }

    fn filter(&self, _: &FilterContext, _: &[u8], value: FilteredValue<'_>) -> FilterDecision {
        let FilteredValue::Plain(value) = value else { return FilterDecision::Keep };
        let now_s = self.now_s.load(Ordering::Relaxed);
        match number(value) {
            Some(end_s) if end_s <= now_s => FilterDecision::Remove,
            _ => FilterDecision::Keep,
        }
    }
}

fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("families-{}", std::process::id()));
    let expired = Arc::new(Expired { now_s: AtomicU64::new(0) });
    let mut options = OpenOptions::default();
    options.set_from_string("create_if_missing=true;create_missing_column_families=true")?;
    // Each user-defined object is registered once. Column families then refer to it by name in
    // their options.
    options.add_merge_operator(MergeOperator::Custom(Arc::new(Largest)));
    options.add_compaction_filter(CompactionFilter::Custom(expired.clone()));
    options.set_column_family_from_string("records", "merge_operator=example.Largest")?;
    options.set_column_family_from_string("sessions", "compaction_filter=example.Expired")?;

    let db = Db::open(&directory, &options)?;
    let (records, sessions) = (db.cf_handle("records")?, db.cf_handle("sessions")?);

    for score in [300_u64, 700, 500] {
        db.merge_cf(&records, "player", score.to_be_bytes())?;
    }
    assert_eq!(db.get_cf(&records, "player")?.as_deref(), Some(&700_u64.to_be_bytes()[..]));

    // One batch is written atomically to both column families.
    let mut batch = WriteBatch::new();
    batch.put_cf(&sessions, "first", 100_u64.to_be_bytes())?;
    batch.put_cf(&sessions, "second", 200_u64.to_be_bytes())?;
    batch.merge_cf(&records, "sessions", 2_u64.to_be_bytes())?;
    db.write(&mut batch)?;

    expired.now_s.store(150, Ordering::Relaxed);
    db.compact_range_cf(&sessions, None, None)?;
    for entry in db.range_cf(&sessions, ..) {
        println!("session {} is left", entry?.0.escape_ascii());
    }
    assert!(db.get_cf(&sessions, "first")?.is_none());
    assert!(db.get_cf(&sessions, "second")?.is_some());

    println!("column families: {}", Db::list_cf(&directory, &options)?.join(", "));
    db.close()?;
    Db::destroy(&directory, &options)
}
