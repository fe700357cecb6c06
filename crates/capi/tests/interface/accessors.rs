//! Generates `src/accessors.rs` from `accessors.tsv` and the engine's options.

use std::fmt::Write as _;
use std::fs;

use tailwater::options::{
    BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, FifoCompactionOptions, OptionTable,
    UniversalCompactionOptions, ValueKind, Verdict,
};

use crate::signatures::root;

/// A function that sets or gets an option.
pub(crate) struct Accessor {
    pub(crate) function: String,
    kind: String,
    /// The option's name in the engine, unless `path` was given.
    pub(crate) option: Option<String>,
    /// The field of the object.
    path: String,
    object: &'static str,
    prefix: &'static str,
}

/// The beginnings of functions' names, and their objects.
pub(crate) const OBJECTS: [(&str, &str); 12] = [
    ("rocksdb_block_based_options_", "rocksdb_block_based_table_options_t"),
    ("rocksdb_fifo_compaction_options_", "rocksdb_fifo_compaction_options_t"),
    ("rocksdb_universal_compaction_options_", "rocksdb_universal_compaction_options_t"),
    ("rocksdb_size_approximation_options_", "rocksdb_size_approximation_options_t"),
    ("rocksdb_ingestexternalfileoptions_", "rocksdb_ingestexternalfileoptions_t"),
    ("rocksdb_wal_readoptions_", "rocksdb_wal_readoptions_t"),
    ("rocksdb_compactoptions_", "rocksdb_compactoptions_t"),
    ("rocksdb_envoptions_", "rocksdb_envoptions_t"),
    ("rocksdb_flushoptions_", "rocksdb_flushoptions_t"),
    ("rocksdb_readoptions_", "rocksdb_readoptions_t"),
    ("rocksdb_writeoptions_", "rocksdb_writeoptions_t"),
    ("rocksdb_options_", "rocksdb_options_t"),
];

/// What the engine says about an option.
type Info = (Verdict, ValueKind);

/// Returns what the engine says about an option, and the field of `object` that holds it.
fn field(object: &str, option: &str) -> Option<(String, Info)> {
    fn find<T: OptionTable>(option: &str) -> Option<Info> {
        let found = T::table().iter().find(|info| info.name == option);
        found.map(|info| (info.verdict, info.kind))
    }
    let (info, group) = match object {
        "rocksdb_block_based_table_options_t" => {
            (find::<BlockBasedTableOptions>(option), "options")
        }
        "rocksdb_fifo_compaction_options_t" => (find::<FifoCompactionOptions>(option), "options"),
        "rocksdb_universal_compaction_options_t" => {
            (find::<UniversalCompactionOptions>(option), "options")
        }
        _ => match find::<DbOptions>(option) {
            Some(info) => (Some(info), "database"),
            None => (find::<ColumnFamilyOptions>(option), "family"),
        },
    };
    // Fields are in lower case.
    info.map(|info| (format!("{group}.{}", option.to_lowercase()), info))
}

/// Returns the accessors.
pub(crate) fn accessors() -> Vec<Accessor> {
    let table = fs::read_to_string(root().join("accessors.tsv")).expect("the table");
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let mut columns = row.split('\t');
        let function = columns.next().expect("a function").to_owned();
        let kind = columns.next().expect("a type").to_owned();
        let option = columns.next().unwrap_or_default();
        let (prefix, object) =
            *OBJECTS.iter().find(|(prefix, _)| function.starts_with(prefix)).expect("an object");
        if let Some(path) = option.strip_prefix('.') {
            let path = path.to_owned();
            return Accessor { function, kind, option: None, path, object, prefix };
        }
        let stem = &function[prefix.len()..];
        let own = stem.strip_prefix("set_").or_else(|| stem.strip_prefix("get_")).unwrap_or(stem);
        let option = if option.is_empty() { own } else { option }.to_owned();
        let (path, _) = field(object, &option)
            .unwrap_or_else(|| panic!("{function}: there is no option {option}"));
        Accessor { function, kind, option: Some(option), path, object, prefix }
    })
    .collect()
}

impl Accessor {
    /// Returns the verdict on the option, if it is one of the engine.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        Some(self.info()?.0)
    }

    /// Returns the kind of the option's values, if it is one of the engine.
    pub(crate) fn kind_of_option(&self) -> Option<ValueKind> {
        Some(self.info()?.1)
    }

    fn info(&self) -> Option<Info> {
        field(self.object, self.option.as_ref()?).map(|(_, info)| info)
    }

    fn declaration(&self) -> String {
        let Self { function, kind, path, object, prefix, .. } = self;
        let stem = &function[prefix.len()..];
        let getter = stem.strip_prefix("get_");
        match (kind.as_str(), getter) {
            ("text", Some(name)) => format!(
                "    fn {function}(opt: shared {object}, size: out usize) -> *const c_char {{\n        \
                 let (text, length) = opt.texts.get(\"{name}\", &opt.{path});\n        \
                 size.set(length);\n        Ok(text)\n    }}\n"
            ),
            ("text", None) => format!(
                "    fn {function}(opt: &mut {object}, v: text) {{\n        \
                 opt.{path} = text_from(v)?;\n        Ok(())\n    }}\n"
            ),
            (_, Some(_)) => format!(
                "    fn {function}(opt: shared {object}) -> {kind} {{\n        \
                 get(&opt.{path})\n    }}\n"
            ),
            (_, None) => format!(
                "    fn {function}(opt: &mut {object}, v: {kind}) {{\n        \
                 set(&mut opt.{path}, v, &opt.marks)\n    }}\n"
            ),
        }
    }
}

/// The beginning of the generated file.
const HEAD: &str = r#"//! Functions that set or get one option. Generated from `accessors.tsv` and the engine's options
//! by the test `accessors`, with `TAILWATER_REWRITE=1`.

use std::ffi::{c_char, c_int, c_uchar, c_uint};

use crate::block_based_options::rocksdb_block_based_table_options_t;
use crate::boundary::entry;
use crate::compaction::rocksdb_compactoptions_t;
use crate::env_options::rocksdb_envoptions_t;
use crate::flush::rocksdb_flushoptions_t;
use crate::ingestion::rocksdb_ingestexternalfileoptions_t;
use crate::options::{
    rocksdb_fifo_compaction_options_t, rocksdb_options_t, rocksdb_universal_compaction_options_t,
};
use crate::read_options::rocksdb_readoptions_t;
use crate::sizes::rocksdb_size_approximation_options_t;
use crate::values::{get, set, text_from};
use crate::wal_iterator::rocksdb_wal_readoptions_t;
use crate::write_options::rocksdb_writeoptions_t;
"#;

#[test]
fn the_accessors_are_up_to_date() {
    let mut text = HEAD.to_owned();
    for accessor in accessors() {
        let _ = write!(text, "\nentry! {{\n{}}}\n", accessor.declaration());
    }
    crate::files::check("src/accessors.rs", &text);
}

#[test]
fn every_setter_has_its_getter_where_rocksdb_has_one() {
    let all = accessors();
    let mut pairs = 0;
    for accessor in &all {
        let Some(getter) = accessor
            .function
            .contains("_set_")
            .then(|| accessor.function.replacen("_set_", "_get_", 1))
        else {
            continue;
        };
        if let Some(getter) = all.iter().find(|other| other.function == getter) {
            assert_eq!(getter.path, accessor.path, "{}", accessor.function);
            pairs += 1;
        }
    }
    assert!(pairs > 100, "only {pairs} setters have a getter");
}

/// Returns two values of a type, in C. All enumerations have them.
fn values(kind: &str) -> [&'static str; 2] {
    match kind {
        "c_uchar" | "u8" | "c_char" => ["0", "1"],
        "f64" => ["0.5", "0.25"],
        "text" => ["\"one\"", "\"two\""],
        _ => ["0", "1"],
    }
}

#[test]
fn every_option_is_read_back_as_it_was_set() {
    let all = accessors();
    let mut pairs = 0;
    let mut program = String::from("#include \"test.h\"\n\nint main(void) {\n");
    for setter in all.iter().filter(|accessor| !accessor.function.contains("_get_")) {
        let getter = all.iter().find(|other| {
            other.function.contains("_get_")
                && (&other.path, other.object) == (&setter.path, setter.object)
        });
        let Some(getter) = getter else { continue };
        pairs += 1;
        let prefix = setter.prefix;
        let _ = writeln!(program, "  {{ {}* object = {prefix}create();", setter.object);
        for value in values(&setter.kind) {
            let _ = writeln!(program, "    {}(object, {value});", setter.function);
            let _ = match &*setter.kind {
                "text" => writeln!(
                    program,
                    "    {{ size_t length; const char* text = {}(object, &length); \
                     CHECK(same(text, length, {value})); }}",
                    getter.function
                ),
                _ => writeln!(program, "    CHECK({}(object) == {value});", getter.function),
            };
        }
        let _ = writeln!(program, "    {prefix}destroy(object); }}");
    }
    assert!(pairs > 100, "only {pairs} options can be read back");
    program.push_str("  (void)create; (void)put; (void)check_get;\n  return 0;\n}\n");
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("accessors.c");
    fs::write(&source, program).expect("the program is written");
    crate::library::run("accessors", &source, directory.path());
}
