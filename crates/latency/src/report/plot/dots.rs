//! A value of each row on a common logarithmic axis, with the spread over the runs.

use plotters::coord::ranged1d::Ranged as _;
use plotters::prelude::{Circle, Color as _, PathElement};
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::{Width, svg, text, ticks};
use crate::failure::Failure;
use crate::report::theme::{QUIET, TEXT};
use crate::report::{Dot, Dots};

/// Height of the axis.
const AXIS: i32 = 48;

pub(super) fn draw(dots: &Dots, width: Width) -> Result<String, Failure> {
    let all = dots.rows.iter().flat_map(|row| row.values).chain(dots.reference);
    let axis = Axis::logarithmic(all, dots.format);
    let row_height = width.of(40, 26);
    let bottom = row_height * dots.rows.len() as i32 + 8;
    let (left, right) = width.of((18, 306), (290, 980));
    let x = |value: f64| axis.map(&value, (left, right));
    svg(width, (bottom + AXIS) as u32, |area| {
        ticks(area, &axis, (left, right), (4, bottom))?;
        if let Some(at) = dots.reference.map(x) {
            let line = vec![(at, 4), (at, bottom)];
            area.draw(&PathElement::new(line, QUIET.stroke_width(2)))?;
        }
        text(area, &dots.axis, ((left + right) / 2, bottom + 35), QUIET, HPos::Center)?;
        for (number, Dot { label, hue, values: [low, middle, high] }) in
            dots.rows.iter().enumerate()
        {
            let top = row_height * number as i32 + 4;
            let y = top + width.of(28, row_height / 2);
            let color = hue.color();
            let (value, label_y) = ((dots.format)(*middle), width.of(top + 10, y));
            text(area, label, (0, label_y), TEXT, HPos::Left)?;
            let value_x = width.of(right + 26, right + 90);
            text(area, &value, (value_x, label_y), TEXT, HPos::Right)?;
            let spread = vec![(x(*low), y), (x(*high), y)];
            area.draw(&PathElement::new(spread, color.stroke_width(3)))?;
            area.draw(&Circle::new((x(*middle), y), 5, color.filled()))?;
        }
        Ok(())
    })
}
