//! Bars as SVG: parts of a whole beside each other.

use ringfall_host::escape;

use super::chart::COLOURS;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_lie_beside_each_other() {
        let part = |name: &str, share| Share { name: name.to_owned(), share };
        let bar = shares("time", &[part("space", 0.75), part("storage", 0.25)]);
        assert!(bar.contains("x=\"75.00\" width=\"25.00\""), "{bar}");
        assert!(bar.contains("space 75 %</li>"), "{bar}");
        assert_eq!(shares("time", &[]), "");
    }
}
