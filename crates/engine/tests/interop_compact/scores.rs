//! Tests that both engines compute the same compaction scores.

use tailwater::Db;
use tailwater_testkit::oracle::Script;

use crate::laboratory::{CREATE, Laboratory, in_laboratory, rocksdb_steps};
use crate::shape::{Shape, join};

/// Options without automatic compactions. Levels that need a compaction then keep scores above 1.
const BY_HAND: &str = "disable_auto_compactions=true;level0_file_num_compaction_trigger=3;\
    level0_slowdown_writes_trigger=1000;level0_stop_writes_trigger=1000;\
    target_file_size_base=12000;max_bytes_for_level_base=30000;max_bytes_for_level_multiplier=3";

#[test]
fn scores_are_those_of_rocksdb() {
    in_laboratory("scores", |laboratory| {
        for sizes in ["", "level_compaction_dynamic_level_bytes=false"] {
            let shape = Shape::new("", &join(&[BY_HAND, sizes]));
            for level in 1..5 {
                check(laboratory, &shape, level);
            }
        }
    });
}

/// Fills a database, compacts a part of it into `level`, and compares the compaction scores that
/// both engines report.
fn check(laboratory: &mut Laboratory, shape: &Shape, level: u8) {
    let context = format!("{}, {shape:?}, level {level}", laboratory.context);
    let place = laboratory.next_place();
    let mut model = shape.model();
    let mut script = shape.describe(&place, &model, CREATE);
    script.line(&[&"open"]);
    laboratory.rocksdb_does(&script, &context);
    let is_kept = |family: &str| !family.starts_with("family");
    for round in 0..4 {
        let steps = rocksdb_steps(&mut model, &mut laboratory.rng, 300);
        laboratory.rocksdb_does(&steps, &context);
        let mut script = Script::default();
        for (family, _) in model.families().into_iter().filter(|(family, _)| is_kept(family)) {
            script.flush(family);
            if round == 1 {
                script.line(&[&"compact-to", &family, &level]);
            }
        }
        laboratory.rocksdb_does(&script, &context);
    }
    laboratory.rocksdb_closes(&context);
    let mut script = shape.describe(&place, &model, "");
    script.line(&[&"open-existing"]);
    laboratory.rocksdb_does(&script, &context);
    let mut theirs = Vec::new();
    for (family, _) in model.families() {
        let mut script = Script::default();
        script.line(&[&"property", &family, &"rocksdb.cfstats-no-file-histogram"]);
        theirs.push(rows(&laboratory.rocksdb_does(&script, &context)));
    }
    laboratory.rocksdb_closes(&context);
    let options = shape.open_options(&place, &model, "");
    let db = Db::open_read_only(place.database(), &options)
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    let ours = model.families().into_iter().map(|(name, _)| {
        let family = db.cf_handle(name).expect("a family");
        let text = db.property_value_cf(&family, "rocksdb.cfstats-no-file-histogram");
        rows(&text.expect("a property").expect("it is known"))
    });
    assert_eq!(ours.collect::<Vec<_>>(), theirs, "{context}");
}

/// Returns the table rows that describe levels. `text` is the text of the statistics. Of each row,
/// this function returns three columns: the level, the number of files, and the score.
fn rows(text: &str) -> Vec<(String, String, String)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_level =
        |word: &str| word.strip_prefix('L').is_some_and(|rest| rest.parse::<u8>().is_ok());
    let rows = words.windows(5).filter(|row| is_level(row[0]));
    rows.map(|row| (row[0].to_owned(), row[1].to_owned(), row[4].to_owned())).collect()
}
