//! The warnings of several results as those of all together: each kind once, not once for each
//! result, which the 200 ranks of a large launch would make 600 sentences of.

use crate::document::Union;
use crate::{Code, Document, Warning};

/// Merges the warnings of all results: each kind in the words of the first result that has it, with
/// the number of results. Ranks are named by their numbers, other results by their order.
pub fn together(documents: &[&Document], is_launch: bool) -> Union<Warning> {
    let mut told: Vec<(&Code, Vec<Warning>)> = Vec::new();
    for warning in documents.iter().flat_map(|one| one.ringfall.warnings.iter()) {
        if !told.iter().any(|(code, _)| **code == warning.code) {
            told.push((&warning.code, all_of(documents, &warning.code, is_launch)));
        }
    }
    told.into_iter().flat_map(|(_, warnings)| warnings).collect()
}

/// The warnings of one kind.
fn all_of(documents: &[&Document], code: &Code, is_launch: bool) -> Vec<Warning> {
    let own = |document: &&Document| -> Vec<Warning> {
        let of_it = document.ringfall.warnings.iter().filter(|warning| warning.code == *code);
        of_it.cloned().collect()
    };
    let each = documents.iter().map(own).enumerate();
    let mut warned = each.filter(|(_, warnings)| !warnings.is_empty());
    let Some((at, first)) = warned.next() else { return Vec::new() };
    let others: Vec<Vec<Warning>> = warned.map(|(_, warnings)| warnings).collect();
    let is_same = others.iter().all(|warnings| *warnings == first);
    // One drive, or one machine, is what all of them see.
    if is_same && others.len() + 1 == documents.len() {
        return first;
    }
    let rank = documents[at].ringfall.rank.as_ref().filter(|_| is_launch);
    let who = match rank {
        Some(rank) => format!("rank {}", rank.rank),
        None => format!("result {} of {}", at + 1, documents.len()),
    };
    let kind = if rank.is_some() { "rank" } else { "result" };
    let more = match others.len() {
        0 => String::new(),
        1 => format!(" (1 other {kind} has a warning of this kind)"),
        count => format!(" ({count} other {kind}s have a warning of this kind)"),
    };
    let named =
        |warning: Warning| Warning { text: format!("{who}: {}{more}", warning.text), ..warning };
    first.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(texts: &[(Code, &str)]) -> Document {
        let mut document = Document::default();
        let warning = |(code, text): &(Code, &str)| Warning {
            code: code.clone(),
            text: (*text).to_owned(),
            flag_to_try: Some("longer --duration".to_owned()),
        };
        document.ringfall.warnings = texts.iter().map(warning).collect();
        document
    }

    fn texts(documents: &[Document]) -> Vec<String> {
        let documents: Vec<&Document> = documents.iter().collect();
        together(&documents, false).iter().map(|warning| warning.text.clone()).collect()
    }

    #[test]
    fn what_all_warn_of_alike_stands_there_once_and_bare() {
        let one = with(&[(Code::FirstTouch, "new blocks")]);
        assert_eq!(texts(&[one.clone(), one.clone()]), ["new blocks"]);
        // One that has seen nothing of the kind: whose it is has to be said.
        let quiet = with(&[]);
        let told = "result 2 of 3: new blocks (1 other result has a warning of this kind)";
        assert_eq!(texts(&[quiet, one.clone(), one]), [told]);
    }

    #[test]
    fn a_kind_stands_there_in_the_words_of_the_first_and_with_how_many_have_it() {
        let all = [
            with(&[(Code::Unfinished, "3 batch"), (Code::Unfinished, "2 interactive")]),
            with(&[(Code::Backlog, "9 queued"), (Code::Unfinished, "8 batch")]),
            with(&[(Code::Unfinished, "4 batch")]),
        ];
        let others = "(2 other results have a warning of this kind)";
        assert_eq!(
            texts(&all),
            [
                format!("result 1 of 3: 3 batch {others}"),
                format!("result 1 of 3: 2 interactive {others}"),
                "result 2 of 3: 9 queued".to_owned(),
            ]
        );
        let flags = together(&all.each_ref(), false);
        assert!(
            flags.iter().all(|warning| warning.flag_to_try.as_deref() == Some("longer --duration"))
        );
    }
}
