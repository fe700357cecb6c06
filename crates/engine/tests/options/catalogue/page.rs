//! The text of `docs/options.md`.

use std::fmt::Write;

use tailwater::options::{
    BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, OptionTable, Verdict,
};

use super::Row;
use super::topics::{Topic, topics};

const HEAD: &str = "\
# Options

Every option that RocksDB 11.8 has, by its name, with its default and the effect of setting it in Tailwater.
Units are RocksDB's: bytes, unless a name says otherwise. An OPTIONS file may hold all of them; one
that is written holds them in RocksDB's order.

What stands in the last column is one of three:

- **a test** — the option is honoured, and this test fails if it is ignored;
- **no effect** — values are accepted and change nothing, for the reason given: every entry, every
  answer and a later opening by RocksDB are the same without it. The OPTIONS file keeps the value.
  Where it is another than the default, opening the database for writing says so: in the LOG,
  through `Db::warnings`, and `tailwater db` on standard error;
- **refused** — a database is not opened for writing with it, for the reason given, unless it has one
  of the values named, which switch it off: without it data would be lost, or RocksDB could not open
  what is written. Reading goes on.

Objects that options name and nobody supplies in code are reported in the same way. Without a comparator
a column family is not opened; without a merge operator merges are refused, and so are reads of keys
that have merge operands, which stay as they are; the others are done without, as by RocksDB.

Options change *while open* through `Db::set_options`, `Db::set_database_options` and `tailwater db
set-options`; they take effect at once, and a flush or compaction that runs keeps those it began
with. A table that is open is read as when it was opened. The others count when the database is
opened. Values that contradict each other are refused with the reason in either case.

This list is written by a test, from the tables in `crates/engine/src/options/`:
`TAILWATER_REWRITE=1 cargo test -p tailwater --test options`.
";

/// Returns the whole document.
pub(super) fn page(rows: &[Row], shown: &[(&str, String, &str)]) -> String {
    let mut page = HEAD.to_owned();
    page.push('\n');
    for topic in topics() {
        let anchor = topic.title.to_lowercase().replace(',', "").replace(' ', "-");
        let _ = writeln!(page, "- [{}](#{anchor})", topic.title);
    }
    for topic in topics() {
        chapter(&mut page, topic, rows, shown);
    }
    directories(&mut page);
    retired(&mut page);
    page
}

fn chapter(page: &mut String, topic: &Topic, rows: &[Row], shown: &[(&str, String, &str)]) {
    let _ = write!(page, "\n## {}\n\n{}\n\n", topic.title, topic.about);
    page.push_str("| option | default | changes | what it does | effect in Tailwater |\n");
    page.push_str("|---|---|---|---|---|\n");
    let mut rows: Vec<&Row> = rows.iter().filter(|row| topic.has(&row.name)).collect();
    rows.sort_by_key(|row| match row.verdict {
        Verdict::Honoured => 0,
        Verdict::NoEffect(_) => 1,
        Verdict::Refused(..) => 2,
    });
    for row in rows {
        let changes = if row.mutability.is_mutable() { "while open" } else { "at open" };
        let note = if row.mutability.is_written() { "" } else { "; not in the file" };
        let default = match row.default.as_str() {
            "" => "none".to_owned(),
            default if default.len() > 40 => "its parts'".to_owned(),
            default if default.contains('.') && default.parse::<f64>().is_ok() => {
                format!("`{}`", default.trim_end_matches('0').trim_end_matches('.'))
            }
            default => format!("`{default}`"),
        };
        let _ = writeln!(
            page,
            "| `{}` | {default} | {changes}{note} | {} | {} |",
            row.name,
            sentence(row.about),
            outcome(row, shown),
        );
    }
}

/// Returns the effect of an option.
fn outcome(row: &Row, shown: &[(&str, String, &str)]) -> String {
    match row.verdict {
        Verdict::NoEffect(why) => format!("no effect: {why}"),
        Verdict::Refused(why, off) => {
            let off: Vec<String> = off.iter().map(|value| value_text(value)).collect();
            format!("refused: {why}; switched off by {}", off.join(", "))
        }
        Verdict::Honoured => {
            let tests = shown.iter().filter(|(option, ..)| *option == row.name);
            let tests: Vec<String> =
                tests.map(|(_, file, test)| format!("[{test}](../crates/engine/{file})")).collect();
            match tests.join(", ").as_str() {
                "" => "its parts say".to_owned(),
                tests => format!("honoured: {tests}"),
            }
        }
    }
}

fn value_text(value: &str) -> String {
    if value.is_empty() { "nothing".to_owned() } else { format!("`{value}`") }
}

/// Returns a documentation comment as one line.
fn sentence(about: &str) -> String {
    about.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn directories(page: &mut String) {
    page.push_str(
        "\n## Where files are\n\n\
         `db_paths` and `cf_paths` have no text in RocksDB, which sets them in code. Here they have \
         one: `db_paths={/fast,10G:/slow}`, each directory with the bytes that are meant to be \
         there. They count when the database is opened, and stand in no OPTIONS file.\n",
    );
}

fn retired(page: &mut String) {
    page.push_str(
        "\n## Names that have lost their meaning\n\n\
         RocksDB accepts these with any value, from older OPTIONS files, and so does Tailwater.\n\n",
    );
    let names = DbOptions::retired_names()
        .iter()
        .chain(ColumnFamilyOptions::retired_names())
        .chain(BlockBasedTableOptions::retired_names());
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    page.push_str(&names.join(", "));
    page.push('\n');
}
