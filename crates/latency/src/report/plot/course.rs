//! The course of a run: panels one above the other with a common time axis, and lanes that show
//! what happened when.

use plotters::prelude::{Color as _, Polygon};
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::{Area, CHARACTER, LABELS, MARGIN, Stroked, Width, chart, svg, text};
use crate::failure::Failure;
use crate::report::theme::QUIET;
use crate::report::{Course, Lane, Panel};

/// Height of the names above a panel.
const NAMES: u32 = 22;
/// Height of a lane.
const LANE: u32 = 20;
/// Height of the labels of the time axis.
const TIMES: u32 = 20;

pub(super) fn draw(course: &Course, width: Width) -> Result<String, Failure> {
    let (first, other) = (width.of(170, 210), width.of(100, 110));
    let panels = course.panels.len() as u32;
    let others = panels.saturating_sub(1);
    let lanes = LANE * course.lanes.len() as u32;
    let height = panels * NAMES + first + others * other + lanes + TIMES;
    svg(width, height, |area| {
        let mut rest = area.clone();
        let mut cut = |height: u32| {
            let (upper, lower) = rest.split_vertically(height);
            rest = lower;
            upper
        };
        for (number, panel) in course.panels.iter().enumerate() {
            names(&cut(NAMES), panel)?;
            let is_last = number + 1 == course.panels.len();
            let times = times(course.seconds);
            let times = if is_last { times } else { times.without_labels() };
            let below = if is_last { TIMES } else { 0 };
            let height = if number == 0 { first } else { other };
            self::panel(&cut(height + below), panel, &times)?;
            if number == 0 {
                for lane in &course.lanes {
                    self::lane(&cut(LANE), lane, course.seconds)?;
                }
            }
        }
        Ok(())
    })
}

/// Returns the time axis, which ends with the run.
fn times(seconds: f64) -> Axis {
    let round = Axis::linear(seconds, |_| String::new());
    let ticks = round.ticks().iter().copied().filter(|tick| *tick <= seconds).collect();
    Axis::with_ticks(seconds, ticks, |at| format!("{at} s"))
}

/// Writes the names of a panel's lines, each in its colour.
fn names(area: &Area<'_>, panel: &Panel) -> Result<(), Failure> {
    let mut x = LABELS as i32;
    for line in &panel.lines {
        text(area, &line.name, (x, 13), line.hue.color(), HPos::Left)?;
        x += (line.name.len() as i32 + 3) * CHARACTER;
    }
    Ok(())
}

fn panel(area: &Area<'_>, panel: &Panel, times: &Axis) -> Result<(), Failure> {
    let all = || panel.lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
    let values = match panel.is_logarithmic {
        true => Axis::logarithmic(all(), panel.format),
        false => Axis::linear(all().fold(0.0, f64::max), panel.format),
    };
    let lines = panel.lines.iter().map(|line| Stroked {
        color: line.hue.color(),
        width: 2,
        points: line.points.clone(),
    });
    chart(area, times, &values, lines)
}

/// Draws a lane: the higher, the more things happened at a time.
fn lane(area: &Area<'_>, lane: &Lane, seconds: f64) -> Result<(), Failure> {
    text(area, lane.name, (LABELS as i32 - 6, 10), QUIET, HPos::Right)?;
    let (left, right) = (LABELS as f64, f64::from(area.dim_in_pixel().0 - MARGIN));
    let x = |at: f64| (left + (right - left) * (at / seconds).clamp(0.0, 1.0)).round() as i32;
    let most = lane.steps.iter().map(|(_, level)| *level).fold(1.0, f64::max);
    let (bottom, height) = (LANE as i32 - 3, f64::from(LANE - 6));
    let y = |level: f64| bottom - (height * level / most).round() as i32;
    let mut points = vec![(x(0.0), bottom)];
    let mut before = bottom;
    for &(at, level) in &lane.steps {
        points.extend([(x(at), before), (x(at), y(level))]);
        before = y(level);
    }
    points.extend([(x(seconds), before), (x(seconds), bottom)]);
    Ok(area.draw(&Polygon::new(points, lane.hue.color().filled()))?)
}
