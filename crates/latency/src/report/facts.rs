//! The parts that each report ends with: environment, parameters and command.

use serde_json::{Map, Value};

use super::{Body, Compared, Part};
use crate::experiment::table::Figure;

/// Returns the command of a result, its environment and its parameters, as far as it has them.
pub fn parts(result: &Value) -> Vec<Part> {
    let mut parts = Vec::new();
    if let Some(command) = result["command"].as_str() {
        let text = result["measured_at"]
            .as_str()
            .map_or(String::new(), |at| format!("Measured until {at}."));
        parts.push(Part::new("Command", text, Body::Commands(vec![command.to_owned()])));
    }
    for (heading, name) in [
        ("Environment", "environment"),
        ("Device, measured without an engine", "device_probe"),
        ("Parameters", "parameters"),
    ] {
        if let Some(fields) = result[name].as_object() {
            parts.push(Part::new(heading, "", Body::Facts(facts(fields))));
        }
    }
    parts
}

/// Returns names and values as text. The fields of an object follow it, with its name.
fn facts(fields: &Map<String, Value>) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for (name, value) in fields {
        let name = name.replace('_', " ");
        match value {
            Value::Null => {}
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => facts.push((name, text.clone())),
            Value::Object(fields) => facts.extend(
                self::facts(fields)
                    .into_iter()
                    .map(|(inner, text)| (format!("{name}: {inner}"), text)),
            ),
            other => facts.push((name, other.to_string())),
        }
    }
    facts
}

impl Compared {
    /// Returns the figures of a row that it has, given as JSON.
    pub fn of(label: &str, row: &Value, figures: &[Figure]) -> Self {
        let figures = figures.iter().filter_map(|figure| {
            let value = row.pointer(figure.place)?.as_f64()?;
            Some((figure.column, value, (figure.format)(value)))
        });
        Self { label: label.to_owned(), figures: figures.collect() }
    }
}
