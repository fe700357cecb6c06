//! Two reports side by side.

use std::path::Path;

use maud::html;

use super::{Body, Compared, Document, Part, html};
use crate::experiment::table::Table;
use crate::failure::Failure;

/// Returns the page that compares two reports. Each is given with the path of its JSON.
pub(crate) fn page(documents: &[(&Path, Document); 2]) -> Result<String, Failure> {
    let [(_, first), (_, second)] = documents;
    let compared = Part::new(
        "The same rows in both runs",
        "A and B, and B as a multiple of A.",
        Body::Tables(vec![(String::new(), table(&first.compared, &second.compared))]),
    );
    let mut pairs = Vec::new();
    for (left, right) in pairs_of(&first.parts, &second.parts) {
        let side = |part: Option<&Part>| part.map(html::part).transpose();
        let sides = [side(left)?, side(right)?];
        pairs.push(html! { @for side in &sides { div { @if let Some(part) = side { (part) } } } });
    }
    Ok(html::frame(
        &second.title,
        html! {
            div.sides {
                @for (letter, (file, document)) in ["A", "B"].iter().zip(documents) {
                    div { p.about { (letter) ": " (file.display()) } p.headline { (document.headline) } }
                }
            }
            (html::part(&compared)?)
            div.sides { @for pair in &pairs { (pair) } }
        },
    ))
}

/// Returns the parts of both reports, those with the same heading together.
fn pairs_of<'p>(
    left: &'p [Part],
    right: &'p [Part],
) -> impl Iterator<Item = (Option<&'p Part>, Option<&'p Part>)> {
    let find = |parts: &'p [Part], heading: &str| parts.iter().find(|it| it.heading == heading);
    let in_left = left.iter().map(move |part| (Some(part), find(right, &part.heading)));
    let only_right = right.iter().filter(move |part| find(left, &part.heading).is_none());
    in_left.chain(only_right.map(|part| (None, Some(part))))
}

/// Returns a table of the figures that both reports have.
fn table(first: &[Compared], second: &[Compared]) -> Table {
    let mut table = Table::new("row<|figure<|A>|B>|B to A>");
    for Compared { label, figures } in first {
        let Some(other) = second.iter().find(|other| other.label == *label) else { continue };
        for (name, value, text) in figures {
            let found = other.figures.iter().find(|(other, ..)| other == name);
            let Some((_, other, other_text)) = found else { continue };
            let ratio = if *value > 0.0 { format!("{:.2}", other / value) } else { "-".to_owned() };
            let cells =
                [label.clone(), (*name).to_owned(), text.clone(), other_text.clone(), ratio];
            table.row(cells);
        }
    }
    table
}
