//! Line charts as SVG.

use ringfall_host::escape;

use super::axis::Axis;
use super::shown;

/// Size of every picture, in its own units; on the page it is as wide as it may be.
pub(super) const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 270.0;
/// Room for the axes' texts.
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 16.0;

pub(super) struct Line {
    /// Name of the line in the legend.
    name: String,
    /// Number of its colour.
    colour: usize,
    /// Stroke by which its points are drawn.
    stroke: Stroke,
    /// The points of the line as (x, y), from left to right.
    points: Vec<(f64, f64)>,
}

/// Ways in which the points of a line are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stroke {
    /// A line through them.
    Solid,
    /// A dashed line through them: not the first kind of line of its colour.
    Dashed,
    /// A dotted line through them: a limit or a target for the line of its colour.
    Dotted,
    /// A mark at each.
    Dots,
}

impl Line {
    /// A line through points as (x, y), from left to right, in the colour of that number.
    pub(super) fn new(
        name: String,
        colour: usize,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Line {
        let points = points.into_iter().collect();
        Line { name, colour, stroke: Stroke::Solid, points }
    }

    /// A level line at `value`, which the line of that colour is held against.
    pub(super) fn level(name: String, colour: usize, along: Range, value: f64) -> Line {
        let points = vec![(along.low, value), (along.high, value)];
        Line { name, colour, stroke: Stroke::Dotted, points }
    }

    /// Dashed if it is not the first kind of line of its colour.
    pub(super) fn dashed_if(self, is_dashed: bool) -> Line {
        if is_dashed { Line { stroke: Stroke::Dashed, ..self } } else { self }
    }

    /// Classes of its colour and kind in the page's style.
    fn class(&self) -> String {
        let stroke = match self.stroke {
            Stroke::Solid | Stroke::Dots => "",
            Stroke::Dashed => " dashed",
            Stroke::Dotted => " dotted",
        };
        format!("c{}{stroke}", self.colour % COLOURS)
    }

    /// Marks at its points instead of a line between them.
    pub(super) fn dots(self) -> Line {
        Line { stroke: Stroke::Dots, ..self }
    }
}

/// Smallest and largest values along an axis.
#[derive(Clone, Copy)]
pub(super) struct Range {
    /// Smallest value above 0, where a logarithmic axis can begin; infinite without any.
    pub low: f64,
    /// Largest value, at least 0.
    pub high: f64,
}

/// Ranges of the points of some lines, along the bottom and up the side.
pub(super) fn ranges(lines: &[Line]) -> [Range; 2] {
    [range(lines, |point| point.0), range(lines, |point| point.1)]
}

fn range(lines: &[Line], value: fn(&(f64, f64)) -> f64) -> Range {
    let values = || lines.iter().flat_map(|line| &line.points).map(value);
    Range {
        low: values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min),
        high: values().fold(0.0, f64::max),
    }
}

pub(super) fn across(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT)
}

pub(super) fn up(axis: &Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - BOTTOM - TOP)
}

/// Opens the picture and draws its axes, along the bottom and up the side.
pub(super) fn frame(svg: &mut String, about: &str, x: &Axis, y: &Axis) {
    let about = escape::html(about);
    svg.push_str(&format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{about}\">"
    ));
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for (value, text) in &y.marks {
        let (at, text) = (up(y, *value), escape::html(text));
        svg.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"mark\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 6.0,
            at + 4.0
        ));
    }
    for (value, text) in &x.marks {
        let (at, text) = (across(x, *value), escape::html(text));
        svg.push_str(&format!(
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text class=\"mark\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            bottom + 15.0
        ));
    }
    svg.push_str(&format!(
        "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text class=\"axis\" transform=\"translate(13 {}) rotate(-90)\" \
         text-anchor=\"middle\">{}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 6.0,
        escape::html(&x.label),
        (TOP + bottom) / 2.0,
        escape::html(&y.label)
    ));
}

/// A chart of lines over numbers of users.
pub(super) fn by_users(title: &str, unit: &str, lines: &[Line]) -> String {
    let [users, up] = ranges(lines);
    let x = Axis::log("users", users.low.clamp(1.0, 1e9), users.high);
    chart(title, title, &x, &Axis::linear(unit, up.high), lines)
}

/// A chart of these lines, those later on top, with its title and legend; nothing when there is
/// nothing to draw. `about` is a sentence for screen readers.
pub(super) fn chart(title: &str, about: &str, x: &Axis, y: &Axis, lines: &[Line]) -> String {
    let drawn = || lines.iter().filter(|line| !line.points.is_empty());
    if drawn().next().is_none() {
        return String::new();
    }
    let mut html = format!("<figure><figcaption>{}</figcaption>", escape::html(title));
    frame(&mut html, about, x, y);
    for line in drawn() {
        draw(&mut html, line, x, y);
    }
    html.push_str("</svg><ul class=\"legend\">");
    for line in drawn() {
        let (class, name) = (line.class(), escape::html(&line.name));
        html.push_str(&format!("<li><i class=\"{class}\"></i>{name}</li>"));
    }
    html.push_str("</ul></figure>");
    html
}

fn draw(svg: &mut String, line: &Line, x: &Axis, y: &Axis) {
    let place = |point: &(f64, f64)| (across(x, point.0), up(y, point.1));
    let name = escape::html(&line.name);
    if line.stroke == Stroke::Dots || line.points.len() == 1 {
        let colour = line.colour % COLOURS;
        for point in &line.points {
            let (x, y) = place(point);
            let told = format!("{name}: {}, {}", shown(point.0), shown(point.1));
            svg.push_str(&format!(
                "<circle class=\"dot c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\">\
                 <title>{told}</title></circle>"
            ));
        }
        return;
    }
    let points = line.points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}"));
    svg.push_str(&format!(
        "<polyline class=\"line {}\" points=\"{}\"><title>{name}</title></polyline>",
        line.class(),
        points.collect::<Vec<_>>().join(" ")
    ));
}

/// Colours that the page's style has.
pub(super) const COLOURS: usize = 6;
