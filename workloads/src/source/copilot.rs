//! Sessions of GitHub Copilot's coding agent (2026), as the schema in
//! <https://github.com/Azure/AzurePublicDataset> under `analysis/GitHubCopilotCodingAgents` has
//! them: a JSON object a line, with the model calls of its turns and the tokens of each.

use serde::Deserialize;

use super::burstgpt::name_hash;
use super::calendar::instant_ns;
use super::{Row, Skipped, json_problem, whole_tokens};

#[derive(Deserialize)]
struct Session {
    session_id: String,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    llm_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    timestamp: Option<String>,
    tokens: Option<CallTokens>,
}

/// Tokens of a call; those that the cache found are among those of its prompt.
#[derive(Deserialize)]
struct CallTokens {
    prompt: Option<f64>,
    completion: Option<f64>,
    cached: Option<f64>,
}

/// The calls of a session by their time; those that can't be used are counted. Calls without tokens
/// in their prompt, such as cancelled ones, are left out, as in the publisher's own analysis.
pub(super) fn rows(text: &[u8], line: u64, skipped: &mut Skipped) -> Result<Vec<Row>, String> {
    let session: Session =
        serde_json::from_slice(text).map_err(|error| json_problem(text, &error))?;
    let name = name_hash(session.session_id.as_bytes());
    let calls = session.turns.into_iter().flat_map(|turn| turn.llm_calls.unwrap_or_default());
    let mut rows = Vec::new();
    for (call, number) in calls.zip(1..) {
        let Some(tokens) = call.tokens.filter(|tokens| tokens.prompt.unwrap_or(0.0) != 0.0) else {
            continue;
        };
        match row(call.timestamp.as_deref(), &tokens, name) {
            Ok(row) => rows.push(row),
            Err(why) => skipped.count(line, || format!("call {number}: {why}")),
        }
    }
    // Calls of a turn may overlap.
    rows.sort_by_key(|row| row.timestamp_ns);
    Ok(rows)
}

fn row(timestamp: Option<&str>, of_call: &CallTokens, session: u64) -> Result<Row, String> {
    let count = |name, value: Option<f64>| whole_tokens(name, value.unwrap_or(0.0));
    let context_tokens = count("prompt", of_call.prompt)?;
    let cached_tokens = count("cached", of_call.cached)?;
    if cached_tokens > context_tokens {
        return Err(format!(
            "cached is {cached_tokens}, more than the prompt's {context_tokens} tokens"
        ));
    }
    Ok(Row {
        timestamp_ns: instant_ns("timestamp", timestamp.ok_or("it has no timestamp")?.as_bytes())?,
        session: Some(session),
        context_tokens,
        cached_tokens: Some(cached_tokens),
        generate_tokens: count("completion", of_call.completion)?,
        ..Row::default()
    })
}
