//! Line charts as SVG.

use std::fmt::Write as _;

use ringfall_host::escape;

use super::axis::Axis;
use super::shown;

/// Size of every picture, in its own units; on the page it is as wide as it may be.
pub(super) const WIDTH: f64 = 640.0;
pub(super) const HEIGHT: f64 = 300.0;
/// Room for the axes' texts.
pub(super) const LEFT: f64 = 64.0;
pub(super) const BOTTOM: f64 = 40.0;
pub(super) const TOP: f64 = 12.0;
pub(super) const RIGHT: f64 = 16.0;

/// One line.
pub(super) struct Line {
    /// Name of the line in the legend.
    pub name: String,
    /// Number of its colour.
    pub colour: usize,
    /// Not the first kind of line of its colour: dashed.
    pub dashed: bool,
    /// The points of the line as (x, y), from left to right.
    pub points: Vec<(f64, f64)>,
    /// Marks at the points instead of a line between them.
    pub dots: bool,
}

/// A chart.
pub(super) struct Chart<'a> {
    /// Heading above the chart.
    pub title: &'a str,
    /// Description of the chart, a sentence, for screen readers.
    pub about: &'a str,
    /// Label and axis along the bottom.
    pub x: (&'a str, Axis),
    /// Label and axis up the side.
    pub y: (&'a str, Axis),
    /// The lines to draw, those drawn later on top.
    pub lines: Vec<Line>,
}

/// Horizontal place of a value.
pub(super) fn across(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT)
}

/// Vertical place of a value.
pub(super) fn up(axis: &Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - BOTTOM - TOP)
}

/// Opens the picture and draws its axes.
pub(super) fn frame(svg: &mut String, about: &str, x: (&str, &Axis), y: (&str, &Axis)) {
    // Writing to a String can't fail.
    let _infallible = write!(
        svg,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape::html(about)
    );
    for (value, text) in &y.1.marks {
        let at = up(y.1, *value);
        let _infallible = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"mark\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            escape::html(text)
        );
    }
    for (value, text) in &x.1.marks {
        let at = across(x.1, *value);
        let (top, bottom) = (TOP, HEIGHT - BOTTOM);
        let _infallible = write!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>\
             <text class=\"mark\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 15.0,
            escape::html(text)
        );
    }
    let _infallible = write!(
        svg,
        "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text class=\"axis\" transform=\"translate(13 {}) rotate(-90)\" \
         text-anchor=\"middle\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        escape::html(x.0),
        (TOP + HEIGHT - BOTTOM) / 2.0,
        escape::html(y.0)
    );
}

impl Chart<'_> {
    /// The chart with its title and legend; nothing when there is nothing to draw.
    pub(super) fn html(&self) -> String {
        if self.lines.iter().all(|line| line.points.is_empty()) {
            return String::new();
        }
        let mut html = format!("<figure><figcaption>{}</figcaption>", escape::html(self.title));
        let (x, y) = ((self.x.0, &self.x.1), (self.y.0, &self.y.1));
        frame(&mut html, self.about, x, y);
        for line in self.lines.iter().filter(|line| !line.points.is_empty()) {
            self.draw(&mut html, line);
        }
        html.push_str("</svg><ul class=\"legend\">");
        for line in self.lines.iter().filter(|line| !line.points.is_empty()) {
            let dashed = if line.dashed { " dashed" } else { "" };
            let _infallible = write!(
                html,
                "<li><i class=\"c{}{dashed}\"></i>{}</li>",
                line.colour % COLOURS,
                escape::html(&line.name)
            );
        }
        html.push_str("</ul></figure>");
        html
    }

    fn draw(&self, svg: &mut String, line: &Line) {
        let place = |&(x, y): &(f64, f64)| (across(&self.x.1, x), up(&self.y.1, y));
        let colour = line.colour % COLOURS;
        if line.dots || line.points.len() == 1 {
            for point in &line.points {
                let (x, y) = place(point);
                let _infallible = write!(
                    svg,
                    "<circle class=\"dot c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\">\
                     <title>{}: {}, {}</title></circle>",
                    escape::html(&line.name),
                    shown(point.0),
                    shown(point.1)
                );
            }
            return;
        }
        let dashed = if line.dashed { " dashed" } else { "" };
        let points: Vec<String> = line
            .points
            .iter()
            .map(|point| {
                let (x, y) = place(point);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let _infallible = write!(
            svg,
            "<polyline class=\"line c{colour}{dashed}\" points=\"{}\"><title>{}</title></polyline>",
            points.join(" "),
            escape::html(&line.name)
        );
    }
}

/// Colours that the page's style has.
pub(super) const COLOURS: usize = 6;
