//! Requests of scrapers, read from the head of an HTTP/1.1 request, and the responses to them.

use super::text::TextFormat;

/// Longest head of a request, bytes: Prometheus sends a tenth of it.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
const PATH: &str = "/metrics";

/// Request for the metrics, or something else that was sent in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScrapeRequest {
    /// The metrics, in that format.
    Metrics(TextFormat),
    /// Something else than the metrics.
    OtherPath,
    /// The metrics, by another method than GET.
    OtherMethod,
    /// Bytes that are no request.
    Garbage,
    /// A head that is longer than [`HEAD_BYTES_MAX`].
    TooLong,
}

impl ScrapeRequest {
    /// Reads the head of a request, up to the empty line.
    pub fn parse(head: &[u8]) -> ScrapeRequest {
        let Ok(head) = std::str::from_utf8(head) else { return ScrapeRequest::Garbage };
        let mut lines = head.lines();
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, version] = words[..] else { return ScrapeRequest::Garbage };
        let is_method = !method.is_empty() && method.bytes().all(|c| c.is_ascii_uppercase());
        if !is_method || !version.starts_with("HTTP/1.") {
            return ScrapeRequest::Garbage;
        }
        if target.split('?').next() != Some(PATH) {
            return ScrapeRequest::OtherPath;
        }
        if method != "GET" {
            return ScrapeRequest::OtherMethod;
        }
        let headers = lines.filter_map(|line| line.split_once(':'));
        let accepted = headers.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
        ScrapeRequest::Metrics(format_of(accepted.flat_map(|(_, ranges)| ranges.split(','))))
    }

    /// Response to it, with `text` for the metrics of a format.
    pub fn response(self, text: impl FnOnce(TextFormat) -> String) -> Response {
        match self {
            ScrapeRequest::Metrics(format) => Response {
                status: "200 OK",
                content_type: format.content_type(),
                body: text(format),
            },
            ScrapeRequest::OtherPath => {
                Response::refusal("404 Not Found", "metrics are at /metrics")
            }
            ScrapeRequest::OtherMethod => Response::refusal(
                "405 Method Not Allowed\r\nAllow: GET",
                "metrics can only be read",
            ),
            ScrapeRequest::Garbage => {
                Response::refusal("400 Bad Request", "this is no HTTP/1.1 request")
            }
            ScrapeRequest::TooLong => Response::refusal(
                "431 Request Header Fields Too Large",
                "the head of a request may have 8 KiB",
            ),
        }
    }
}

/// Response to a request, after which the connection ends.
pub struct Response {
    /// Status line after the version, with the headers that belong to the status.
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Response {
    fn refusal(status: &'static str, why: &str) -> Response {
        let content_type = "text/plain; charset=utf-8";
        Response { status, content_type, body: format!("{why}\n") }
    }

    /// Bytes of the response, as they are sent.
    pub fn bytes(&self) -> Vec<u8> {
        let Response { status, content_type, body } = self;
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        text.into_bytes()
    }
}

/// The format for a client with these ranges in its `Accept` headers: OpenMetrics where one names
/// it, as Prometheus does ahead of its own.
fn format_of<'a>(mut ranges: impl Iterator<Item = &'a str>) -> TextFormat {
    let is_named = |range: &str| range.trim_start().starts_with("application/openmetrics-text");
    match ranges.any(is_named) {
        true => TextFormat::OpenMetrics,
        false => TextFormat::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::ScrapeRequest::{Garbage, Metrics, OtherMethod, OtherPath, TooLong};
    use super::TextFormat::{OpenMetrics, Plain};
    use super::*;

    #[test]
    fn requests_are_told_apart_and_garbage_is_none() {
        for (head, expected) in [
            (&b"GET /metrics HTTP/1.1\r\nHost: a\r\n"[..], Metrics(Plain)),
            (b"GET /metrics?a=b HTTP/1.0\r\n", Metrics(Plain)),
            (b"GET / HTTP/1.1\r\n", OtherPath),
            (b"GET /metricsX HTTP/1.1\r\n", OtherPath),
            (b"HEAD /metrics HTTP/1.1\r\n", OtherMethod),
            (b"POST /metrics HTTP/1.1\r\n", OtherMethod),
            (b"GET /metrics\r\n", Garbage),
            (b"GET  /metrics HTTP/1.1\r\n", Garbage),
            (b"PRI * HTTP/2.0\r\n", Garbage),
            (b"\x16\x03\x01\x02\x00\x01", Garbage),
            (b"", Garbage),
        ] {
            assert_eq!(ScrapeRequest::parse(head), expected, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn a_response_says_its_length_and_ends_the_connection() {
        for (request, status) in [
            (Metrics(Plain), "200"),
            (OtherPath, "404"),
            (OtherMethod, "405"),
            (Garbage, "400"),
            (TooLong, "431"),
        ] {
            let response = request.response(|_| "a 1\n".to_owned());
            let response = String::from_utf8(response.bytes()).unwrap();
            let (head, body) = response.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
            assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
            assert!(head.ends_with("\r\nConnection: close"), "{head}");
        }
    }

    #[test]
    fn the_accept_header_decides_about_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, expected) in [
            (prometheus, OpenMetrics),
            ("application/openmetrics-text", OpenMetrics),
            ("application/openmetrics-text; version=1.0.0, */*", OpenMetrics),
            ("text/html", Plain),
            ("*/*", Plain),
            ("", Plain),
        ] {
            let head = format!("GET /metrics HTTP/1.1\r\nHost: a\r\naccept:{accept}\r\n");
            assert_eq!(ScrapeRequest::parse(head.as_bytes()), Metrics(expected), "{accept}");
        }
        let none = b"GET /metrics HTTP/1.1\r\nHost: a\r\n";
        assert_eq!(ScrapeRequest::parse(none), Metrics(Plain));
    }
}
