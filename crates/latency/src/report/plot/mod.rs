//! Plots, as SVG. Each is drawn at two widths.

mod axis;
mod course;
mod curves;
mod dots;
mod effects;
mod shares;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged as _, ValueFormatter as _};
use plotters::prelude::{
    ChartBuilder, Color as _, DrawingArea, IntoDrawingArea as _, IntoFont as _, LineSeries,
    PathElement, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{RGBColor, TextStyle};

use self::axis::Axis;
use super::theme::{self, LINES, QUIET};
use super::{Body, Document};
use crate::failure::Failure;

/// The width at which a plot is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// For a telephone.
    Narrow,
    /// For a screen.
    Wide,
}

impl Width {
    pub(super) const ALL: [Self; 2] = [Self::Wide, Self::Narrow];

    /// Returns the class of plots of this width in the page.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Narrow => "narrow",
            Self::Wide => "wide",
        }
    }

    /// Returns the width in pixels.
    fn pixels(self) -> u32 {
        match self {
            Self::Narrow => 336,
            Self::Wide => 1080,
        }
    }

    /// Returns one of two values.
    fn of<T>(self, narrow: T, wide: T) -> T {
        match self {
            Self::Narrow => narrow,
            Self::Wide => wide,
        }
    }
}

type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;

/// Size of texts, in pixels.
const TEXT_SIZE: f64 = 13.0;
/// Plotters divides the size of a font by this number, to get the size in SVG.
const FONT_SCALE: f64 = 1.24;
/// Width of the labels of vertical axes, in pixels.
const LABELS: u32 = 66;
/// Space to the right of a chart, for half of the last label, in pixels.
const MARGIN: u32 = 26;
/// Margin of a picture that stands alone, in pixels.
const PADDING: u32 = 16;
/// Mean width of a character, in pixels. Used to place texts next to each other.
const CHARACTER: i32 = 7;

/// Draws the plot of a part; `None` if the part has none.
pub(super) fn draw(body: &Body, width: Width) -> Result<Option<String>, Failure> {
    Ok(Some(match body {
        Body::Effects(effects) => effects::draw(effects, width)?,
        Body::Dots(dots) => dots::draw(dots, width)?,
        Body::Shares(shares) => shares::draw(shares, width)?,
        Body::Curves(curves) => curves::draw(curves, width)?,
        Body::Course(course) => course::draw(course, width)?,
        Body::Tables(_) | Body::Facts(_) | Body::Commands(_) => return Ok(None),
    }))
}

/// Returns the picture of a report, which stands alone: the plot of its first part, with a margin
/// and a background, because the page around it may have another theme.
pub(super) fn picture(document: &Document) -> Result<Option<String>, Failure> {
    let Some(part) = document.parts.first() else { return Ok(None) };
    let Some(svg) = draw(&part.body, Width::Wide)? else { return Ok(None) };
    let (head, content) = svg.split_once('>').ok_or("a plot without a head")?;
    let height = head.split("height=\"").nth(1).and_then(|rest| rest.split('"').next());
    let height: u32 = height.ok_or("a plot without a height")?.parse()?;
    Ok(Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-{PADDING} -{PADDING} {} {}\">\n\
         <style>text{{font-family:sans-serif}}{}</style>{content}",
        Width::Wide.pixels() + 2 * PADDING,
        height + 2 * PADDING,
        theme::of_picture(),
    )))
}

/// Returns an SVG of this height that `draw` draws.
fn svg(
    width: Width,
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (width.pixels(), height)).into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    Ok(text)
}

/// Draws a text. `x` is its left or right end or its middle, `y` the middle of its height.
fn text(
    area: &Area<'_>,
    what: &str,
    (x, y): (i32, i32),
    color: RGBColor,
    align: HPos,
) -> Result<(), Failure> {
    let style = style(color).pos(Pos::new(align, VPos::Center));
    Ok(area.draw(&Text::new(what.to_owned(), (x, y), style))?)
}

fn style(color: RGBColor) -> TextStyle<'static> {
    ("sans-serif", TEXT_SIZE * FONT_SCALE).into_font().color(&color)
}

/// Draws the vertical grid lines of a horizontal axis from `top` to `bottom`, and its labels below
/// them. A label that would touch the one before is left out.
fn ticks(
    area: &Area<'_>,
    axis: &Axis,
    (left, right): (i32, i32),
    (top, bottom): (i32, i32),
) -> Result<(), Failure> {
    let mut free_from = i32::MIN;
    for &tick in axis.ticks() {
        let x = axis.map(&tick, (left, right));
        area.draw(&PathElement::new(vec![(x, top), (x, bottom)], LINES.stroke_width(1)))?;
        let label = axis.format_ext(&tick);
        let half = label.len() as i32 * CHARACTER / 2;
        if x - half >= free_from {
            text(area, &label, (x, bottom + 13), QUIET, HPos::Center)?;
            free_from = x + half + CHARACTER;
        }
    }
    Ok(())
}

/// A line of a chart.
struct Stroked {
    color: RGBColor,
    width: u32,
    points: Vec<(f64, f64)>,
}

/// Draws a chart with lines, and its axes.
fn chart(
    area: &Area<'_>,
    x: &Axis,
    y: &Axis,
    lines: impl IntoIterator<Item = Stroked>,
) -> Result<(), Failure> {
    let mut chart = ChartBuilder::on(area)
        .margin_top(8)
        .margin_right(MARGIN)
        .x_label_area_size(if x.has_labels { 26 } else { 6 })
        .y_label_area_size(LABELS)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .bold_line_style(LINES)
        .axis_style(LINES)
        .label_style(style(QUIET))
        .set_all_tick_mark_size(3)
        .draw()?;
    for Stroked { color, width, points } in lines {
        chart.draw_series(LineSeries::new(points, color.stroke_width(width)))?;
    }
    Ok(())
}
