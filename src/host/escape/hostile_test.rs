use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Texts that have broken some program.
const HOSTILE: &[&str] = &[
    "\n[global]\nexec_prerun=id",
    "\r\n",
    "=1+1",
    "@SUM(1)",
    "-2+3",
    "+cmd|' /C calc'!A0",
    "\t=1",
    ";=1",
    "\"",
    "'",
    "\"\"",
    ",",
    "<script>",
    "]]>",
    "&amp;",
    "--",
    "\u{1b}[31m",
    "\u{1b}]0;title\u{7}",
    "\u{9b}2J",
    "\r",
    "\u{202e}",
    "\u{2066}",
    "\u{0}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "\u{fffe}",
    "\u{ffff}",
    "_x0041_",
    "_x000D_",
    ": ",
    " #",
    "- ",
    "? ",
    "*a",
    "&a",
    "!!str",
    "|",
    ">",
    "%s",
    "%n",
    "${HOME}",
    "$(id)",
    "`id`",
    "\\",
    "\\n",
    "{",
    "}",
    "[",
    "]",
    "true",
    "null",
    "~",
    "1e5",
    "0x10",
    ".inf",
    "-5",
    "\\\n",
    "＝1",
    "include x",
    "file_service_type=random",
    "模型",
    "🦀",
];

/// Such texts and others, put together at random.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        proptest::sample::select(HOSTILE).prop_map(str::to_owned),
        any::<String>(),
        "[ -~]{0,20}",
        "[a-z]{300}",
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// A job's sections and keys as fio has them: by lines of at most 4095 bytes.
fn fio_lines(job: &str) -> Vec<String> {
    let lines = job.as_bytes().split_inclusive(|&byte| byte == b'\n' || byte == b'\r');
    let cut = lines.flat_map(|line| line.chunks(4095));
    let text = cut.map(|line| String::from_utf8_lossy(line).trim().to_owned());
    text.filter(|line| !line.is_empty() && !line.starts_with([';', '#'])).collect()
}

fn cells(text: &str) -> Vec<Vec<String>> {
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let row =
        |row: Result<::csv::StringRecord, _>| row.unwrap().iter().map(str::to_owned).collect();
    reader.records().map(row).collect()
}

proptest! {
    #[test]
    fn fio_sees_one_value_and_no_new_line(text in hostile()) {
        let value = fio(&text);
        let job = format!("; a run of {value}\n[ringfall]\ndescription={value}\n");
        let lines = fio_lines(&job);
        prop_assert_eq!(lines.len(), 2, "{:?}", lines);
        prop_assert_eq!(&lines[0], "[ringfall]");
        prop_assert!(value.len() <= 256);
        prop_assert!(!value.contains(['$', '`', '\\', '=', '[', ']', ';', '#', '\n', '\r']));
    }

    #[test]
    fn csv_reads_back_as_the_same_cells_and_none_begins_a_formula(
        texts in proptest::collection::vec(hostile(), 1..5)
    ) {
        let guarded: Vec<String> = texts.iter().map(|text| csv(text)).collect();
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        // A mark of the encoding at the very beginning would be taken for one.
        writer.write_record(guarded.iter().map(|_| "name")).unwrap();
        writer.write_record(&guarded).unwrap();
        let written = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        prop_assert_eq!(&cells(&written)[1..], std::slice::from_ref(&guarded));
        for (cell, text) in guarded.iter().zip(&texts) {
            // Apostrophes were added, what is hidden was made visible, and nothing else was done.
            let text = visible(text, |c| "\t\r\n".contains(c));
            prop_assert_eq!(cell.replace('\'', ""), text.replace('\'', ""));
            let is_number = cell.parse::<f64>().is_ok();
            for part in cell.split([';', '\t', '\r', '\n', '|']) {
                let part = part.trim_start_matches(|c: char| {
                    c.is_whitespace() || is_hidden(c) || c == '"'
                });
                let begins = part.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
                prop_assert!(is_number || !begins, "{:?} of {:?}", part, text);
            }
        }
    }

    #[test]
    fn yaml_reads_back_as_the_same_text(text in hostile()) {
        let scalar = yaml(&text);
        prop_assert!(!scalar.contains(['\n', '\r']));
        let page = format!("  the first: {scalar}\n  {} [{scalar}, b]\n", yaml_key(&text, 2));
        let read: Value = serde_saphyr::from_str(&page)
            .map_err(|error| TestCaseError::fail(format!("{page}: {error}")))?;
        prop_assert_eq!(&read["the first"], &Value::String(text.clone()));
        prop_assert_eq!(&read[&text][0], &Value::String(text.clone()));
    }

    #[test]
    fn html_has_no_markup_and_nothing_hidden(text in hostile()) {
        let safe = html(&text);
        prop_assert!(!safe.contains(['<', '>', '"', '\'']));
        prop_assert!(safe.chars().all(|c| !is_hidden(c) || c == '\n' || c == '\t'));
        for entity in safe.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            prop_assert!(known.iter().any(|name| entity.starts_with(name)), "{safe}");
        }
    }

    #[test]
    fn a_terminal_has_nothing_to_obey(text in hostile()) {
        let shown = terminal(&text);
        prop_assert!(!shown.chars().any(is_hidden), "{:?}", shown);
        prop_assert_eq!(&terminal(&shown), &shown, "escaping again changes nothing");
        let page = terminal_page(&text);
        prop_assert!(!page.chars().any(|c| is_hidden(c) && c != '\n'), "{:?}", page);
        prop_assert_eq!(page.lines().count(), text.split('\n').count()
            - usize::from(text.is_empty() || text.ends_with('\n')));
    }

    #[test]
    fn json_on_a_terminal_says_the_same_and_is_not_obeyed(text in hostile()) {
        let value = serde_json::json!({ &text: [&text, 1] });
        let page = json(&serde_json::to_string_pretty(&value).unwrap());
        prop_assert!(!page.chars().any(|c| is_hidden(c) && c != '\n'), "{:?}", page);
        prop_assert_eq!(serde_json::from_str::<Value>(&page).unwrap(), value);
    }

    #[test]
    fn a_label_of_a_metric_ends_neither_itself_nor_its_line(text in hostile()) {
        let value = prometheus(&text);
        prop_assert!(!value.contains('\n'));
        // Read as both formats say: an escape is two characters, and a bare quote is the end.
        let (mut read, mut rest) = (String::new(), value.chars());
        while let Some(c) = rest.next() {
            prop_assert_ne!(c, '"');
            read.push(match c {
                '\\' => match rest.next() {
                    Some('n') => '\n',
                    Some(c @ ('\\' | '"')) => c,
                    other => return Err(TestCaseError::fail(format!("{other:?} in {value}"))),
                },
                c => c,
            });
        }
        prop_assert_eq!(read, text);
    }

    #[test]
    fn bpftrace_keeps_the_text_within_its_quotes(text in hostile()) {
        let literal = bpftrace(&text);
        let special = ['"', '\n', '{', '}', '$', '@'];
        prop_assert!(literal.is_ascii() && !literal.contains(special));
        // Read as bpftrace and then printf would.
        let (mut bytes, mut rest) = (Vec::new(), literal.as_bytes());
        while let Some((&first, after)) = rest.split_first() {
            let (byte, after) = match first {
                b'\\' => {
                    let digits = std::str::from_utf8(&after[..3]).unwrap();
                    (u8::from_str_radix(digits, 8).unwrap(), &after[3..])
                }
                b'%' => {
                    prop_assert_eq!(after.first(), Some(&b'%'));
                    (b'%', &after[1..])
                }
                other => (other, after),
            };
            bytes.push(byte);
            rest = after;
        }
        prop_assert_eq!(bytes, text.as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_workbook_reads_back_as_the_same_cells(
        texts in proptest::collection::vec(hostile(), 1..5)
    ) {
        use calamine::{Data, Reader as _};
        let cells: Vec<String> = texts.iter().map(|text| xlsx(text)).collect();
        let mut book = rust_xlsxwriter::Workbook::new();
        let sheet = book.add_worksheet();
        for (row, cell) in (0..).zip(&cells) {
            sheet.write_string(row, 0, cell).unwrap();
            sheet.write_number(row, 1, 1.0).unwrap();
        }
        let bytes = book.save_to_buffer().unwrap();
        let bytes = std::io::Cursor::new(bytes);
        let mut read: calamine::Xlsx<_> = calamine::Reader::new(bytes).unwrap();
        let range = read.worksheet_range("Sheet1").unwrap();
        let formulas = read.worksheet_formula("Sheet1").unwrap();
        prop_assert!(formulas.is_empty(), "{:?}", formulas);
        for (row, cell) in (0..).zip(&cells) {
            match range.get_value((row, 0)) {
                Some(Data::String(read)) => prop_assert_eq!(read, cell),
                other => prop_assert!(cell.is_empty(), "{:?} for {:?}", other, cell),
            }
        }
    }
}

#[test]
fn ordinary_names_stay_as_they_are() {
    for name in ["llama3.1-70b", "Samsung SSD 990 PRO 2TB", "模型-7b"] {
        assert_eq!(fio(name), name);
        assert_eq!(csv(name), name);
        assert_eq!(xlsx(name), name);
        assert_eq!(html(name), name);
        assert_eq!(prometheus(name), name);
        assert_eq!(terminal(name), name);
    }
    assert_eq!(yaml("llama3.1-70b"), "llama3.1-70b");
    assert_eq!(yaml("a'b"), "\"a'b\"");
    for number in ["-5", "+0.5", "-1e-9", "3"] {
        assert_eq!(csv(number), number);
    }
    assert_eq!(csv("-5+cmd"), "'-5+cmd");
    // A table is also shown on a terminal.
    assert_eq!(csv("a\u{1b}[31mb\u{202e}\tc\nd"), "a\\u{1b}[31mb\\u{202e}\tc\nd");
}

#[test]
fn a_cell_too_long_for_a_workbook_is_cut() {
    let long = "🦀".repeat(20_000);
    let cell = xlsx(&long);
    assert!(long.starts_with(&cell) && cell.encode_utf16().count() == 32_766);
}

#[test]
fn words_are_quoted_where_a_shell_would_see_more_than_a_word() {
    assert_eq!(shell("/mnt/nvme0/kv-1"), "/mnt/nvme0/kv-1");
    assert_eq!(shell("/mnt/a b"), "'/mnt/a b'");
    assert_eq!(shell("/mnt/$(reboot)`x`;y"), "'/mnt/$(reboot)`x`;y'");
    assert_eq!(shell("it's"), "'it'\\''s'");
    assert_eq!(shell(""), "''");
    assert_eq!(shell("a\nb"), "'a\nb'");
    assert_eq!(shell("~root"), "'~root'");
}
