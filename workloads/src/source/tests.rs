//! Good files and bad files for every reader; `tests/fuzz` has the noise.

use super::tokenizer::estimate;
use super::*;
use crate::conversation::Turn;

const BURST: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                     5,ChatGPT,472,18,490,Conversation log\n\
                     45,ChatGPT,1087,230,1317,Conversation log\n\
                     118,GPT-4,417,276,693,Conversation log\n";

fn burst(text: &[u8]) -> Result<(Vec<Row>, Skipped), Error> {
    all(BurstGpt::new(text)?)
}

fn mooncake(text: &[u8]) -> Result<(Vec<Row>, Skipped), Error> {
    all(Mooncake::new(text))
}

fn all(mut rows: impl Rows) -> Result<(Vec<Row>, Skipped), Error> {
    let mut seen = Vec::new();
    while let Some(row) = rows.next_row()? {
        seen.push(row);
    }
    Ok((seen, rows.skipped()))
}

fn limits(conversations_max: u32) -> ShareGptLimits {
    ShareGptLimits {
        memory_bytes_max: 1 << 20,
        conversations_max,
        count_tokens: estimate,
        context_tokens_max: 8_192,
        generate_tokens_max: 2_048,
    }
}

#[test]
fn burstgpt_columns_are_found_by_name_in_both_published_forms() {
    let (rows, skipped) = burst(BURST.as_bytes()).unwrap();
    assert_eq!((rows.len(), skipped.rows), (3, 0));
    assert_eq!((rows[1].timestamp_ns, rows[1].context_tokens), (45_000_000_000, 1087));
    assert_eq!((rows[2].generate_tokens, rows[2].session), (276, None));
    let sessions = "\u{feff}Timestamp,Session ID,Elapsed time,Model,Request tokens,\
                    Response tokens,Total tokens,Log Type\r\n\
                    1.5,abc,3,GPT-4,10,20,30,API log\r\n\
                    2.5,\"abc\",3,GPT-4,11,21,32,API log\r\n\
                    3.5,x,3,GPT-4,0,21,32,API log\r\n";
    let (rows, skipped) = burst(sessions.as_bytes()).unwrap();
    assert_eq!((rows.len(), skipped.rows), (3, 0));
    assert_eq!(rows[0].timestamp_ns, 1_500_000_000);
    assert!(rows[0].session.is_some() && rows[0].session == rows[1].session);
    assert_ne!(rows[1].session, rows[2].session);
    assert_eq!(rows[2].context_tokens, 0);
}

#[test]
fn rows_that_do_not_parse_are_counted_and_the_first_is_told() {
    let text = format!("{BURST}oops\n1,GPT,-5,3,1,x\n1,GPT,1e300,3,1,x\nNaN,GPT,1,3,1,x\n\n");
    let (rows, skipped) = burst(text.as_bytes()).unwrap();
    assert_eq!((rows.len(), skipped.rows), (3, 4));
    let first = skipped.first.unwrap();
    assert!(first.contains("line 5") && first.contains("Timestamp is \"oops\""), "{first}");

    let text = "{\"timestamp\":0,\"input_length\":513,\"output_length\":1,\"hash_ids\":[1,2]}\n\
                {\"timestamp\":1,\"input_length\":513,\"output_length\":1,\"hash_ids\":[1]}\n\
                {\"timestamp\":-1,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n\
                {\"timestamp\":1,\"input_length\":-9,\"output_length\":1,\"hash_ids\":[1]}\n\
                {\"timestamp\":1,\"input_length\":1e99,\"output_length\":1,\"hash_ids\":[1]}\n\
                {\"timestamp\":1,\"input_length\":1,\"output_length\":1,\
                \"hash_ids\":[9999999999999999999]}\n\
                {\"timestamp\":5,\"inp";
    let (rows, skipped) = mooncake(text.as_bytes()).unwrap();
    assert_eq!((rows.len(), skipped.rows), (1, 6));
    assert_eq!(rows[0].blocks.as_deref(), Some(&[1, 2][..]));
    let first = skipped.first.unwrap();
    assert!(first.starts_with("line 2: input_length is 513"), "{first}");
    assert!(first.contains("the line is \"{\\\"timestamp\\\":1,"), "{first}");
}

#[test]
fn a_trace_of_another_kind_is_shown_and_named_where_it_is_known() {
    let (_, skipped) = mooncake(b"{\"id\":\"x\",\"requests\":[{\"t\":0},{\"t\":1}]}\n").unwrap();
    let first = skipped.first.unwrap();
    assert!(first.contains("kv-cache-tester") && first.contains("hash_ids"), "{first}");
    let (_, skipped) = mooncake(b"\nnot json\n").unwrap();
    let first = skipped.first.unwrap();
    assert!(first.starts_with("line 2: ") && first.contains("at column 2; "), "{first}");
    assert!(first.ends_with("the line is \"not json\"") && !first.contains("line 1"), "{first}");
}

const QWEN: &str = include_str!("../../../tests/data/qwen_made.jsonl");
const SESSIONS: &str = include_str!("../../../tests/data/sessions_made.jsonl");

fn named(format: TraceFormat, text: &str) -> (Vec<Row>, Skipped) {
    all_of(format.rows(std::io::Cursor::new(text.to_owned())).unwrap())
}

fn all_of(mut rows: Box<dyn Rows>) -> (Vec<Row>, Skipped) {
    let mut seen = Vec::new();
    while let Some(row) = rows.next_row().unwrap() {
        seen.push(row);
    }
    (seen, rows.skipped())
}

#[test]
fn qwen_blocks_are_those_before_them_too_and_conversations_are_followed() {
    let (rows, skipped) = named(TraceFormat::Qwen, QWEN);
    assert_eq!((rows.len(), skipped.rows), (6, 0));
    assert_eq!((rows[1].timestamp_ns, rows[1].context_tokens), (4_500_000_000, 72));
    let blocks = |at: usize| rows[at].blocks.as_deref().unwrap();
    assert_eq!(blocks(0)[..2], blocks(1)[..2]);
    assert_eq!(blocks(0), blocks(5));
    // 11 after nothing and after 10, and 10 after 11.
    assert!(blocks(2).iter().all(|key| !blocks(1).contains(key)));
    let sessions: Vec<u64> = rows.iter().map(|row| row.session.unwrap()).collect();
    assert!(sessions[0] == sessions[1] && sessions[0] == sessions[3]);
    assert!([2, 4, 5].iter().all(|&at| sessions[at] != sessions[0]));
    // Zeros count, however many there are.
    let zeros = |ids: &str| {
        let row = format!(
            "{{\"chat_id\":1,\"parent_chat_id\":-1,\"timestamp\":0,\"input_length\":48,\
             \"output_length\":1,\"hash_ids\":{ids}}}"
        );
        named(TraceFormat::Qwen, &row).0[0].blocks.clone().unwrap()
    };
    let keys = zeros("[0,0,0]");
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    assert_eq!(zeros("[0,0]")[..], keys[..2]);
}

#[test]
fn a_session_and_its_subagents_share_ids_and_another_session_does_not() {
    let (rows, skipped) = named(TraceFormat::Sessions, SESSIONS);
    let tokens: Vec<u32> = rows.iter().map(|row| row.context_tokens).collect();
    assert_eq!((&tokens[..], skipped.rows), (&[150, 130, 200, 200, 128, 190][..], 0));
    let blocks = |at: usize| rows[at].blocks.as_deref().unwrap();
    assert_eq!(blocks(0)[0], blocks(1)[0]);
    assert_eq!(blocks(0), &blocks(3)[..2]);
    assert_ne!(blocks(0), blocks(4));
    assert_eq!(blocks(4), blocks(5));
    assert_eq!(rows[0].session, rows[2].session);
    assert_ne!(rows[0].session, rows[4].session);
}

#[test]
fn sessions_and_requests_that_do_not_parse_are_counted() {
    let request = "{\"t\":0,\"in\":128,\"out\":1,\"hash_ids\":[1,2]}";
    let text = format!(
        "{{\"id\":1,\"block_size\":32,\"requests\":[{request}]}}\n\
         {{\"id\":2,\"hash_id_scope\":\"model\",\"requests\":[{request}]}}\n\
         {{\"requests\":[{request}]}}\n\noops\n\
         {{\"id\":3,\"requests\":[{request},{{\"t\":1,\"in\":64,\"hash_ids\":[1,2]}},\
         {{\"t\":2,\"in\":64}},{{\"t\":3,\"type\":\"subagent\"}},{request},\
         {{\"t\":4,\"in\":-64,\"hash_ids\":[1]}}]}}\n\
         {{\"id\":4,\"requests\":[{request}"
    );
    let (rows, skipped) = named(TraceFormat::Sessions, &text);
    assert_eq!((rows.len(), skipped.rows), (2, 8));
    let first = skipped.first.unwrap();
    assert!(
        first.starts_with("line 1: block_size is 32 and hash_id_scope \"local\", and"),
        "{first}"
    );
    for (part, told) in [
        (
            text.lines().nth(1).unwrap(),
            "line 1: block_size is 64 and hash_id_scope \"model\", and only 64",
        ),
        (text.lines().nth(2).unwrap(), "line 1: missing field `id` at column"),
        (text.lines().nth(4).unwrap(), "line 1: expected value at column 1; the line is \"oops\""),
        (text.lines().nth(5).unwrap(), "line 1: request 2: in is 64, but 2 hash_ids are given"),
        (text.lines().nth(6).unwrap(), "line 1: EOF while parsing"),
    ] {
        let first = named(TraceFormat::Sessions, part).1.first.unwrap();
        assert!(first.starts_with(told), "{told}: {first}");
    }
}

#[test]
fn a_file_is_one_session_on_many_lines_or_has_one_a_line() {
    let (rows, _) = named(TraceFormat::Sessions, SESSIONS);
    let first = SESSIONS.lines().next().unwrap();
    let session: serde_json::Value = serde_json::from_str(first).unwrap();
    let (many_lines, skipped) = named(TraceFormat::Sessions, &format!("{session:#}"));
    assert_eq!((&many_lines[..], skipped.rows), (&rows[..4], 0));
}

/// The first row of a file that an editor had saved with a byte order mark was skipped.
#[test]
fn a_byte_order_mark_costs_no_row() {
    let row = "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n";
    for text in [row.repeat(2), format!("\u{feff}{row}{row}")] {
        let (rows, skipped) = mooncake(text.as_bytes()).unwrap();
        assert_eq!((rows.len(), skipped.rows), (2, 0), "{:?}", skipped.first);
    }
    // One in the middle is what it always was: no row.
    let (rows, skipped) = mooncake(format!("{row}\u{feff}{row}").as_bytes()).unwrap();
    assert_eq!((rows.len(), skipped.rows), (1, 1));
}

#[test]
fn a_trace_that_is_a_json_array_is_told_how_to_be_converted() {
    let row = "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}";
    for text in [format!("[{row},{row}]"), format!("[\n  {row},\n  {row}\n]\n")] {
        let (_, skipped) = mooncake(text.as_bytes()).unwrap();
        let first = skipped.first.unwrap();
        assert!(first.contains("`jq -c '.[]' FILE`"), "{first}");
    }
}

#[test]
fn a_format_is_recognised_by_the_keys_or_columns_of_the_first_row() {
    let mooncake = "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n";
    for (text, format) in [
        (mooncake, TraceFormat::Mooncake),
        (QWEN, TraceFormat::Qwen),
        (SESSIONS, TraceFormat::Sessions),
        ("\n {\n\"id\": 1,\n \"requests\": [{\"hash_ids\": [1", TraceFormat::Sessions),
        ("\u{feff}{\"timestamp\":0,\"hash_ids\":[1]}", TraceFormat::Mooncake),
        (BURST, TraceFormat::BurstGpt),
        (AZURE, TraceFormat::Azure),
        ("\u{feff}TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\r\n", TraceFormat::Azure),
        (COPILOT, TraceFormat::Copilot),
        // Later rows, values, and keys within others are those of nothing.
        (&format!("{mooncake}{{\"note\":\"chat_id\",\"hash_ids\":[]}}"), TraceFormat::Mooncake),
        (&format!("{mooncake}{QWEN}"), TraceFormat::Mooncake),
        (&format!("{QWEN}{SESSIONS}"), TraceFormat::Qwen),
        (
            "{\"note\":\"chat_id\",\"\\\"requests\":{\"chat_id\":{}},\"hash_ids\":[{}],\
              \"timestamp\" :0}",
            TraceFormat::Mooncake,
        ),
    ] {
        assert_eq!(TraceFormat::recognise(text.as_bytes()), Ok(format), "{text}");
    }
    for (text, part) in [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("Timestamp,Tokens\n1,2\n", "the row is \"Timestamp,Tokens\""),
        ("{\"hash_ids\":[1]}", "traces of Mooncake, of Qwen-Bailian, of kv-cache-tester"),
        ("{\"session_id\":\"s\",\"input\":[]}", "no known format"),
        (&format!("{{}}\n{mooncake}"), "the row is \"{}\": remove it if a trace follows"),
        (&format!("oops\n{mooncake}"), "name the format to `ringfall trace` (--format)"),
        (&format!("{{\"id\":[1,\n{mooncake}"), "no known format"),
        ("\u{feff}", "it is empty"),
        ("\u{feff}[{\"hash_ids\":[1],\"timestamp\":0}]", "a JSON array, and a trace has one"),
    ] {
        let error = TraceFormat::recognise(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

const AZURE: &str = include_str!("../../../tests/data/azure_made.csv");
const COPILOT: &str = include_str!("../../../tests/data/copilot_made.jsonl");

#[test]
fn azure_s_rows_are_read_with_times_of_all_its_traces() {
    let (rows, skipped) = named(TraceFormat::Azure, AZURE);
    assert_eq!((rows.len(), skipped.rows), (5, 0));
    let since_first = |at: usize| rows[at].timestamp_ns - rows[0].timestamp_ns;
    assert_eq!([1, 2, 4].map(since_first), [52_000_000, 600_000_000, 2_020_100_000]);
    let tokens = rows.iter().map(|row| (row.context_tokens, row.generate_tokens));
    assert_eq!(tokens.collect::<Vec<_>>(), [(4808, 10), (3180, 8), (110, 27), (7433, 14), (34, 0)]);
    assert!(rows.iter().all(|row| row.session.is_none() && row.blocks.is_none()));

    let multimodal = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n\
                      2024-10-15 00:00:01.5+00:00,2,900,30\nlater,1,5,5\n\
                      2024-10-15 00:00:02+00:00,1,-5,5\n2024-10-15 00:00:02+00:00,1\n\
                      2024-10-15 00:00:02+00:00,1,5,7.5\n";
    let (rows, skipped) = named(TraceFormat::Azure, multimodal);
    assert_eq!((rows[0].context_tokens, rows[0].generate_tokens), (900, 30));
    assert_eq!((rows.len(), skipped.rows), (1, 4));
    let first = skipped.first.unwrap();
    assert!(first.starts_with("line 3: TIMESTAMP is \"later\", not a time such as"), "{first}");
    let error = TraceFormat::Azure.rows(BURST.as_bytes()).err().unwrap().to_string();
    assert!(error.contains("line 1 is") && error.contains("ContextTokens"), "{error}");
}

#[test]
fn copilot_s_calls_have_the_tokens_that_were_cached() {
    let (rows, skipped) = named(TraceFormat::Copilot, COPILOT);
    assert_eq!((rows.len(), skipped.rows), (5, 0));
    let tokens: Vec<_> =
        rows.iter().map(|row| (row.context_tokens, row.cached_tokens.unwrap())).collect();
    // Those of the second turn by their time; the one without a prompt is left out.
    assert_eq!(tokens, [(1000, 0), (1500, 1000), (2000, 1500), (1800, 0), (700, 600)]);
    assert_eq!(rows[1].timestamp_ns - rows[0].timestamp_ns, 2_500_000_000);
    assert!(rows[..4].iter().all(|row| row.session == rows[0].session));
    assert_ne!(rows[4].session, rows[0].session);

    let call = |prompt: &str, cached: u32, at: &str| {
        format!("{{\"timestamp\":\"{at}\",\"tokens\":{{\"prompt\":{prompt},\"cached\":{cached}}}}}")
    };
    // A number that is none of tokens cost the session all of its calls.
    let at = "2026-06-01T10:00:00Z";
    for (bad, told) in [
        (call("5", 6, at), "cached is 6, more than the prompt's 5 tokens"),
        (call("5", 5, "x"), "timestamp is \"x\", not a time such as"),
        (call("-1", 0, at), "prompt is -1, not a number of tokens"),
        (call("7.5", 0, at), "prompt is 7.5, not a number of tokens"),
    ] {
        let calls = [bad, call("5", 5, at)].join(",");
        let text = format!(
            "{{\"session_id\":\"s\",\"turns\":[{{\"llm_calls\":[{calls}]}},{{}}]}}\n\
             {{\"turns\":[]}}\n"
        );
        let (rows, skipped) = named(TraceFormat::Copilot, &text);
        assert_eq!((rows.len(), skipped.rows), (1, 2), "{told}");
        let first = skipped.first.unwrap();
        assert!(first.starts_with(&format!("line 1: call 1: {told}")), "{first}");
    }
}

/// A request brings what was not found, and reads what its session brought since a cache had none
/// of it.
#[test]
fn a_request_of_a_copilot_trace_brings_the_tokens_that_were_not_cached() {
    let open: Open = Box::new(|_| TraceFormat::Copilot.rows(COPILOT.as_bytes()));
    let mut stream = Stream::new(open, 1, settings(Pace::NoGaps, 1));
    let requests: Vec<SourceRequest> =
        std::iter::from_fn(|| stream.next_request().unwrap()).collect();
    let seen: Vec<_> =
        requests.iter().map(|request| (request.turn, request.context_tokens)).collect();
    let (begins, goes_on) = (Turn::Number(0), Turn::Next);
    assert_eq!(
        seen,
        [(begins, 1000), (goes_on, 500), (goes_on, 500), (begins, 1800), (goes_on, 100)]
    );
    assert!(requests[..4].iter().all(|request| request.user == requests[0].user));
}

/// A file's tokens are told as they are; a run serves at least one.
#[test]
fn a_request_without_tokens_has_none_in_its_file_and_one_in_a_run() {
    let served = |format: TraceFormat, text: &'static str| {
        let open: Open = Box::new(move |_| format.rows(text.as_bytes()));
        let mut stream = Stream::new(open, 1, settings(Pace::NoGaps, 1));
        let requests = std::iter::from_fn(|| stream.next_request().unwrap());
        let tokens = requests.map(|request| (request.context_tokens, request.generate_tokens));
        (tokens.collect::<Vec<_>>(), stream.digest())
    };
    let burst = "Timestamp,Request tokens,Response tokens\n1,5,0\n2,0,5\n3,0,0\n";
    let mooncake = "{\"timestamp\":1000,\"input_length\":5,\"output_length\":0,\"hash_ids\":[1]}\n\
                    {\"timestamp\":2000,\"input_length\":0,\"output_length\":5,\"hash_ids\":[]}\n\
                    {\"timestamp\":3000,\"input_length\":0,\"output_length\":0,\"hash_ids\":[1]}\n";
    for (format, text) in [(TraceFormat::BurstGpt, burst), (TraceFormat::Mooncake, mooncake)] {
        let (rows, skipped) = named(format, text);
        let tokens: Vec<_> =
            rows.iter().map(|row| (row.context_tokens, row.generate_tokens)).collect();
        assert_eq!((&tokens[..], skipped), (&[(5, 0), (0, 5), (0, 0)][..], Skipped::default()));
        assert_eq!(served(format, text).0, [(5, 1), (1, 5), (1, 1)], "{format:?}");
    }
    let one_each = "Timestamp,Request tokens,Response tokens\n1,5,1\n2,1,5\n3,1,1\n";
    let runs = [burst, one_each].map(|text| served(TraceFormat::BurstGpt, text));
    assert_eq!(runs[0], runs[1], "one workload, which has one digest");
}

#[test]
fn a_file_that_is_no_burstgpt_trace_says_so() {
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let long = vec![b'x'; 10 << 20];
    for (text, part) in [
        (&b""[..], "it is empty"),
        (b"a,b,c\n1,2,3\n", "line 1 is \"a,b,c\""),
        (&binary, "line 1 is"),
        (&long, "line 1: it is longer than"),
    ] {
        let error = burst(text).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("Timestamp"), "{error}");
        assert!(error.len() < 500, "{error}");
    }
}

#[test]
fn what_is_no_array_of_conversations_is_shown_with_its_place() {
    let of = |text: &str| read_sharegpt(text.as_bytes(), &limits(0)).unwrap_err().to_string();
    let text = of("{\"a\":\n 1}");
    for part in ["expected an array", "begins with \"{\\\"a\\\": 1}\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(of("version x\n").contains("begins with \"version x\""), "{}", of("version x"));
    let later = of("[\n{\"conversations\": []},\n{\"conversations\" 1}]");
    assert!(later.contains("at line 3 column 18") && !later.contains("begins"), "{later}");
}

#[test]
fn sharegpt_pairs_are_turns_cut_to_their_limits() {
    let long = "x".repeat(50_000);
    let text = format!(
        r#"[{{"id":"a","conversations":[
              {{"from":"human","value":"12345678"}},{{"from":"gpt","value":"123"}},
              {{"from":"gpt","value":"again"}},
              {{"from":"human","value":"{long}"}},{{"from":"gpt","value":"{long}"}}]}},
            {{"id":"b","conversations":[{{"from":"gpt","value":"alone"}}]}},
            {{"id":"c"}}, 7,
            {{"id":"d","conversations":[
              {{"from":"human","value":"q"}},{{"from":"gpt","value":"a"}}]}}]"#
    );
    let (dataset, skipped) = read_sharegpt(text.as_bytes(), &limits(0)).unwrap();
    assert_eq!((dataset.len(), dataset.turns(0), skipped.rows), (2, 2, 3));
    assert!(skipped.first.unwrap().starts_with("conversation 2:"));
    let turn = dataset.turn(0, 0);
    assert_eq!((turn.context_tokens, turn.generate_tokens), (2, 1));
    let turn = dataset.turn(0, 1);
    assert_eq!((turn.context_tokens, turn.generate_tokens), (8_192, 2_048));
    // The rest of the file does not matter once there are enough.
    let cut = &text[..text.len() - 40];
    assert_eq!(read_sharegpt(cut.as_bytes(), &limits(1)).unwrap().0.len(), 1);
    let error = read_sharegpt(cut.as_bytes(), &limits(0)).unwrap_err().to_string();
    assert!(error.contains("line") && error.contains("column"), "{error}");
}

#[test]
fn a_dataset_that_is_none_says_so() {
    for (text, part) in [
        (&b""[..], "EOF while parsing"),
        (b"{\"a\":1}", "expected an array of conversations"),
        (b"[]", "it is empty"),
        (b"[{}]", "conversation 1: missing field"),
        (b"\x00\xff\xfe", "line 1 column 1"),
    ] {
        let error = read_sharegpt(text, &limits(0)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn validation_traces_are_csv_or_json_by_line_or_an_array() {
    for text in [
        "id,cache_hit\n1,true\n2,False\n3,1\n4,what\n5,0\n",
        "{\"cache_hit\":true}\n{\"cache_hit\":false,\"x\":1}\n{\"cache_hit\":1}\n{}\n\
         {\"cache_hit\":\"miss\"}\n",
        "[\n{\"cache_hit\":true},\n{\"cache_hit\":false},\n{\"cache_hit\":1},\n{},\n\
         {\"cache_hit\":0}\n]\n",
        " [{\"cache_hit\": true, \"a\": [1, {}]}, {\"cache_hit\": false},\n\n  {\n\"cache_hit\": \
         true\n}, 7, {\"cache_hit\": \"miss\"}]",
    ] {
        let trace = read_validation(text.as_bytes()).unwrap();
        assert_eq!((trace.requests, trace.hits, trace.skipped.rows), (4, 2, 1), "{text}");
    }
    for text in ["", "a,b\n1,2\n", "cache_hit\nmaybe\n", "{}\n", "\u{0}\u{1}", "[]", "[{}]"] {
        let error = read_validation(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("cache_hit"), "{error}");
    }
    for text in ["[{\"cache_hit\":true},", "[{\"cache_hit\":true}] x", "[{\"cache_hit\":true} 1]"] {
        let error = read_validation(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("not a whole JSON array") && error.contains("column"), "{error}");
    }
    let endless = std::iter::repeat_n(b'x', 3 << 20);
    let text: Vec<u8> = b"[{\"cache_hit\":true},\"".iter().copied().chain(endless).collect();
    let error = read_validation(&text[..]).unwrap_err().to_string();
    assert!(error.contains("a row of more than 1048576 bytes"), "{error}");
}

#[test]
fn a_validation_trace_in_the_reference_s_form_has_tokens_bytes_and_latencies() {
    let row = |hit: bool, read: u64, written: u64| {
        format!(
            "{{\"timestamp\": 0.5, \"request_id\": \"r\", \"user_id\": \"u\", \
             \"context_tokens\": {}, \"generation_tokens\": 50, \"phase\": \"decode\", \
             \"cache_hit\": {hit}, \"cache_tier\": \"nvme\", \"read_bytes\": {read}, \
             \"write_bytes\": {written}, \"read_latency_ms\": 1.5, \
             \"write_latency_ms\": 2.5, \"model_name\": \"m\"}}",
            read / 10
        )
    };
    let json = format!("[{}, {}]", row(true, 3_000, 0), row(false, 1_000, 500));
    let csv = "cache_hit,read_bytes,WRITE_BYTES,context_tokens,generation_tokens,read_latency_ms,\
               write_latency_ms\ntrue,3000,0,300,50,1.5,2.5\nfalse,1000,500,100,50,1.5,2.5\n";
    for text in [&*json, csv] {
        let trace = read_validation(text.as_bytes()).unwrap();
        assert_eq!((trace.requests, trace.hits, trace.skipped.rows), (2, 1, 0), "{text}");
        assert_eq!(trace.read_write_ratio(), Some(8.0));
        let means = [
            trace.context_tokens,
            trace.generation_tokens,
            trace.read_latency_ms,
            trace.write_latency_ms,
        ];
        assert_eq!(means.map(|column| column.mean()), [200.0, 50.0, 1.5, 2.5].map(Some));
    }
    // A cell that says that nothing is there takes nothing from its row, in CSV as in JSON.
    let csv = "cache_hit,read_bytes,context_tokens\n1,NaN,300\n0,null,nan\n1,5,N/A\n";
    let json = "{\"cache_hit\": 1, \"read_bytes\": null, \"context_tokens\": 300}\n\
                {\"cache_hit\": 0, \"read_bytes\": \"nan\"}\n\
                {\"cache_hit\": 1, \"read_bytes\": 5}\n";
    for text in [csv, json] {
        let trace = read_validation(text.as_bytes()).unwrap();
        assert_eq!((trace.requests, trace.hits, trace.skipped.rows), (3, 2, 0), "{text}");
        assert_eq!((trace.read_bytes.rows, trace.read_bytes.sum()), (1, Some(5.0)), "{text}");
        assert_eq!(trace.context_tokens.mean(), Some(300.0), "{text}");
    }
    // Where the verdict itself is not there, the row is none.
    let trace = read_validation(&b"cache_hit\nnan\n1\n"[..]).unwrap();
    assert_eq!((trace.requests, trace.skipped.rows), (1, 1));
    // What a trace does not have is unknown, and what is no number is no row.
    let trace = read_validation(&b"cache_hit,read_bytes\n1,5\n0,\n1,x\n1,-1\n"[..]).unwrap();
    assert_eq!((trace.requests, trace.skipped.rows), (2, 2));
    assert_eq!((trace.read_bytes.rows, trace.read_bytes.sum()), (1, Some(5.0)));
    assert_eq!((trace.read_write_ratio(), trace.context_tokens.mean()), (None, None));
}

fn settings(pace: Pace, cycles: u32) -> StreamSettings {
    StreamSettings { pace, cycles, requests_max: 0, users: 10, seed: 1 }
}

fn burst_stream(texts: &'static [&'static str], settings: StreamSettings) -> Stream {
    let open = Box::new(move |n: usize| -> Result<Box<dyn Rows>, Error> {
        Ok(Box::new(BurstGpt::new(texts[n].as_bytes())?))
    });
    Stream::new(open, texts.len(), settings)
}

fn arrivals(mut stream: Stream) -> Vec<Option<u64>> {
    let mut seen = Vec::new();
    while let Some(request) = stream.next_request().unwrap() {
        assert_eq!(request.sequence, seen.len() as u64);
        assert_eq!(request.turn, Turn::Alone);
        seen.push(request.arrival.map(|at| at.as_ns() / 1_000_000));
    }
    seen
}

#[test]
fn gaps_are_divided_and_cycles_follow_each_other() {
    let fast = Pace::Recorded { speedup: 10.0 };
    let seen = arrivals(burst_stream(&[BURST, BURST], settings(fast, 2)));
    let one = [0, 4_000, 11_300];
    let expected: Vec<Option<u64>> =
        (0..4).flat_map(|n| one.map(|ms| Some(ms + n * 11_300))).collect();
    assert_eq!(seen, expected);
    assert_eq!(arrivals(burst_stream(&[BURST], settings(Pace::NoGaps, 1))), [None; 3]);
    let even = Pace::Rate { per_s: 4.0, poisson: false };
    let seen = arrivals(burst_stream(&[BURST], settings(even, 1)));
    assert_eq!(seen, [Some(0), Some(250), Some(500)]);
    let limited = StreamSettings { requests_max: 7, ..settings(fast, 0) };
    assert_eq!(arrivals(burst_stream(&[BURST], limited)).len(), 7);
}

#[test]
fn rows_out_of_order_follow_without_a_gap_and_are_counted_once() {
    const DISORDERED: &str =
        "Timestamp,Request tokens,Response tokens\n5,1,1\n9,1,1\n7,1,1\n8,1,1\n";
    let recorded = Pace::Recorded { speedup: 1.0 };
    let seen = arrivals(burst_stream(&[DISORDERED], settings(recorded, 1)));
    assert_eq!(seen, [Some(0), Some(4_000), Some(4_000), Some(5_000)]);
    for (pace, rows) in [(recorded, 1), (Pace::NoGaps, 0)] {
        let mut stream = burst_stream(&[DISORDERED, BURST], settings(pace, 2));
        while stream.next_request().unwrap().is_some() {}
        assert_eq!(stream.disordered_rows(), rows, "{pace:?}");
    }
}

#[test]
fn a_paced_trace_has_poisson_gaps_of_the_right_rate() {
    let pace = Pace::Rate { per_s: 100.0, poisson: true };
    let limited = StreamSettings { requests_max: 20_000, ..settings(pace, 0) };
    let mut stream = burst_stream(&[BURST], limited);
    let (mut last, mut short) = (0, 0);
    while let Some(request) = stream.next_request().unwrap() {
        let at = request.arrival.unwrap().as_ns();
        short += u32::from(at - last < 10_000_000);
        last = at;
    }
    // The sum of 20,000 gaps of mean 10 ms: sigma = 10 ms * sqrt(20000); five sigma.
    assert!(last.abs_diff(200_000_000_000) < 7_100_000_000, "{last}");
    // P(gap < mean) = 1 - 1/e: sigma = 68.2; five sigma.
    assert!(short.abs_diff(12_642) < 341, "{short}");
}

#[test]
fn a_trace_without_a_whole_row_is_an_error() {
    let mut stream = burst_stream(
        &["Timestamp,Request tokens,Response tokens\nx,y,z\n"],
        settings(Pace::NoGaps, 0),
    );
    let error = stream.next_request().unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("\"x\""), "{error}");
}

#[test]
fn sessions_of_another_cycle_are_other_sessions() {
    let text = "Timestamp,Session ID,Request tokens,Response tokens\n1,a,1,1\n2,b,1,1\n3,a,1,1\n";
    let open = Box::new(move |_: usize| -> Result<Box<dyn Rows>, Error> {
        Ok(Box::new(BurstGpt::new(text.as_bytes())?))
    });
    let mut stream = Stream::new(open, 1, settings(Pace::NoGaps, 2));
    let users: Vec<u64> =
        std::iter::from_fn(|| stream.next_request().unwrap()).map(|r| r.user).collect();
    assert_eq!(users.len(), 6);
    assert!(users[0] == users[2] && users[0] != users[1] && users[0] != users[3]);
}

#[test]
fn each_field_and_the_order_of_rows_make_another_digest() {
    let row = || Row { timestamp_ns: 1, context_tokens: 3, generate_tokens: 4, ..Row::default() };
    let operation = Operation { bytes: 6, is_write: true, is_decode: false };
    let others = [
        row(),
        Row { timestamp_ns: 2, ..row() },
        Row { session: Some(0), ..row() },
        Row { context_tokens: 4, ..row() },
        Row { generate_tokens: 3, ..row() },
        Row { blocks: Some([5].into()), ..row() },
        Row { cached_tokens: Some(0), ..row() },
        Row { operation: Some(operation), ..row() },
        Row { operation: Some(Operation { is_write: false, ..operation }), ..row() },
    ];
    let digest = |rows: &[&Row]| {
        let mut digest = Digest::default();
        rows.iter().for_each(|row| row.add_to(&mut digest));
        digest.of_first(rows.len() as u64)
    };
    let mut all: Vec<String> = others.iter().map(|other| digest(&[other])).collect();
    all.extend(others[1..].iter().map(|other| digest(&[&others[0], other])));
    all.extend(others[1..].iter().map(|other| digest(&[other, &others[0]])));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "{all:?}");
    assert_eq!(digest(&[&others[1]]), digest(&[&others[1]]));
}
