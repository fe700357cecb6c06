//! Tests of options as text: the OPTIONS file and option strings.

use tailwater_format::options_text::{
    Assignment, Document, Section, SectionKind, TextLocation, Version, escape, parse_option_string,
    split_list, strip_outer_braces, unescape, write_option_string,
};

use crate::support;

/// The OPTIONS file of a database with two column families.
const PACKAGES: &str = include_str!("data/options-packages");

/// Returns an OPTIONS file with the required sections and, after them, these lines.
fn file(lines: &str) -> String {
    format!("[DBOptions]\n[CFOptions \"default\"]\n{lines}")
}

/// Parses `text`, which must fail, and returns the location of the error and its reason.
fn refused(text: &str) -> (TextLocation, String) {
    let error = Document::parse(text).unwrap_err();
    (error.place, error.reason.into_owned())
}

#[test]
fn a_rocksdb_options_file_round_trips_except_for_its_header() {
    let document = Document::parse(PACKAGES).unwrap();
    let text = document.to_text();
    let from_version = |text: &str| text[text.find("[Version]").unwrap()..].to_owned();
    assert_eq!(from_version(&text), from_version(PACKAGES));
    assert_eq!(Document::parse(&text).unwrap().to_text(), text);
}

#[test]
fn sections_and_values_are_found_by_name() {
    let document = Document::parse(PACKAGES).unwrap();
    assert_eq!(document.rocksdb_version, Version { major: 11, minor: 9, patch: 0 });
    assert_eq!(document.column_families().collect::<Vec<_>>(), ["default", "depends"]);
    let database = document.database().unwrap();
    assert_eq!(database.get("max_open_files"), Some("-1"));
    assert_eq!(database.get("max_openfiles"), None);
    let family = document.column_family("depends").unwrap();
    assert_eq!(family.get("comparator"), Some("leveldb.BytewiseComparator"));
    let (factory, table) = document.table("depends").unwrap();
    assert_eq!((factory, table.get("format_version")), ("BlockBasedTable", Some("7")));
    assert!(document.table("other").is_none());
    let line = PACKAGES.lines().position(|line| line.contains("max_open_files")).unwrap() + 1;
    let entry = database.entries.iter().find(|entry| entry.name == "max_open_files").unwrap();
    assert_eq!(entry.line as usize, line);
}

#[test]
fn comments_escapes_and_white_space_are_no_part_of_values() {
    let text = file(
        "\t a = b # c\r\nb=\\#x\\:y # z\n# d=e\n c==#\n [CFOptions \"a\\#b\" ] # f\nunterminated=1",
    );
    let document = Document::parse(&text).unwrap();
    let family = document.column_family("default").unwrap();
    let values: Vec<(&str, &str)> =
        family.entries.iter().map(|entry| (&*entry.name, &*entry.value)).collect();
    assert_eq!(values, [("a", "b"), ("b", "\\#x\\:y"), ("c", "=")]);
    assert_eq!(unescape(values[1].1), "#x:y");
    assert_eq!(document.column_family("a#b").unwrap().entries, []);
    let repeated = Document::parse(&file("a=1\na=2\n")).unwrap();
    assert_eq!(repeated.column_family("default").unwrap().get("a"), Some("1"));
}

#[test]
fn escaping_is_undone() {
    for text in ["", "plain", "a:b#c\\d", "line\nend\r", "\\", "\\n", "ü: #"] {
        assert_eq!(unescape(&escape(text)), text);
        assert!(!escape(text).contains('\n'));
    }
    assert_eq!(escape("a:b#c\\d\n"), "a\\:b\\#c\\\\d\\n");
    assert_eq!(unescape("a\\"), "a");
}

#[test]
fn names_with_special_characters_round_trip() {
    let name = "a \"quoted\" #name: \\n";
    let mut document = Document::new(Version { major: 11, minor: 8, patch: 1 });
    document.sections.push(Section::new(SectionKind::Database));
    document.sections.push(Section::new(SectionKind::ColumnFamily("default".into())));
    let mut family = Section::new(SectionKind::ColumnFamily(name.into()));
    family.push("option", escape("#1"));
    document.sections.push(family);
    let factory = "BlockBasedTable".to_owned();
    let table = SectionKind::Table { factory, column_family: name.into() };
    document.sections.push(Section::new(table));
    let read = Document::parse(&document.to_text()).unwrap();
    assert_eq!(read.rocksdb_version, document.rocksdb_version);
    assert_eq!(read.column_family(name).unwrap().get("option"), Some("\\#1"));
    assert!(read.table(name).is_some());
}

#[test]
fn a_file_out_of_shape_is_refused_with_its_line() {
    let cases = [
        ("a=b\n", TextLocation::Line(1), "an option before any section"),
        ("[DBOptions]\nnothing\n", TextLocation::Line(2), "'nothing' has no '='"),
        ("[DBOptions]\n =1\n", TextLocation::Line(2), "'=1' has no name before its '='"),
        ("[DBOptions]\n[DBOptions]\n", TextLocation::Line(2), "a second section of that kind"),
        ("[Options]\n", TextLocation::Line(1), "unknown section [Options]"),
        ("[DBOptionsX]\n", TextLocation::Line(1), "unknown section [DBOptionsX]"),
        ("[TableOptions/]\n", TextLocation::Line(1), "unknown section [TableOptions/]"),
        ("", TextLocation::Whole, "no section [DBOptions]"),
        ("[DBOptions]\n", TextLocation::Whole, "no section [CFOptions \"default\"]"),
        (
            "[CFOptions \"x\"]\n",
            TextLocation::Line(1),
            "the column family 'x' precedes the default one",
        ),
        (
            "[Version]\nrocksdb_version=11.x\n",
            TextLocation::Line(2),
            "rocksdb_version: '11.x' is not a version",
        ),
        (
            "[Version]\noptions_file_version=0.9\n",
            TextLocation::Line(2),
            "options_file_version: '0.9' is not a version",
        ),
        (
            "[Version]\nrocksdb_version=1.2.3.4\n",
            TextLocation::Line(2),
            "rocksdb_version: '1.2.3.4' is not a version",
        ),
    ];
    for (text, place, reason) in cases {
        assert_eq!(refused(text), (place, reason.to_owned()), "{text}");
    }
    let (place, reason) = refused(&file("[CFOptions \"default\"]\n"));
    assert_eq!((place, reason.contains("second")), (TextLocation::Line(3), true));
    let (place, _) = refused(&file("[TableOptions/BlockBasedTable \"x\"]\n"));
    assert_eq!(place, TextLocation::Line(3));
}

fn pairs(text: &str) -> Vec<(&str, &str)> {
    let assignments = parse_option_string(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    for Assignment { value, offset, .. } in &assignments {
        assert!(text[*offset..].starts_with(value));
    }
    assignments.into_iter().map(|assignment| (assignment.name, assignment.value)).collect()
}

#[test]
fn option_strings_nest() {
    assert_eq!(pairs(""), []);
    assert_eq!(pairs("a=b;c=d"), [("a", "b"), ("c", "d")]);
    assert_eq!(
        pairs("{ {a = b ; c= {x=y;z={1;2}} ;d=} }"),
        [("a", "b"), ("c", "{x=y;z={1;2}}"), ("d", "")]
    );
    assert_eq!(pairs("a={};b={{}}"), [("a", "{}"), ("b", "{{}}")]);
    assert_eq!(pairs("a=b=c;a=2;"), [("a", "b=c"), ("a", "2")]);
    assert_eq!(pairs("comparator=x:1;"), [("comparator", "x:1")]);
}

#[test]
fn broken_option_strings_are_refused_with_their_place() {
    let cases = [
        ("{}", 0, "'' is not followed by '='"),
        ("a", 0, "'a' is not followed by '='"),
        ("a=1;b", 4, "'b' is not followed by '='"),
        ("a=1;;", 4, "'' is not followed by '='"),
        ("=1", 0, "no name before '='"),
        ("a=1;{b=2}", 4, "'' is not followed by '='"),
        ("a={b=1", 0, "a: a brace that is not closed"),
        ("a={b=1}c;", 0, "a: text after a closing brace"),
        ("x=1;a={{}", 4, "a: a brace that is not closed"),
    ];
    for (text, offset, reason) in cases {
        let error = parse_option_string(text).unwrap_err();
        assert_eq!((error.place, &*error.reason), (TextLocation::Byte(offset), reason), "{text}");
    }
}

#[test]
fn option_strings_round_trip() {
    let written = write_option_string([("a", "1"), ("b", "{x=1;}"), ("c", "x=1;y=2"), ("d", "")]);
    assert_eq!(written, "a=1;b={x=1;};c={x=1;y=2};d=;");
    assert_eq!(pairs(&written)[2], ("c", "{x=1;y=2}"));
}

#[test]
fn lists_are_split_outside_braces() {
    assert_eq!(split_list("1:2:3", ':').unwrap(), ["1", "2", "3"]);
    assert_eq!(split_list("{1:2}", ':').unwrap(), ["1", "2"]);
    assert_eq!(split_list("", ':').unwrap(), Vec::<&str>::new());
    assert_eq!(split_list("{a:b}: c :{d}", ':').unwrap(), ["a:b", "c", "d"]);
    assert_eq!(split_list("1::2:", ':').unwrap(), ["1", "", "2"]);
    for broken in ["{a:b", "1:{a", "{a}b", "1:{a}b"] {
        assert!(split_list(broken, ':').is_err(), "{broken}");
    }
    assert_eq!(strip_outer_braces("{a}:{b}"), "{a}:{b}");
    assert_eq!(strip_outer_braces("{{a}}"), "{a}");
    assert_eq!(strip_outer_braces("}"), "}");
}

#[test]
fn no_text_makes_the_parsers_panic() {
    let mut random = support::random();
    let alphabet: Vec<char> = "ab=;:{}[]\"\\# \n\tü1.".chars().collect();
    for _ in 0..20_000 {
        let length = random.usize(..40);
        let text: String = (0..length).map(|_| *random.choice(&alphabet).unwrap()).collect();
        let _ = parse_option_string(&text);
        let _ = split_list(&text, ':');
        let _ = unescape(&text);
        let _ = Document::parse(&text);
        let _ = Document::parse(&file(&text)).map(|document| document.to_text());
    }
    for end in 0..PACKAGES.len() {
        let _ = Document::parse(&PACKAGES[..end]);
    }
}
