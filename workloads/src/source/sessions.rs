//! Sessions of coding agents, one in memory at a time, in any form that a parser takes apart; and
//! that in which kv-cache-tester records them (cc-traces, AgentX): a JSON object each, one a file
//! or one a line, with its requests, those of subagents among them, and the 64-token blocks of each
//! prompt.

use std::io::BufRead;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::burstgpt::name_hash;
use super::lines::{Line, Lines, Unusable, unread};
use super::{Row, Rows, Skipped, json_problem, not_more_blocks, seconds_as_ns, whole_tokens};
use crate::digest::Digest;
use crate::error::Error;
use crate::key::PART_MAX;

/// Tokens of a block, in the published sets.
pub(super) const BLOCK_TOKENS: u32 = 64;
/// Longest text of a session: one of 800 requests of 100,000 tokens takes 6 MiB.
const SESSION_BYTES_MAX: usize = 64 << 20;

#[derive(Deserialize)]
struct Session {
    id: Box<RawValue>,
    block_size: Option<u32>,
    hash_id_scope: Option<String>,
    requests: Vec<Request>,
}

/// A request, or the requests of a subagent.
#[derive(Deserialize)]
struct Request {
    t: f64,
    r#type: Option<String>,
    r#in: Option<f64>,
    out: Option<f64>,
    hash_ids: Option<Vec<u64>>,
    requests: Option<Vec<Request>>,
}

/// The requests of a session, given its text, its line, and the count of those that can't be used.
type Parse = fn(&[u8], u64, &mut Skipped) -> Result<Vec<Row>, String>;

/// A file of sessions, of which one is in memory at a time.
pub struct Sessions<R> {
    lines: Lines<R>,
    parse: Parse,
    /// Those of the session that was read last.
    rows: std::vec::IntoIter<Row>,
    skipped: Skipped,
    unusable: Unusable,
}

impl<R: BufRead> Sessions<R> {
    /// Sessions in the form that `parse` takes apart; nothing is read yet.
    pub(super) fn new(reader: R, parse: Parse) -> Self {
        Sessions {
            lines: Lines::up_to(SESSION_BYTES_MAX, reader),
            parse,
            rows: Vec::new().into_iter(),
            skipped: Skipped::default(),
            unusable: Unusable::default(),
        }
    }
}

impl<R: BufRead + Send> Rows for Sessions<R> {
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        loop {
            if let Some(row) = self.rows.next() {
                self.unusable = Unusable::default();
                return Ok(Some(row));
            }
            let Some((number, line)) = self.lines.next()? else { return Ok(None) };
            self.unusable.pass(number, &line)?;
            // A file that is one object may have it on any number of lines.
            let goes_on = number == 1 && matches!(line, Line::Whole(text) if is_cut_off(text));
            let line = if goes_on { self.lines.with_rest()? } else { line };
            match line {
                Line::TooLong => {
                    let why = || format!("it is longer than {SESSION_BYTES_MAX} bytes");
                    self.skipped.count(number, why);
                }
                Line::Whole(text) if text.trim_ascii().is_empty() => {}
                Line::Whole(text) => match (self.parse)(text, number, &mut self.skipped) {
                    Ok(rows) => self.rows = rows.into_iter(),
                    Err(why) => self.skipped.count(number, || unread(text, &why)),
                },
            }
        }
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}

/// Whether a text is the beginning of JSON that ends too early.
fn is_cut_off(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

/// The requests of a session, of which those that can't be used are counted.
pub(super) fn rows(text: &[u8], line: u64, skipped: &mut Skipped) -> Result<Vec<Row>, String> {
    let session: Session =
        serde_json::from_slice(text).map_err(|error| json_problem(text, &error))?;
    let block_tokens = session.block_size.unwrap_or(BLOCK_TOKENS);
    let scope = session.hash_id_scope.as_deref().unwrap_or("local");
    if block_tokens != BLOCK_TOKENS || scope != "local" {
        return Err(format!(
            "block_size is {block_tokens} and hash_id_scope {scope:?}, and only {BLOCK_TOKENS} and \
             \"local\" are supported"
        ));
    }
    let name = name_hash(session.id.get().as_bytes());
    let (mut requests, mut rows) = (Vec::new(), Vec::new());
    flatten(session.requests, &mut requests);
    for (request, number) in requests.into_iter().zip(1..) {
        match row(request, name) {
            Ok(row) => rows.push(row),
            Err(why) => skipped.count(line, || format!("request {number}: {why}")),
        }
    }
    Ok(rows)
}

/// Puts the requests of subagents in their place among those of the session.
fn flatten(requests: Vec<Request>, all: &mut Vec<Request>) {
    for mut request in requests {
        let of_subagent = request.requests.take();
        // The marker of a subagent is no request.
        if request.hash_ids.is_some() || request.r#type.as_deref() != Some("subagent") {
            all.push(request);
        }
        flatten(of_subagent.unwrap_or_default(), all);
    }
}

fn row(request: Request, session: u64) -> Result<Row, String> {
    let context_tokens = whole_tokens("in", request.r#in.ok_or("it has no in")?)?;
    let hash_ids = request.hash_ids.ok_or("it has no hash_ids")?;
    not_more_blocks("in", context_tokens, BLOCK_TOKENS, hash_ids.len())?;
    let key = |id| {
        let mut name = Digest::default();
        name.add([session, id]);
        name.number() & PART_MAX
    };
    Ok(Row {
        timestamp_ns: seconds_as_ns("t", request.t)?,
        session: Some(session),
        context_tokens,
        generate_tokens: whole_tokens("out", request.out.unwrap_or(0.0))?,
        blocks: Some(hash_ids.into_iter().map(key).collect()),
        ..Row::default()
    })
}
