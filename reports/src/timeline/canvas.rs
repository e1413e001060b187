//! Drawing in whole pixels, with plotters' SVG backend. Text is measured with the same font
//! that pictures are rendered with, so that labels can be kept apart.

use plotters::prelude::{RGBColor, SVGBackend, ShapeStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontDesc, FontFamily, FontStyle, TextStyle};
use plotters_backend::DrawingBackend;
use ttf_parser::Face;

/// A place in the picture.
pub(super) type Dot = (i32, i32);

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) right: i32,
    pub(super) bottom: i32,
}

impl Area {
    pub(super) fn width(self) -> i32 {
        self.right - self.left
    }

    pub(super) fn middle(self) -> i32 {
        i32::midpoint(self.top, self.bottom)
    }
}

pub(super) const BLACK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(super) const WHITE: RGBColor = RGBColor(0xff, 0xff, 0xff);
pub(super) const GREY: RGBColor = RGBColor(0x77, 0x77, 0x77);
pub(super) const PALE: RGBColor = RGBColor(0xe9, 0xe9, 0xe9);
/// Clients that have no lane.
pub(super) const OTHERS: RGBColor = RGBColor(0xc4, 0xc4, 0xc4);
/// The ground of a lane.
pub(super) const GROUND: RGBColor = RGBColor(0xf7, 0xf7, 0xf7);
/// Vermilion for text: darker, to be read on white.
pub(super) const DEEP_RED: RGBColor = RGBColor(0xa8, 0x3e, 0x00);
/// Okabe and Ito's vermilion, kept for violations.
pub(super) const RED: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
/// The other colours of Okabe and Ito, each with a text colour that can be read on it.
const CLIENTS: &[(RGBColor, RGBColor)] = &[
    (RGBColor(0x00, 0x72, 0xb2), WHITE),
    (RGBColor(0xe6, 0x9f, 0x00), BLACK),
    (RGBColor(0x00, 0x9e, 0x73), WHITE),
    (RGBColor(0xcc, 0x79, 0xa7), BLACK),
    (RGBColor(0x56, 0xb4, 0xe9), BLACK),
    (RGBColor(0xf0, 0xe4, 0x42), BLACK),
];

/// A client's colour, and that of text on it.
pub(super) fn colour_of(client: u16) -> (RGBColor, RGBColor) {
    CLIENTS[usize::from(client.max(1) - 1) % CLIENTS.len()]
}

const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// How a text is set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type {
    pub(super) size: i32,
    pub(super) bold: bool,
    pub(super) colour: RGBColor,
}

pub(super) const SMALL: Type = Type {
    size: 11,
    bold: false,
    colour: BLACK,
};

impl Type {
    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) fn size(self, size: i32) -> Self {
        Self { size, ..self }
    }

    pub(super) fn colour(self, colour: RGBColor) -> Self {
        Self { colour, ..self }
    }

    /// How wide a text is, in pixels.
    pub(super) fn width(self, text: &str) -> i32 {
        let data = if self.bold {
            dejavu::sans::bold()
        } else {
            dejavu::sans::regular()
        };
        let face = Face::parse(data, 0).expect("the embedded font is sound");
        let advance = |c: char| {
            face.glyph_index(c)
                .and_then(|glyph| face.glyph_hor_advance(glyph))
                .map_or(i32::from(face.units_per_em()), i32::from)
        };
        let units: i32 = text.chars().map(advance).sum();
        (units * self.size + i32::from(face.units_per_em()) - 1) / i32::from(face.units_per_em())
    }

    /// The text cut to a width, with an ellipsis; nothing if hardly anything would be left.
    pub(super) fn cut(self, text: &str, width: i32) -> String {
        if self.width(text) <= width {
            return text.to_owned();
        }
        let mut cut: Vec<char> = text.chars().collect();
        while cut.len() > 4 {
            cut.pop();
            let short: String = cut.iter().collect::<String>().trim_end().to_owned() + "…";
            if self.width(&short) <= width {
                return short;
            }
        }
        String::new()
    }

    /// Breaks a text into lines of at most a width.
    pub(super) fn wrapped(self, text: &str, width: i32) -> Vec<String> {
        let mut lines = vec![String::new()];
        for word in text.split_whitespace() {
            let line = lines.last_mut().expect("there is always a line");
            let longer = if line.is_empty() {
                word.to_owned()
            } else {
                format!("{line} {word}")
            };
            if line.is_empty() || self.width(&longer) <= width {
                *line = longer;
            } else {
                lines.push(word.to_owned());
            }
        }
        lines
    }
}

/// Where a text stands relative to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Middle,
    Right,
}

/// A picture in the making. Writing to memory cannot fail.
pub(super) struct Canvas<'s>(SVGBackend<'s>);

impl<'s> Canvas<'s> {
    pub(super) fn new(into: &'s mut String, width: u32, height: u32) -> Self {
        let mut canvas = Self(SVGBackend::with_string(into, (width, height)));
        let (right, bottom) = (width as i32, height as i32);
        canvas.fill(
            Area {
                left: 0,
                top: 0,
                right,
                bottom,
            },
            WHITE,
        );
        canvas
    }

    pub(super) fn finish(mut self) {
        self.0.present().expect("memory can be written to");
    }

    fn style(colour: RGBColor, filled: bool, stroke_width: u32) -> ShapeStyle {
        ShapeStyle {
            color: colour.into(),
            filled,
            stroke_width,
        }
    }

    pub(super) fn fill(&mut self, area: Area, colour: RGBColor) {
        let (from, to) = ((area.left, area.top), (area.right, area.bottom));
        self.0
            .draw_rect(from, to, &Self::style(colour, true, 0), true)
            .expect("memory can be written to");
    }

    pub(super) fn outline(&mut self, area: Area, colour: RGBColor, thick: u32) {
        let (from, to) = ((area.left, area.top), (area.right, area.bottom));
        self.0
            .draw_rect(from, to, &Self::style(colour, false, thick), false)
            .expect("memory can be written to");
    }

    pub(super) fn line(&mut self, from: Dot, to: Dot, colour: RGBColor, thick: u32) {
        self.0
            .draw_line(from, to, &Self::style(colour, false, thick))
            .expect("memory can be written to");
    }

    pub(super) fn polygon(&mut self, dots: &[Dot], colour: RGBColor) {
        self.0
            .fill_polygon(dots.iter().copied(), &Self::style(colour, true, 0))
            .expect("memory can be written to");
    }

    pub(super) fn circle(&mut self, at: Dot, radius: u32, colour: RGBColor, filled: bool) {
        self.0
            .draw_circle(at, radius, &Self::style(colour, filled, 2), filled)
            .expect("memory can be written to");
    }

    /// A dashed line, across or down.
    pub(super) fn dashed(&mut self, from: Dot, to: Dot, colour: RGBColor, thick: u32) {
        let length = (to.0 - from.0).abs().max((to.1 - from.1).abs()).max(1);
        let along = |step: i32| {
            let step = step.min(length);
            (
                from.0 + (to.0 - from.0) * step / length,
                from.1 + (to.1 - from.1) * step / length,
            )
        };
        for step in (0..length).step_by(9) {
            self.line(along(step), along(step + 5), colour, thick);
        }
    }

    /// Diagonal lines, `gap` pixels apart; rising or falling.
    pub(super) fn hatch(&mut self, area: Area, colour: RGBColor, gap: i32, rising: bool) {
        let height = area.bottom - area.top;
        let mut x = area.left - height + gap;
        while x < area.right {
            // From (x, one edge) to (x + height, the other), clipped at both sides.
            let from = (area.left - x).max(0);
            let to = (area.right - x).min(height);
            if from < to {
                let y = |step: i32| {
                    if rising {
                        area.bottom - step
                    } else {
                        area.top + step
                    }
                };
                self.line((x + from, y(from)), (x + to, y(to)), colour, 1);
            }
            x += gap;
        }
    }

    pub(super) fn text(&mut self, text: &str, at: Dot, of: Type, align: Align) {
        let style = if of.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        // The backend divides by this to get from points to pixels.
        let size = f64::from(of.size) * 1.24;
        let horizontal = match align {
            Align::Left => HPos::Left,
            Align::Middle => HPos::Center,
            Align::Right => HPos::Right,
        };
        let font = FontDesc::new(FontFamily::Name(FAMILY), size, style);
        let style = TextStyle::from(font)
            .color(&of.colour)
            .pos(Pos::new(horizontal, VPos::Center));
        self.0
            .draw_text(text, &style, at)
            .expect("memory can be written to");
    }

    /// A text on a white ground, to be read on top of lines.
    pub(super) fn label(&mut self, text: &str, at: Dot, of: Type, align: Align) {
        let width = of.width(text);
        let left = match align {
            Align::Left => at.0,
            Align::Middle => at.0 - width / 2,
            Align::Right => at.0 - width,
        };
        let half = of.size * 2 / 3;
        self.fill(
            Area {
                left: left - 2,
                top: at.1 - half,
                right: left + width + 2,
                bottom: at.1 + half,
            },
            WHITE,
        );
        self.text(text, at, of, align);
    }

    /// A diamond: a violation.
    pub(super) fn diamond(&mut self, (x, y): Dot, radius: i32) {
        let dots = |r: i32| [(x, y - r), (x + r, y), (x, y + r), (x - r, y)];
        self.polygon(&dots(radius + 2), WHITE);
        self.polygon(&dots(radius), RED);
        self.polygon(&dots(radius / 3), WHITE);
    }

    /// A crossed-out square: refused.
    pub(super) fn crossed(&mut self, (x, y): Dot, radius: i32) {
        let area = Area {
            left: x - radius,
            top: y - radius,
            right: x + radius,
            bottom: y + radius,
        };
        self.fill(area, WHITE);
        self.outline(area, BLACK, 2);
        self.cross((x, y), radius - 2, 2);
    }

    /// An hourglass: somebody was waited for in vain.
    pub(super) fn hourglass(&mut self, (x, y): Dot, radius: i32) {
        let area = Area {
            left: x - radius,
            top: y - radius - 1,
            right: x + radius,
            bottom: y + radius + 1,
        };
        self.fill(area, WHITE);
        let (half, up) = (radius - 1, radius);
        self.polygon(&[(x - half, y - up), (x + half, y - up), (x, y)], BLACK);
        self.polygon(&[(x - half, y + up), (x + half, y + up), (x, y)], BLACK);
    }

    /// An arrow that goes up and away: something that no database can take back.
    pub(super) fn arrow(&mut self, (x, y): Dot, colour: RGBColor) {
        let head = |r: i32| [(x - r, y), (x + r, y), (x, y - r)];
        self.line((x, y - 2), (x, y + 7), BLACK, 3);
        self.polygon(&head(7), BLACK);
        self.polygon(&[(x - 4, y - 1), (x + 4, y - 1), (x, y - 5)], colour);
    }

    /// A triangle that stands on its base: a fence was drawn.
    pub(super) fn drawn(&mut self, (x, y): Dot, colour: RGBColor) {
        self.polygon(&[(x - 7, y + 6), (x + 7, y + 6), (x, y - 7)], BLACK);
        self.polygon(&[(x - 4, y + 4), (x + 4, y + 4), (x, y - 3)], colour);
    }

    /// A cross: somebody died.
    pub(super) fn cross(&mut self, (x, y): Dot, radius: i32, thick: u32) {
        self.line(
            (x - radius, y - radius),
            (x + radius, y + radius),
            BLACK,
            thick,
        );
        self.line(
            (x - radius, y + radius),
            (x + radius, y - radius),
            BLACK,
            thick,
        );
    }
}
