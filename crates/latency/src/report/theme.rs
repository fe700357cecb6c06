//! The colours of reports, for a light and a dark theme.
//!
//! A plot is drawn in the colours of the light theme. Its style sheet replaces them by their value,
//! which identifies them, so that a plot needs no other mark and a viewer without style sheets
//! still shows it well. The lowest bits of a colour also identify the kind of line.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// The colour of a row or of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hue(pub usize);

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Solid = 0,
    Dashed = 1,
    Dotted = 2,
}

/// The colour and kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stroke {
    hue: Hue,
    kind: Kind,
}

/// A colour in the light and in the dark theme.
struct Tone {
    light: [u8; 3],
    dark: [u8; 3],
}

const INK: Tone = Tone { light: [0x1f, 0x23, 0x28], dark: [0xe6, 0xed, 0xf3] };
const MUTED: Tone = Tone { light: [0x59, 0x63, 0x6e], dark: [0x9d, 0xa5, 0xae] };
const PAGE: Tone = Tone { light: [0xff, 0xff, 0xff], dark: [0x0d, 0x11, 0x17] };
const GRID: Tone = Tone { light: [0xd1, 0xd9, 0xe0], dark: [0x3d, 0x44, 0x4d] };

/// The hues, in the order in which rows get them.
const HUES: [Tone; 8] = [
    Tone { light: [0x09, 0x69, 0xd8], dark: [0x58, 0xa6, 0xff] },
    Tone { light: [0xbc, 0x4c, 0x00], dark: [0xf0, 0x88, 0x3e] },
    Tone { light: [0x1a, 0x7f, 0x34], dark: [0x3f, 0xb9, 0x50] },
    Tone { light: [0x82, 0x50, 0xdc], dark: [0xbc, 0x8c, 0xff] },
    Tone { light: [0xcf, 0x22, 0x2c], dark: [0xff, 0x7b, 0x72] },
    Tone { light: [0x1b, 0x7c, 0x80], dark: [0x39, 0xc5, 0xcf] },
    Tone { light: [0xbf, 0x39, 0x88], dark: [0xf7, 0x78, 0xba] },
    Tone { light: [0x9a, 0x67, 0x00], dark: [0xd2, 0x99, 0x22] },
];

/// The kinds of lines, each with the style that draws it.
const KINDS: [(Kind, &str); 3] = [
    (Kind::Solid, ""),
    (Kind::Dashed, "stroke-dasharray:7 4"),
    (Kind::Dotted, "stroke-dasharray:1 4;stroke-linecap:round"),
];

/// The colour of headings and labels.
pub(super) const TEXT: RGBColor = color(INK.light);
/// The colour of explanations and of axes.
pub(super) const QUIET: RGBColor = color(MUTED.light);
/// The colour of grid lines.
pub(super) const LINES: RGBColor = color(GRID.light);

const fn color([red, green, blue]: [u8; 3]) -> RGBColor {
    RGBColor(red, green, blue)
}

impl Hue {
    /// Returns a continuous line of this hue.
    pub fn solid(self) -> Stroke {
        Stroke { hue: self, kind: Kind::Solid }
    }

    /// Returns a dashed line of this hue.
    pub fn dashed(self) -> Stroke {
        Stroke { hue: self, kind: Kind::Dashed }
    }

    /// Returns a dotted line of this hue.
    pub fn dotted(self) -> Stroke {
        Stroke { hue: self, kind: Kind::Dotted }
    }

    pub(super) fn color(self) -> RGBColor {
        self.solid().color()
    }
}

impl Stroke {
    pub(super) fn color(self) -> RGBColor {
        let [red, green, blue] = HUES[self.hue.0 % HUES.len()].light;
        RGBColor(red, green, blue | self.kind as u8)
    }
}

/// Returns a colour as plots and style sheets write it.
pub(super) fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// Returns all colours of plots, each with its name in a style sheet, its value in the dark theme
/// and the style of its lines.
fn colors() -> impl Iterator<Item = (RGBColor, String, RGBColor, &'static str)> {
    let named = [("ink", &INK), ("muted", &MUTED), ("grid", &GRID)];
    let named =
        named.map(|(name, tone)| (color(tone.light), name.to_owned(), color(tone.dark), ""));
    let hues = HUES.iter().enumerate().flat_map(|(number, tone)| {
        KINDS.map(move |(kind, style)| {
            let stroke = Stroke { hue: Hue(number), kind };
            (stroke.color(), format!("hue-{number}"), color(tone.dark), style)
        })
    });
    named.into_iter().chain(hues)
}

/// Returns the style sheet of plots inside a page: it names the colours, for both themes.
pub(super) fn of_page() -> String {
    let (mut light, mut dark, mut rules) = (String::new(), String::new(), String::new());
    for (color, name, of_dark, style) in colors() {
        let color = hex(color);
        // Writing to a string does not fail.
        let _ = write!(light, "--{name}:{color};");
        let _ = write!(dark, "--{name}:{};", hex(of_dark));
        let _ = write!(
            rules,
            "svg [stroke=\"{color}\"]{{stroke:var(--{name});{style}}}\
             svg [fill=\"{color}\"]{{fill:var(--{name})}}"
        );
    }
    format!(
        ":root{{{light}}}\
         @media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\
         :root[data-theme=dark]{{{dark}}}{rules}"
    )
}

/// Returns the style sheet of a plot that stands alone.
pub(super) fn of_picture() -> String {
    let (mut kinds, mut dark) = (String::new(), String::new());
    for (color, _, of_dark, style) in colors() {
        let (color, of_dark) = (hex(color), hex(of_dark));
        if !style.is_empty() {
            let _ = write!(kinds, "[stroke=\"{color}\"]{{{style}}}");
        }
        let _ = write!(
            dark,
            "[stroke=\"{color}\"]{{stroke:{of_dark}}}[fill=\"{color}\"]{{fill:{of_dark}}}"
        );
    }
    let page =
        [PAGE.light, PAGE.dark].map(|tone| format!("svg{{background:{}}}", hex(color(tone))));
    let [light, of_dark] = page;
    format!("{light}{kinds}@media (prefers-color-scheme:dark){{{of_dark}{dark}}}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_colour_is_identified_by_its_value() {
        let values: Vec<_> = colors().map(|(color, ..)| hex(color)).collect();
        assert_eq!(values.iter().collect::<BTreeSet<_>>().len(), values.len());
    }
}
