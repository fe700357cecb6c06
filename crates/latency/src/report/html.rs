//! The page of a report.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plot::{self, Width};
use super::theme;
use super::{Body, Curve, Document, Part};
use crate::experiment::table::Table;
use crate::failure::Failure;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("theme.js");

/// Returns the page of a report.
pub(super) fn page(document: &Document) -> Result<String, Failure> {
    let parts = document.parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
    let headline = html! { p.headline { (document.headline) } };
    Ok(frame(
        &document.title,
        html! {
            (headline)
            @for part in &parts { (part) }
        },
    ))
}

/// Returns a page with this content.
pub(super) fn frame(title: &str, content: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(theme::of_page())) (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    button type="button" { "Light or dark" }
                }
                main { (content) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Returns a part with its heading.
pub(super) fn part(part: &Part) -> Result<Markup, Failure> {
    let body = body(&part.heading, &part.body)?;
    let text = html! { @if !part.text.is_empty() { p.text { (part.text) } } };
    Ok(if part.is_folded {
        html! { details.part { summary { h2 { (part.heading) } } (text) (body) } }
    } else {
        html! { section { @if !part.heading.is_empty() { h2 { (part.heading) } } (text) (body) } }
    })
}

fn body(heading: &str, body: &Body) -> Result<Markup, Failure> {
    let label = if heading.is_empty() { "The result" } else { heading };
    let mut plots = Vec::new();
    for width in Width::ALL {
        if let Some(svg) = plot::draw(body, width)? {
            plots.push((width, svg));
        }
    }
    Ok(html! {
        @for (width, svg) in &plots {
            figure class=(width.class()) role="img" aria-label=(label) { (PreEscaped(svg)) }
        }
        @match body {
            Body::Curves(curves) => (legend(curves)),
            Body::Tables(tables) => div.tables {
                @for (caption, table) in tables { (self::table(caption, table)) }
            },
            Body::Facts(facts) => dl {
                @for (name, value) in facts { dt { (name) } dd { (value) } }
            },
            Body::Commands(lines) => { @for line in lines { pre { (line) } } },
            Body::Effects(_) | Body::Dots(_) | Body::Shares(_) | Body::Course(_) => {},
        }
    })
}

fn legend(curves: &[Curve]) -> Markup {
    html! {
        ul.legend {
            @for Curve { label, stroke, .. } in curves {
                li {
                    svg viewBox="0 0 28 12" aria-hidden="true" {
                        path d="M0 6H28" stroke=(theme::hex(stroke.color())) stroke-width="2" {}
                    }
                    (label)
                }
            }
        }
    }
}

fn table(caption: &str, table: &Table) -> Markup {
    let class = |is_left: bool| is_left.then_some("left");
    html! {
        div.scroll {
            table {
                @if !caption.is_empty() { caption { (caption) } }
                thead {
                    tr { @for (heading, is_left) in table.headings() {
                        th class=[class(is_left)] { (heading.trim()) }
                    } }
                }
                tbody {
                    @for row in table.rows() {
                        tr { @for (cell, (_, is_left)) in row.iter().zip(table.headings()) {
                            td class=[class(is_left)] { (cell) }
                        } }
                    }
                }
            }
        }
    }
}
