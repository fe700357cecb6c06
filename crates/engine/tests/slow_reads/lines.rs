//! Reads the JSON objects of slow reads.

use tailwater::Db;

/// A line of `tailwater.recent-slow-reads`.
#[derive(Debug)]
pub(crate) struct Line(String);

impl Line {
    fn after(&self, name: &str) -> &str {
        let name = format!("\"{name}\":");
        self.0.split_once(&name).map(|(_, after)| after).expect(&name)
    }

    /// Returns a figure.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let after = self.after(name);
        let end = after.find([',', '}']).expect("the end of the figure");
        after[..end].parse().expect("a figure")
    }

    /// Returns a text without escaped characters.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.after(name).trim_start_matches('"').split('"').next().expect("a text")
    }

    /// Returns the number of blocks of a level and kind that were read from files.
    pub(crate) fn blocks(&self, level: usize, kind: &str) -> f64 {
        let object = format!("{{\"level\":{level},\"kind\":\"{kind}\",\"count\":");
        let Some((_, after)) = self.0.split_once(&object) else { return 0.0 };
        after.split('}').next().and_then(|text| text.parse().ok()).expect("a count")
    }

    /// Returns the share of a cause in the duration.
    pub(crate) fn share(&self, cause: &str) -> f64 {
        self.figure(&format!("{cause}_us")) / self.figure("total_us")
    }
}

/// Returns a property as text.
pub(crate) fn text_of(db: &Db, name: &str) -> String {
    db.property_value(name).expect("a property").expect("a known name")
}

/// Returns the recent slow reads, oldest first, after a check that the causes of each add up.
pub(crate) fn recent(db: &Db) -> Vec<Line> {
    let lines = text_of(db, "tailwater.recent-slow-reads");
    let lines: Vec<_> = lines.lines().map(|line| Line(line.to_owned())).collect();
    for line in &lines {
        let causes = ["processor", "device", "lock", "unpacking", "work", "unexplained"];
        let sum: f64 = causes.iter().map(|cause| line.figure(&format!("{cause}_us"))).sum();
        // Each figure is rounded to tenths of a microsecond.
        let total = line.figure("total_us");
        assert!((sum - total).abs() < 1.0, "{sum} of {total}: {line:?}");
    }
    lines
}
