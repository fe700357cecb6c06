//! Stacked bars: what a whole consists of in each row, with the names of the shares above them.

use plotters::prelude::{Color as _, Rectangle};
use plotters::style::text_anchor::HPos;

use super::{CHARACTER, Width, svg, text};
use crate::failure::Failure;
use crate::report::theme::{Hue, LINES, QUIET, TEXT};
use crate::report::{Shares, SharesOfRows};

/// Height of a bar, and of the squares next to the names.
const BAR: i32 = 14;
/// Height of a line of names.
const LINE: i32 = 22;

pub(super) fn draw(
    SharesOfRows { names, rows }: &SharesOfRows,
    width: Width,
) -> Result<String, Failure> {
    let (left, right) = width.of((0, 330), (290, 880));
    let names = places(names, width.pixels() as i32);
    let top = names.last().map_or(0, |&(_, (_, y))| y) + LINE;
    let row_height = width.of(46, 28);
    svg(width, (top + row_height * rows.len() as i32) as u32, |area| {
        for (number, &(name, (x, y))) in names.iter().enumerate() {
            let square = [(x, y - BAR / 2), (x + BAR, y + BAR / 2)];
            area.draw(&Rectangle::new(square, Hue(number).color().filled()))?;
            text(area, name, (x + BAR + CHARACTER, y), QUIET, HPos::Left)?;
        }
        for (row, Shares { label, shares, described }) in rows.iter().enumerate() {
            let y = top + row_height * row as i32;
            let (label_y, middle) = width.of((y + 10, y + 30), (y + 14, y + 14));
            text(area, label, (0, label_y), TEXT, HPos::Left)?;
            let described_x = width.of(right, 1076);
            text(area, described, (described_x, label_y), TEXT, HPos::Right)?;
            let x = |share: f64| left + (f64::from(right - left) * share.min(1.0)).round() as i32;
            let bar = |from: f64, to: f64| [(x(from), middle - BAR / 2), (x(to), middle + BAR / 2)];
            area.draw(&Rectangle::new(bar(0.0, 1.0), LINES.mix(0.5).filled()))?;
            let mut from = 0.0;
            for (number, share) in shares.iter().enumerate() {
                let to = from + share;
                if x(to) > x(from) {
                    area.draw(&Rectangle::new(bar(from, to), Hue(number).color().filled()))?;
                }
                from = to;
            }
        }
        Ok(())
    })
}

/// Returns the names with the places of their squares, in as many lines as needed.
fn places<'n>(names: &[&'n str], width: i32) -> Vec<(&'n str, (i32, i32))> {
    let (mut x, mut y) = (0, LINE / 2);
    let place = |&name: &&'n str| {
        let length = BAR + CHARACTER * (name.len() as i32 + 4);
        if x > 0 && x + length > width {
            (x, y) = (0, y + LINE);
        }
        let at = (x, y);
        x += length;
        (name, at)
    };
    names.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_fit_go_to_the_next_line() {
        let names = ["processor", "device", "lock", "unpacking"];
        let lines = |width: i32| -> Vec<i32> {
            places(&names, width).into_iter().map(|(_, (_, y))| y / LINE).collect()
        };
        assert_eq!(lines(1080), [0, 0, 0, 0]);
        assert_eq!(lines(240), [0, 0, 1, 1]);
        assert_eq!(lines(10), [0, 1, 2, 3]);
    }
}
