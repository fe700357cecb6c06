//! Tables in plain text and in Markdown.

use std::fmt;

use serde_json::Value;

/// A right-aligned column with one figure of each row.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Heading and width of the column, as in [`Table::new`].
    pub column: &'static str,
    /// Place of the figure in the serialised figures of a row, as a JSON pointer.
    pub place: &'static str,
    /// Formats the figure.
    pub format: fn(f64) -> String,
}

impl Figure {
    /// Creates the column.
    pub const fn new(column: &'static str, place: &'static str, format: fn(f64) -> String) -> Self {
        Self { column, place, format }
    }

    /// Returns the columns of some figures, to be appended to other columns.
    pub fn columns<'a>(figures: impl IntoIterator<Item = &'a Self>) -> String {
        figures.into_iter().map(|figure| format!("|{}", figure.column)).collect()
    }

    /// Returns the cell of the row with these figures: `-` if the figure is missing.
    pub fn cell(&self, figures: &Value) -> String {
        let figure = figures.pointer(self.place).and_then(Value::as_f64);
        figure.map_or("-".to_owned(), self.format)
    }
}

/// A table. It is formatted as plain text by [`fmt::Display`] and as Markdown by
/// [`Self::markdown`].
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug, Clone)]
struct Column {
    heading: String,
    is_left: bool,
    /// Width in plain text, in characters.
    width: usize,
}

impl Table {
    /// Creates a table without rows. `columns` has the heading of each column, followed by its
    /// alignment and width as in a format string: `engine<9|reads/s>11`. Markdown needs no widths.
    pub fn new(columns: &str) -> Self {
        let column = |text: &str| {
            let (heading, width) = text.split_at(text.rfind(['<', '>']).unwrap_or(text.len()));
            Column {
                heading: heading.to_owned(),
                is_left: width.starts_with('<'),
                width: width.trim_start_matches(['<', '>']).parse().unwrap_or(0),
            }
        };
        Self { columns: columns.split('|').map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row, which must have as many cells as the table has columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns the heading of each column, and whether the column is aligned to the left.
    pub(crate) fn headings(&self) -> impl Iterator<Item = (&str, bool)> {
        self.columns.iter().map(|column| (column.heading.as_str(), column.is_left))
    }

    /// Returns the cells of each row.
    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Returns the table in Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let cell =
                |cell: &str| if cell.is_empty() { " |".into() } else { format!(" {cell} |") };
            format!("|{}\n", cells.map(cell).collect::<String>())
        };
        let rule = |column: &Column| if column.is_left { "---|" } else { "---:|" };
        let mut text = line(&mut self.columns.iter().map(|column| column.heading.as_str()));
        text += &format!("|{}\n", self.columns.iter().map(rule).collect::<String>());
        for row in &self.rows {
            text += &line(&mut row.iter().map(String::as_str));
        }
        text
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings: Vec<String> =
            self.columns.iter().map(|column| column.heading.clone()).collect();
        for row in [&headings].into_iter().chain(&self.rows) {
            let cells = self.columns.iter().zip(row).map(|(column, cell)| {
                let width = column.width;
                if column.is_left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join(" ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_in_both_formats() {
        let mut table = Table::new("name<6|a figure>9|<");
        table.row(["x", "1.5", "mark"].map(str::to_owned));
        assert_eq!(table.to_string(), "name    a figure\nx            1.5 mark\n");
        let markdown = "| name | a figure | |\n|---|---:|---|\n| x | 1.5 | mark |\n";
        assert_eq!(table.markdown(), markdown);
    }
}
