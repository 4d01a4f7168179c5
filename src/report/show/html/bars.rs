//! Bars as SVG: parts of a whole beside each other, and figures of several runs below each other.

use ringfall_host::escape;

use super::chart::{COLOURS, WIDTH};
use super::shown;

/// Part of a whole.
pub(super) struct Share {
    /// Name of the part in the legend.
    pub name: String,
    /// Share of the whole, from 0 to 1.
    pub share: f64,
}

/// A bar of the parts of a whole with its title and legend; nothing without parts.
pub(super) fn shares(title: &str, parts: &[Share]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let (mut bar, mut legend, mut from) = (String::new(), String::new(), 0.0);
    for (place, part) in parts.iter().enumerate() {
        let (colour, width) = (place % COLOURS, part.share * 100.0);
        let name = escape::html(&format!("{} {width:.0} %", part.name));
        bar.push_str(&format!(
            "<rect class=\"dot c{colour}\" x=\"{from:.2}\" width=\"{width:.2}\" height=\"1\">\
             <title>{name}</title></rect>"
        ));
        legend.push_str(&format!("<li><i class=\"c{colour}\"></i>{name}</li>"));
        from += width;
    }
    let title = escape::html(title);
    format!(
        "<figure class=\"shares\"><figcaption>{title}</figcaption><svg viewBox=\"0 0 100 1\" \
         preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{title}\">{bar}</svg>\
         <ul class=\"legend\">{legend}</ul></figure>\n"
    )
}

/// Height of a bar.
const BAR: f64 = 12.0;
/// Space between the bars of one row and those of the next.
const GAP: f64 = 8.0;
/// Room for the names of rows.
const NAMES: f64 = 172.0;
/// Room for the number behind a bar.
const NUMBER: f64 = 52.0;

pub(super) struct Bars {
    /// Name before the bars.
    pub name: String,
    /// Value of each kind; `None`: nothing was measured.
    pub values: Vec<Option<f64>>,
}

/// A chart of bars from 0, a row for each name and a colour for each kind, with its title and
/// legend; nothing where all is zero.
pub(super) fn bars(title: &str, kinds: &[&str], rows: &[Bars]) -> String {
    let most = rows.iter().flat_map(|row| &row.values).flatten().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let (mut svg, mut top) = (String::new(), GAP / 2.0);
    for row in rows {
        let name = escape::html(&row.name);
        let middle = top + BAR * row.values.len() as f64 / 2.0 + 4.0;
        svg.push_str(&format!(
            "<text class=\"axis\" x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{name}</text>",
            NAMES - 8.0
        ));
        for (colour, value) in row.values.iter().enumerate() {
            if let Some(value) = value {
                let width = value / most * (WIDTH - NAMES - NUMBER);
                svg.push_str(&format!(
                    "<rect class=\"dot c{colour}\" x=\"{NAMES}\" y=\"{top:.1}\" \
                     width=\"{width:.1}\" height=\"{}\"/><text class=\"mark\" x=\"{:.1}\" \
                     y=\"{:.1}\">{}</text>",
                    BAR - 1.0,
                    NAMES + width + 5.0,
                    top + BAR - 2.0,
                    escape::html(&shown(*value))
                ));
            }
            top += BAR;
        }
        top += GAP;
    }
    let name = |(colour, kind): (usize, &&str)| {
        format!("<li><i class=\"c{colour}\"></i>{}</li>", escape::html(kind))
    };
    // The title says what a single kind is.
    let legend: String = kinds.iter().enumerate().filter(|_| kinds.len() > 1).map(name).collect();
    let title = escape::html(title);
    format!(
        "<figure><figcaption>{title}</figcaption><svg viewBox=\"0 0 {WIDTH} {top}\" role=\"img\" \
         aria-label=\"{title}\">{svg}</svg><ul class=\"legend\">{legend}</ul></figure>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_ends_before_its_number_and_what_is_unknown_has_none() {
        let row = |name: &str, values: [Option<f64>; 2]| {
            let values = values.to_vec();
            Bars { name: name.to_owned(), values }
        };
        let rows = [row("a<b>", [Some(4.0), None]), row("c", [Some(1.0), Some(2.0)])];
        let svg = bars("GiB/s", &["read", "write"], &rows);
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert!(svg.contains("a&lt;b&gt;") && svg.contains(">4.00</text>"), "{svg}");
        let longest = format!("width=\"{:.1}\"", WIDTH - NAMES - NUMBER);
        assert!(svg.contains(&longest), "{svg}");
        assert_eq!(bars("GiB/s", &["read"], &[row("d", [Some(0.0), None])]), "");
    }

    #[test]
    fn shares_lie_beside_each_other() {
        let part = |name: &str, share| Share { name: name.to_owned(), share };
        let bar = shares("time", &[part("space", 0.75), part("storage", 0.25)]);
        assert!(bar.contains("x=\"75.00\" width=\"25.00\""), "{bar}");
        assert!(bar.contains("space 75 %</li>"), "{bar}");
        assert_eq!(shares("time", &[]), "");
    }
}
