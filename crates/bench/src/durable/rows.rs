//! The rows of the report: raw writes, and engines with their options.

use tailwater_latency::parsing;

use super::arguments::DurableArguments;
use super::raw::Raw;
use crate::store::{Engine, Failure};

/// Engines that are compared by default.
const ENGINES: [&str; 2] = ["tailwater", "rocksdb"];
/// The engine that has one row in the report for each requested configuration.
const CONFIGURED: &str = "tailwater";

/// One row of the report.
pub(super) struct Row<'e> {
    /// Unique label in reports.
    pub(super) label: String,
    pub(super) writes: Writes<'e>,
}

/// The kind of writes that a row measures.
pub(super) enum Writes<'e> {
    /// Raw writes to a file, without an engine.
    Raw(Raw),
    /// Puts to this engine, opened with these options.
    Engine {
        engine: &'e Engine,
        options: String,
        /// The command-line arguments that determine the engine and its options, for error
        /// messages.
        requested_by: &'static str,
    },
}

impl<'e> Row<'e> {
    /// Returns the requested rows, raw writes first.
    ///
    /// # Errors
    /// An error if an engine is unknown, or if two rows would be identical.
    pub(super) fn all(
        arguments: &DurableArguments,
        known: &'e [Engine],
    ) -> Result<Vec<Self>, Failure> {
        let subjects = &arguments.subjects;
        let raw = |raw: &Raw| Self { label: raw.label().to_owned(), writes: Writes::Raw(*raw) };
        let mut rows: Vec<_> = arguments.raw.iter().map(raw).collect();
        for engine in subjects.engines_or(known, &ENGINES)? {
            let row = |name: &str, more: &str, requested_by| Self {
                label: format!("{} {name}", engine.name).trim_end().to_owned(),
                writes: Writes::Engine {
                    engine,
                    options: options_with(&subjects.options(), more),
                    requested_by,
                },
            };
            if engine.name != CONFIGURED {
                rows.push(row("", "", "--engines, --options or --more-options"));
                continue;
            }
            for name in arguments.configurations.iter().map(parsing::name) {
                let more = format!("wal_io_mode={name}");
                rows.push(row(&name, &more, "--configurations, --options or --more-options"));
            }
            for more in &arguments.tailwater_options {
                rows.push(row(more, more, "--tailwater-options, --options or --more-options"));
            }
        }
        for (index, row) in rows.iter().enumerate() {
            if rows.iter().take(index).any(|other| other.label == row.label) {
                let requested_by = row.requested_by();
                return Err(format!("{requested_by}: '{}' is requested twice", row.label).into());
            }
        }
        Ok(rows)
    }

    /// Returns whether the row measures raw writes, without an engine.
    pub(super) fn is_raw(&self) -> bool {
        matches!(self.writes, Writes::Raw(_))
    }

    /// Returns the command-line arguments that determine the row, for error messages.
    pub(super) fn requested_by(&self) -> &'static str {
        match self.writes {
            Writes::Raw(_) => "--raw",
            Writes::Engine { requested_by, .. } => requested_by,
        }
    }

    /// Returns the name of the row's engine, if it has one.
    pub(super) fn engine_name(&self) -> Option<&'static str> {
        match self.writes {
            Writes::Raw(_) => None,
            Writes::Engine { engine, .. } => Some(engine.name),
        }
    }
}

/// Joins two option strings. If both set an option, the value in `more` applies. Either string may
/// be empty.
fn options_with(options: &str, more: &str) -> String {
    let texts = [options, more].map(|text| text.trim_end_matches(';'));
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(";")
}

/// Returns the label of the baseline: the row with which the other engine rows are compared. The
/// baseline is the first row of the second engine. If all engine rows have the same engine, the
/// baseline is the first of these rows. Returns `None` if fewer than two rows measure an engine.
pub(super) fn reference<'r>(rows: &'r [Row<'_>]) -> Option<&'r str> {
    let engines: Vec<_> = rows.iter().filter(|row| !row.is_raw()).collect();
    let first = engines.first()?;
    let other = engines.iter().find(|row| row.engine_name() != first.engine_name());
    let same = engines.get(1).map(|_| first);
    other.or(same).map(|row| row.label.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::typed;
    use super::*;

    fn named(name: &'static str) -> Engine {
        Engine { name, open: |_, _| Err("it is only a name".into()) }
    }

    fn rows_of(line: &[&str]) -> Result<(Vec<String>, Option<String>), String> {
        let known = ["tailwater", "rocksdb", "redb"].map(named);
        let rows = Row::all(&typed(line)?, &known).map_err(|error| error.to_string())?;
        let reference = reference(&rows).map(str::to_owned);
        Ok((rows.into_iter().map(|row| row.label).collect(), reference))
    }

    #[test]
    fn each_configuration_is_a_row_beside_the_other_engine() {
        let (labels, reference) = rows_of(&[]).unwrap();
        assert_eq!(labels, ["raw dsync", "tailwater buffered", "tailwater direct", "rocksdb"]);
        assert_eq!(reference.as_deref(), Some("rocksdb"));
        let line = "--raw fdatasync,dsync --configurations direct --tailwater-options a=1;b=2 \
                    --tailwater-options c=3 --engines tailwater";
        let (labels, reference) = rows_of(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        let expected = [
            "raw fdatasync",
            "raw dsync",
            "tailwater direct",
            "tailwater a=1;b=2",
            "tailwater c=3",
        ];
        assert_eq!(labels, expected);
        assert_eq!(reference.as_deref(), Some("tailwater direct"));
        assert_eq!(rows_of(&["--engines", "rocksdb"]).unwrap().1, None);
    }

    #[test]
    fn options_of_a_configuration_stand_over_the_others() {
        let line = ["--options", "a=1", "--more-options", "a=2", "--configurations", "direct"];
        let known = [named("tailwater")];
        let rows = Row::all(&typed(&line).unwrap(), &known).unwrap();
        let Writes::Engine { options, .. } = &rows[1].writes else { panic!("a raw row") };
        assert_eq!(options, "a=1;a=2;wal_io_mode=direct");
        assert_eq!(options_with("a=1;", ""), "a=1");
        assert_eq!(options_with(";", "b=2;"), "b=2");
    }

    #[test]
    fn nothing_is_a_row_twice() {
        let refusal = rows_of(&["--configurations", "buffered,direct,buffered"]).unwrap_err();
        assert!(refusal.contains("'tailwater buffered'"), "{refusal}");
        assert!(refusal.contains("--configurations"), "{refusal}");
        assert!(rows_of(&["--raw", "dsync,dsync"]).unwrap_err().contains("--raw"));
        assert!(rows_of(&["--engines", "leveldb"]).unwrap_err().contains("leveldb"));
    }
}
