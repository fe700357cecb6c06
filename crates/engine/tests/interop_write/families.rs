//! Column families that Tailwater creates as a list, which is one atomic group in the MANIFEST with
//! fields that RocksDB ignores. RocksDB must open the database, also if the OPTIONS file does not
//! name the column families yet.

use tailwater::options::{self, ColumnFamilyOptions, DbOptions};
use tailwater::{Db, OpenOptions};
use tailwater_testkit::dump::Entry;
use tailwater_testkit::oracle::Script;

use crate::check;
use crate::laboratory::{assert_same, in_laboratory};

/// Options of the column families, in turn.
const OPTIONS: [&str; 3] =
    ["", "num_levels=4;compression=kZSTD", "comparator=rocksdb.ReverseBytewiseComparator"];
/// Number of column families in the list.
const FAMILIES: usize = 60;

fn name(number: usize) -> String {
    format!("family{number}")
}

fn entry(number: usize) -> Entry {
    Entry { family: name(number), key: b"key".to_vec(), value: name(number).into_bytes() }
}

fn family_options(text: &str) -> ColumnFamilyOptions {
    let mut family = ColumnFamilyOptions::default();
    options::set_from_string(&mut DbOptions::default(), &mut family, text).expect("options");
    family
}

#[test]
fn rocksdb_opens_lists_of_new_families() {
    in_laboratory("lists of new families", |laboratory| {
        let context = laboratory.context.clone();
        let place = laboratory.next_place();
        let mut options = OpenOptions::default();
        options.create_if_missing(true);
        let db = Db::open(place.database(), &options).expect("a new database");
        let of_families = OPTIONS.map(family_options);
        let names: Vec<String> = (0..FAMILIES).map(name).collect();
        let options_of = |number: usize| &of_families[number % OPTIONS.len()];
        let list: Vec<_> =
            names.iter().enumerate().map(|(at, name)| (name.as_str(), options_of(at))).collect();
        let created = db.create_cfs(&list).expect("column families");
        for family in &created {
            db.put_cf(family, "key", family.name()).expect("a put");
        }
        db.drop_cf(&created[1]).expect("dropping");
        drop(created);
        let numbers = || (0..FAMILIES).filter(|number| *number != 1);
        let dump: Vec<Entry> = numbers().map(entry).collect();
        let killed = laboratory.copy(&place);
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        drop(db);

        let texts: Vec<(String, &str)> =
            numbers().map(|number| (name(number), OPTIONS[number % OPTIONS.len()])).collect();
        let described: Vec<(&str, &str)> =
            texts.iter().map(|(name, options)| (name.as_str(), *options)).collect();
        for (place, is_closed) in [(&killed, false), (&place, true)] {
            let mut script = Script::default();
            if is_closed {
                script.line(&[&"directory", &place.database().display()]);
                script.line(&[&"load"]);
            } else {
                script = Script::describe(&place.database(), "", &described);
            }
            script.line(&[&"list-families"]);
            let listed = laboratory.rocksdb_does(&script, &context);
            assert_eq!(listed.split(' ').count(), FAMILIES, "{context}: {listed}");
            let mut script = Script::default();
            script.line(&[&"open-existing"]);
            script.line(&[&"verify"]);
            let found = laboratory.oracle.dump_open(script);
            let found = found.unwrap_or_else(|error| panic!("{context}: RocksDB says {error}"));
            assert_same(&found, &dump, &format!("{context}: RocksDB"));
            laboratory.rocksdb_closes(&context);
            let mut options = OpenOptions::default();
            options.set_load_when_opened("");
            let db = Db::open(place.database(), &options)
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            check::holds(&db, &dump, &context);
        }
    });
}
