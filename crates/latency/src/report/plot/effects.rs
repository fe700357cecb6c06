//! The picture of a promise: for each row, which share of its reads it keeps while other work runs,
//! and how far its tail rises.

use plotters::coord::ranged1d::Ranged as _;
use plotters::prelude::{Circle, Color as _, PathElement, Rectangle};
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::{Area, Width, svg, text, ticks};
use crate::failure::Failure;
use crate::numbers::latency;
use crate::report::Effect;
use crate::report::theme::{LINES, QUIET, TEXT};

/// Height of the headings.
const HEAD: i32 = 26;
/// Height of a bar.
const BAR: i32 = 14;
/// Height of the axis of latencies.
const AXIS: i32 = 26;

/// The places of one of the two panels.
struct Panel {
    left: i32,
    right: i32,
    top: i32,
    row_height: i32,
}

impl Panel {
    fn x(&self, fraction: f64) -> i32 {
        self.left + (f64::from(self.right - self.left) * fraction).round() as i32
    }

    /// Returns the top of a row.
    fn y(&self, row: usize) -> i32 {
        self.top + HEAD + self.row_height * row as i32
    }
}

pub(super) fn draw(effects: &[Effect], width: Width) -> Result<String, Failure> {
    let row_height = width.of(46, 34);
    let rows = row_height * effects.len() as i32;
    let panel = HEAD + rows;
    let (kept, tail) = match width {
        Width::Wide => (
            Panel { left: 280, right: 500, top: 0, row_height },
            Panel { left: 730, right: 940, top: 0, row_height },
        ),
        Width::Narrow => (
            Panel { left: 0, right: 330, top: 0, row_height },
            Panel { left: 18, right: 312, top: panel + 12, row_height },
        ),
    };
    let height = tail.top + panel + AXIS;
    svg(width, height as u32, |area| {
        draw_kept(area, effects, &kept, width)?;
        draw_tail(area, effects, &tail, width)
    })
}

fn draw_kept(
    area: &Area<'_>,
    effects: &[Effect],
    panel: &Panel,
    width: Width,
) -> Result<(), Failure> {
    let heading = "reads kept while it writes and compacts";
    text(area, heading, (panel.left, panel.top + 10), QUIET, HPos::Left)?;
    for (row, Effect { label, hue, kept: (share, described), .. }) in effects.iter().enumerate() {
        let y = panel.y(row);
        let middle = width.of(y + 34, y + 17);
        let bar =
            |fraction: f64| [(panel.left, middle - BAR / 2), (panel.x(fraction), middle + BAR / 2)];
        let percent = format!("{:.0} %", 100.0 * share);
        match width {
            Width::Wide => {
                text(area, label, (0, middle), TEXT, HPos::Left)?;
                let described = format!("{percent}, {described}");
                text(area, &described, (panel.right + 12, middle), TEXT, HPos::Left)?;
            }
            Width::Narrow => {
                text(area, label, (0, y + 14), TEXT, HPos::Left)?;
                text(area, &percent, (panel.right, y + 14), TEXT, HPos::Right)?;
            }
        }
        area.draw(&Rectangle::new(bar(1.0), LINES.mix(0.5).filled()))?;
        area.draw(&Rectangle::new(bar(share.min(1.0)), hue.color().filled()))?;
    }
    Ok(())
}

fn draw_tail(
    area: &Area<'_>,
    effects: &[Effect],
    panel: &Panel,
    width: Width,
) -> Result<(), Failure> {
    let heading = "p99.9 of a read, without and with writes";
    text(area, heading, (width.of(0, panel.left), panel.top + 10), QUIET, HPos::Left)?;
    let all = effects.iter().flat_map(|effect| [effect.tail_us.0, effect.tail_us.1]);
    let axis = Axis::logarithmic(all, latency);
    let (ends, bottom) = ((panel.left, panel.right), panel.y(effects.len()));
    ticks(area, &axis, ends, (panel.y(0) - 2, bottom))?;
    for (row, Effect { label, hue, tail_us: (without, with), .. }) in effects.iter().enumerate() {
        let y = panel.y(row);
        let middle = width.of(y + 34, y + 17);
        let [from, to] = [without, with].map(|us| (axis.map(us, ends), middle));
        let described = format!("{} to {}", latency(*without), latency(*with));
        match width {
            Width::Wide => text(area, &described, (1076, middle), TEXT, HPos::Right)?,
            Width::Narrow => {
                text(area, label, (0, y + 14), TEXT, HPos::Left)?;
                text(area, &described, (panel.right + 20, y + 14), TEXT, HPos::Right)?;
            }
        }
        let color = hue.color();
        area.draw(&PathElement::new(vec![from, to], color.stroke_width(3)))?;
        area.draw(&Circle::new(from, 5, color.stroke_width(2)))?;
        area.draw(&Circle::new(to, 6, color.filled()))?;
    }
    Ok(())
}
