//! Checks of the HTML reports of experiments, without a browser.

/// Maximum size of a report, in bytes.
const BYTES_MAX: usize = 1_000_000;
/// Elements that have no end tag.
const VOID: [&str; 2] = ["meta", "br"];
/// Attributes and style rules that make a browser load something.
const LOADING: [&str; 9] =
    ["src=", "href=", "srcset=", "url(", "@import", "<link", "<iframe", "fetch(", "XMLHttpRequest"];
/// What draws data in a plot. Grid lines are drawn as `line` or with few points.
const DRAWING: [&str; 4] = ["<polyline", "<polygon", "<circle", "<rect"];

/// Checks that a report is small and well-formed, loads nothing, has no empty plot, and has a row
/// in a table with each of these groups of cells, one next to the other.
///
/// # Panics
/// With a description of what is wrong.
pub fn check(html: &str, rows: &[Vec<String>]) {
    assert!(html.len() <= BYTES_MAX, "the report has {} bytes", html.len());
    for loading in LOADING {
        assert!(!html.contains(loading), "the report has '{loading}'");
    }
    check_nesting(html);
    let figures = parts(html, "<figure", "</figure>");
    assert!(!figures.is_empty(), "no plot");
    assert_eq!(figures.len() % 2, 0, "each plot is drawn at two widths");
    for figure in figures {
        let drawn: usize = DRAWING.iter().map(|tag| figure.matches(tag).count()).sum();
        assert!(drawn > 0, "an empty plot: {figure}");
        assert!(!figure.contains("NaN") && !figure.contains("points=\"\""), "{figure}");
    }
    let found: Vec<Vec<String>> = parts(html, "<tr>", "</tr>")
        .into_iter()
        .map(|row| parts(row, "<td", "</td>").into_iter().map(text).collect())
        .collect();
    for row in rows {
        let is_there = found.iter().any(|cells| cells.windows(row.len()).any(|it| it == row));
        assert!(is_there, "no row with {row:?} among {found:?}");
    }
}

/// Returns the texts from each `begin` to the next `end`.
fn parts<'t>(html: &'t str, begin: &str, end: &str) -> Vec<&'t str> {
    html.split(begin).skip(1).filter_map(|rest| Some(rest.split_once(end)?.0)).collect()
}

/// Returns the text of an element, given from the end of its name to its end tag.
fn text(element: &str) -> String {
    let text = element.split_once('>').map_or("", |(_, text)| text);
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
        .into_iter()
        .fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character))
}

/// Checks that each start tag has its end tag.
fn check_nesting(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        let name = tag.split([' ', '\n', '/']).find(|name| !name.is_empty()).unwrap_or_default();
        if tag.starts_with('!') || tag.ends_with('/') || VOID.contains(&name) {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "an end tag at: {}", &rest[..rest.len().min(200)]);
        } else {
            open.push(name);
            // The contents of these elements are no tags.
            if ["script", "style"].contains(&name) {
                rest = rest.split_once(&format!("</{name}>")).expect("an end tag").1;
                open.pop();
            }
        }
    }
    assert_eq!(open, [""; 0], "elements without an end");
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    const PLOT: &str = "<figure><svg><polyline points=\"1,2 3,4\"/></svg></figure>";
    const TABLE: &str = "<table><tr><td class=\"left\">a &amp; b</td><td>1</td></tr></table>";

    #[test]
    fn a_good_report_passes() {
        let row = vec!["a & b".to_owned(), "1".to_owned()];
        check(&format!("<!DOCTYPE html><meta charset=\"utf-8\">{PLOT}{PLOT}{TABLE}"), &[row]);
    }

    #[test]
    fn what_is_wrong_is_found() {
        let empty = "<figure><svg></svg></figure>";
        for (html, rows) in [
            (format!("{PLOT}{PLOT}{}", " ".repeat(BYTES_MAX)), vec![]),
            (format!("{PLOT}{PLOT}<img src=\"x\"/>"), vec![]),
            (format!("{PLOT}{PLOT}<style>@import 'x'</style>"), vec![]),
            (format!("{PLOT}{empty}"), vec![]),
            (PLOT.to_owned(), vec![]),
            (format!("{PLOT}{PLOT}<p><b></p></b>"), vec![]),
            (format!("{PLOT}{PLOT}{TABLE}"), vec![vec!["b".to_owned()]]),
        ] {
            assert!(catch_unwind(|| check(&html, &rows)).is_err(), "{}", html.trim());
        }
    }
}
