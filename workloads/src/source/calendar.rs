//! Dates with a time of day, as traces of deployments have them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::shown;

/// Time since 1970, ns, of a date with a time such as `2023-11-16 18:17:03.9799600`,
/// `2024-05-10 00:00:00.009930+00:00` or `2026-06-01T10:00:00Z`; of one without an offset, as UTC.
pub(super) fn instant_ns(name: &str, text: &[u8]) -> Result<u64, String> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| {
        let with_offset = text.parse::<Timestamp>().ok();
        with_offset.or_else(|| TimeZone::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok())
    });
    let since_1970 = parsed.and_then(|instant| u64::try_from(instant.as_nanosecond()).ok());
    since_1970.ok_or_else(|| {
        format!("{name} is {}, not a time such as 2023-11-16 18:17:03.98", shown(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_all_published_forms() {
        // 19,677 days after 1970, and 1 h 2 min 3 s.
        let at_s = 19_677 * 86_400 + 3_723;
        for (text, ns) in [
            ("2023-11-16 01:02:03.9799600", 979_960_000),
            ("2023-11-16 01:02:03", 0),
            ("2023-11-16 01:02:03.009930+00:00", 9_930_000),
            ("2023-11-16 01:02:03+00:00", 0),
            ("2023-11-16 03:02:03.5+02:00", 500_000_000),
            ("2023-11-16T01:02:03.000000001Z", 1),
        ] {
            assert_eq!(instant_ns("t", text.as_bytes()), Ok(at_s * 1_000_000_000 + ns), "{text}");
        }
        for text in ["", "1234.5", "2023-13-16 01:02:03", "2023-11-16 25:00:00", "9999-01-01"] {
            let error = instant_ns("TIMESTAMP", text.as_bytes()).unwrap_err();
            assert!(error.starts_with(&format!("TIMESTAMP is \"{text}\", not a time")), "{error}");
        }
        assert!(instant_ns("t", b"1969-12-31 23:59:59").is_err(), "before 1970");
    }
}
