//! The markup of a page: its frame, and elements whose text is escaped here.

use ringfall_host::escape;

use crate::show::table::{Cell, Table};

const STYLE: &str = include_str!("style.css");

/// A page that is written from top to bottom.
pub(super) struct Html(String);

impl Html {
    pub(super) fn new(title: &str, heading: &str) -> Html {
        let (title, heading) = (escape::html(title), escape::html(heading));
        Html(format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <link rel=\"icon\" href=\"data:,\"><title>{title}</title><style>{STYLE}</style></head>\
             <body><main>\n<h1>{heading}</h1>"
        ))
    }

    /// Adds what is markup already.
    pub(super) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    fn element(&mut self, open: &str, text: &str, close: &str) {
        self.0.push_str(&format!("<{open}>{}</{close}>\n", escape::html(text)));
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.element("h2", text, "h2");
    }

    /// Adds a heading below others.
    pub(super) fn subheading(&mut self, text: &str) {
        self.element("h3", text, "h3");
    }

    /// Adds a line that says what a heading is of.
    pub(super) fn sub(&mut self, text: &str) {
        self.element("div class=\"sub\"", text, "div");
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.element("p", text, "p");
    }

    pub(super) fn paragraph_of(&mut self, class: &str, text: &str) {
        self.element(&format!("p class=\"{class}\""), text, "p");
    }

    /// Adds a command line of these words, as a shell takes them.
    pub(super) fn code<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) {
        let words: Vec<String> = words.into_iter().map(escape::shell).collect();
        self.element("pre", &words.join(" "), "pre");
    }

    /// Adds links to files beside the page.
    pub(super) fn links(&mut self, files: &[String]) {
        let links = files.iter().map(|file| {
            let file = escape::html(file);
            format!("<a href=\"{file}\">{file}</a>")
        });
        self.raw(&format!("<p>{}</p>\n", links.collect::<Vec<_>>().join(" · ")));
    }

    /// Begins what is shown only where its summary is clicked.
    pub(super) fn begin_details(&mut self, summary: &str) {
        self.raw("<details>");
        self.element("summary", summary, "summary");
    }

    pub(super) fn end_details(&mut self) {
        self.raw("</details>\n");
    }

    /// Adds a list; nothing where it is empty.
    pub(super) fn notes<T: AsRef<str>>(&mut self, notes: impl IntoIterator<Item = T>) {
        let items = notes.into_iter();
        let items = items.map(|note| format!("<li>{}</li>", escape::html(note.as_ref())));
        let items: String = items.collect();
        if !items.is_empty() {
            self.0.push_str(&format!("<ul class=\"notes\">{items}</ul>\n"));
        }
    }

    /// Adds the figures to see first, each with its label; numbers as `figure` writes them.
    pub(super) fn cards<C: Into<Cell>, L: AsRef<str>>(
        &mut self,
        figure: impl Fn(f64) -> String,
        cards: impl IntoIterator<Item = (C, L)>,
    ) {
        self.raw("<div class=\"cards\">");
        for (value, label) in cards {
            let (cell, label) = (value.into(), escape::html(label.as_ref()));
            let value = cell.html("b", "", &cell.told(&figure));
            self.0.push_str(&format!("<div class=\"card\">{value}<span>{label}</span></div>"));
        }
        self.raw("</div>\n");
    }

    /// Adds charts side by side.
    pub(super) fn charts(&mut self, charts: &str) {
        self.0.push_str(&format!("<div class=\"charts\">{charts}</div>\n"));
    }

    pub(super) fn table(&mut self, table: &Table) {
        self.raw(&table.html());
    }

    /// The page with its last line.
    pub(super) fn end(mut self, footer: &str) -> String {
        self.element("footer", footer, "footer");
        self.0 + "</main></body></html>\n"
    }
}
