//! Rules of the documents: links lead to a file and a heading that exist, `docs/SUMMARY.md` is the
//! table of contents of a book with every page of `docs/`, and pages about internals are short.

#![expect(clippy::disallowed_methods, reason = "reads the checkout, not a database")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::iter;

use common::{assert_none, files, root};

/// Maximum number of lines of a page about internals.
const LINES_MAX: usize = 200;
/// Maximum number of characters of a line of such a page.
const COLUMNS_MAX: usize = 120;

/// Returns the lines of a document that are not in a code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the targets of a document's links, except those to other sites.
fn targets(text: &str) -> Vec<&str> {
    let links = prose(text).flat_map(|line| line.split("](").skip(1));
    let targets = links.map(|link| link.split(')').next().unwrap_or_default());
    targets.filter(|target| !target.starts_with("http")).collect()
}

/// Returns the anchors of a document's headings, by GitHub's rules: lower case, hyphens in place of
/// spaces, no punctuation, and a number after a repeated heading.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for heading in prose(text).filter(|line| line.starts_with('#')) {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let characters = heading.chars().filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            _ => character.is_alphanumeric().then_some(character),
        });
        let anchor: String = characters.collect();
        let repeated = (1..).map(|number| format!("{anchor}-{number}"));
        let unused = iter::once(anchor.clone()).chain(repeated).find(|it| !anchors.contains(it));
        anchors.extend(unused);
    }
    anchors
}

/// Returns a message for each link of a document whose file or heading does not exist. `path` is
/// the document's path, relative to the root of the repository.
fn broken_links(path: &str, text: &str) -> Vec<String> {
    let directory = root().join(path).parent().expect("a directory").to_owned();
    let is_broken = |target: &str| {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let linked = directory.join(file);
        if file.is_empty() {
            return !anchors(text).contains(anchor);
        }
        if anchor.is_empty() || !linked.exists() {
            return !linked.exists();
        }
        let linked = fs::read_to_string(linked).expect("text");
        !anchors(&linked).contains(anchor)
    };
    let broken = targets(text).into_iter().filter(|target| is_broken(target));
    broken.map(|target| format!("{path}: {target}")).collect()
}

#[test]
fn links_lead_somewhere() {
    let documents = files(".md");
    let broken = documents.iter().flat_map(|(path, text)| broken_links(path, text));
    assert_none("broken links", &broken.collect::<Vec<_>>());
}

#[test]
fn broken_links_are_found() {
    let text =
        "# One, `two`\n\n## Again\n\n## Again\n\n```\n# Code, [not a link](nowhere.md)\n```\n";
    assert_eq!(anchors(text), BTreeSet::from(["again", "again-1", "one-two"].map(str::to_owned)));
    for intact in ["#one-two", "#again-1", "tuning.md", "tuning.md#where-to-begin", "internals"] {
        let text = format!("{text}[link]({intact}), [elsewhere](https://example.org)");
        assert_eq!(broken_links("docs/page.md", &text), Vec::<String>::new());
    }
    for broken in ["#again-2", "#code-not-a-link", "nowhere.md", "tuning.md#nowhere", "docs/x"] {
        let text = format!("{text}[link]({broken})");
        assert_eq!(broken_links("docs/page.md", &text), [format!("docs/page.md: {broken}")]);
    }
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("text");
    let is_known = |line: &&str| line.is_empty() || line.starts_with(['#', '-', '[']);
    let unknown = summary.lines().filter(|line| !is_known(line)).map(str::to_owned);
    assert_none("lines of the summary that mdBook ignores", &unknown.collect::<Vec<_>>());

    let mut listed = targets(&summary);
    listed.sort_unstable();
    let documents = files(".md");
    let pages = documents.iter().filter_map(|(path, _)| path.strip_prefix("docs/"));
    let mut pages: Vec<&str> = pages.filter(|page| *page != "SUMMARY.md").collect();
    pages.sort_unstable();
    assert_eq!(listed, pages, "docs/SUMMARY.md, and the pages in docs/");
}

#[test]
fn pages_about_internals_are_short() {
    let mut long = Vec::new();
    for (path, text) in files(".md") {
        if !path.starts_with("docs/internals/") {
            continue;
        }
        let lines = text.lines().count();
        if lines > LINES_MAX {
            long.push(format!("{path}: {lines} lines"));
        }
        for (number, line) in text.lines().enumerate() {
            if line.chars().count() > COLUMNS_MAX {
                long.push(format!("{path}:{}: more than {COLUMNS_MAX} columns", number + 1));
            }
        }
    }
    assert_none("pages about internals that are too long", &long);
}
