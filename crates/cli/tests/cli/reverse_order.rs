//! Column families in reverse bytewise order, which RocksDB writes during the test.

use tailwater_testkit::oracle::{Oracle, Script};

use crate::support::{db, escaped};

const KEYS: [&[u8]; 14] = [
    b"a",
    b"aa",
    b"ab",
    b"aba",
    b"abb",
    b"ac",
    b"b",
    b"ba",
    b"c",
    b"abz",
    b"ad",
    b"ab\xff",
    b"\xff\xff",
    b"\xff",
];

#[test]
fn ranges_and_prefixes_go_by_the_family_s_order() {
    let Some(mut oracle) = Oracle::start("scanning in reverse order") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let order = "comparator=rocksdb.ReverseBytewiseComparator";
    let mut script = Script::open(directory.path(), "", &[("default", order)]);
    for (number, key) in KEYS.iter().enumerate() {
        script.put("default", key, key);
        if number == KEYS.len() / 2 {
            script.flush("default");
        }
    }
    script.line(&[&"close"]);
    oracle.run(&script).expect("a database");

    let prefixes: [&[u8]; 6] = [b"", b"ab", b"b", b"zz", b"\xff", b"abc"];
    let bounds: [Option<&[u8]>; 4] = [None, Some(b"abb"), Some(b"b"), Some(b"0")];
    for prefix in prefixes {
        for (from, to) in bounds.iter().flat_map(|from| bounds.iter().map(move |to| (from, to))) {
            let wanted = |key: &&&[u8]| {
                key.starts_with(prefix)
                    && from.is_none_or(|from| **key <= from)
                    && to.is_none_or(|to| **key > to)
            };
            let mut expected: Vec<&[u8]> = KEYS.iter().filter(wanted).copied().collect();
            expected.sort_unstable();
            let mut arguments = vec!["--keys-only".to_owned()];
            let given = [("--prefix", Some(prefix)), ("--from", *from), ("--to", *to)];
            for (name, key) in given {
                arguments.extend(key.map(|key| format!("{name}={}", escaped(key))));
            }
            for reverse in [true, false] {
                let flag = reverse.then_some("--reverse");
                let arguments = arguments.iter().map(String::as_str).chain(flag);
                let answer = db("scan", directory.path(), arguments).well();
                let found: Vec<&str> = answer.output.lines().collect();
                let keys: Vec<String> = expected.iter().map(|key| escaped(key)).collect();
                assert_eq!(found, keys, "{prefix:?} {from:?} {to:?} reverse {reverse}");
                expected.reverse();
            }
        }
    }
}
