//! Requests answered step by step.

use super::*;
use crate::conversation::Turn;

fn demand(context_tokens: u32, generate_tokens: u32) -> Demand {
    Demand {
        number: 5,
        retrieval: None,
        turn: Turn::Number(2),
        context_tokens,
        generate_tokens,
        prompt: Some(1),
        entry: 0,
        operation: None,
    }
}

/// When it arrived, and when it began to be served.
fn times() -> (Nanos, Nanos) {
    (Nanos::from_ns(10), Nanos::from_ns(20))
}

fn request(demand: Demand, history: Vec<u64>) -> Request {
    let turn = |number| PastTurn { number, tokens: 1_000 };
    let history = history.into_iter().map(turn).collect();
    let past = Past { history, prompt_tokens: 7, seed: 1, documents: 0..2, ..Past::default() };
    Request::new(3, Class::Batch, times(), demand, past)
}

/// A step that took so long in I/O, and twice as long in each of the waits.
const fn io(io_ns: u64) -> StepTimes {
    StepTimes { io_ns, room_ns: 2 * io_ns, permit_ns: 2 * io_ns }
}

#[test]
fn a_load_is_what_was_there_before_and_was_found() {
    let config = WorkloadConfig::default();
    let record = |history: Vec<u64>, prompt: Option<u32>, found: bool| {
        let mut stats = WorkloadStats::default();
        let mut one = request(Demand { prompt, ..demand(1000, 65) }, history);
        let mut step = one.next(&config, None, &mut stats);
        while step != RequestStep::Done {
            let answer = match step {
                RequestStep::Read(_, _, Purpose::Decode, _) => Outcome::Hit,
                RequestStep::Read(..) if !found => Outcome::Miss { reads_done: 0 },
                _ => all_well(0, &step),
            };
            step = one.next(&config, Some((answer, io(100))), &mut stats);
        }
        one.record(Nanos::from_ns(99))
    };
    // Two reads of earlier turns with their waits for room; then write, decode read and generation.
    let whole = record(vec![3, 4], None, true);
    assert_eq!((whole.load_ns, whole.storage_io_ns), (Some(2 * 300), 500));
    assert_eq!((whole.room_ns, whole.permit_ns), (1_000, 1_000));
    assert_eq!(record(vec![], Some(1), true).load_ns, Some(300));
    // A first turn has nothing to load, and what was evicted is not loaded.
    assert_eq!(record(vec![], None, true).load_ns, None);
    assert_eq!(record(vec![3, 4], None, false).load_ns, None);
}

/// Runs a request, answering each step by `answer`; the purposes it went through.
fn run(
    config: &WorkloadConfig,
    mut request: Request,
    answer: impl Fn(usize, &RequestStep) -> Outcome,
) -> (Vec<(Purpose, u64)>, WorkloadStats) {
    let (mut stats, mut trail) = (WorkloadStats::default(), Vec::new());
    let mut step = request.next(config, None, &mut stats);
    while step != RequestStep::Done {
        match step {
            RequestStep::Read(_, _, purpose, times) => trail.push((purpose, u64::from(times))),
            RequestStep::Write(_, _, purpose, bytes) => trail.push((purpose, bytes)),
            RequestStep::ReadPrefix(ref keys, _, purpose) => {
                trail.push((purpose, keys.len() as u64));
            }
            RequestStep::WriteAll(ref entries, _, purpose) => {
                trail.extend(entries.iter().map(|&(_, bytes)| (purpose, bytes)));
            }
            RequestStep::Wait(_) | RequestStep::Compute(_) | RequestStep::Done => {}
        }
        let outcome = answer(trail.len(), &step);
        step = request.next(config, Some((outcome, io(100))), &mut stats);
    }
    (trail, stats)
}

fn all_well(_: usize, step: &RequestStep) -> Outcome {
    match step {
        RequestStep::Read(..) | RequestStep::ReadPrefix(..) => Outcome::Hit,
        RequestStep::Write(..) | RequestStep::WriteAll(..) => Outcome::Written,
        _ => Outcome::Waited,
    }
}

#[test]
fn a_whole_request_goes_through_its_steps_in_order() {
    let config = WorkloadConfig::default();
    let (trail, _) = run(&config, request(demand(1000, 65), vec![3, 4]), all_well);
    let written = (1000 - 7) * 131_072;
    let expected = [
        (Purpose::Prefix, 1),
        (Purpose::History, 1),
        (Purpose::History, 1),
        (Purpose::Prefill, written),
        // 1 + ceil(65 / 32)
        (Purpose::Decode, 4),
    ];
    assert_eq!(trail, expected);
}

#[test]
fn the_last_turn_alone_stands_for_the_context_so_far() {
    let config = WorkloadConfig { history_reads: HistoryReads::Last, ..WorkloadConfig::default() };
    let reads = |history: Vec<u64>| {
        let (trail, _) = run(&config, request(demand(1000, 65), history), all_well);
        trail.iter().filter(|step| step.0 == Purpose::History).count()
    };
    assert_eq!([reads(vec![]), reads(vec![3]), reads(vec![3, 4, 5])], [0, 1, 1]);
}

#[test]
fn what_was_not_found_is_computed_again_before_the_next_write_or_token() {
    // A token a microsecond.
    let config = WorkloadConfig { prefill_tokens_per_s: 1e6, ..WorkloadConfig::default() };
    let mut stats = WorkloadStats::default();
    let mut one = request(demand(1_007, 65), vec![3, 4]);
    let (mut step, mut trail) = (one.next(&config, None, &mut stats), Vec::new());
    let (mut evicted, mut all_ns) = (true, 0);
    while step != RequestStep::Done {
        let outcome = match step {
            RequestStep::Read(_, _, Purpose::Decode, _) => match std::mem::take(&mut evicted) {
                true => Outcome::Miss { reads_done: 1 },
                false => Outcome::Hit,
            },
            RequestStep::Read(..) => Outcome::Miss { reads_done: 0 },
            _ => all_well(0, &step),
        };
        match step {
            RequestStep::Read(_, _, purpose, _) => trail.push(format!("read {purpose:?}")),
            RequestStep::Write(_, _, purpose, _) => trail.push(format!("write {purpose:?}")),
            RequestStep::ReadPrefix(..) | RequestStep::WriteAll(..) => panic!("one at a time"),
            RequestStep::Wait(time) => trail.push(format!("wait {}", time.as_ns() / 1_000)),
            RequestStep::Compute(time) => {
                one.compute_for(time);
                trail.push(format!("compute {}", time.as_ns() / 1_000));
            }
            RequestStep::Done => {}
        }
        if let RequestStep::Wait(time) | RequestStep::Compute(time) = step {
            all_ns += time.as_ns();
        }
        step = one.next(&config, Some((outcome, StepTimes::default())), &mut stats);
    }
    let expected = [
        // The prompt's 7 tokens.
        "read Prefix",
        "compute 7",
        "write Prefix",
        // Two turns of 1,000.
        "read History",
        "read History",
        "compute 2000",
        "write Prefill",
        // Its own entry of 1,000.
        "read Decode",
        "compute 1000",
        "write Rewrite",
        "read Decode",
        // 65 tokens of 30 ms.
        "wait 1950000",
    ];
    assert_eq!(trail, expected);
    let record = one.record(Nanos::from_ns(99));
    assert_eq!((record.recompute_ns, record.generation_ns), (3_007_000, 1_950_000_000));
    assert_eq!(record.recompute_ns + record.generation_ns, all_ns);
}

#[test]
fn a_turn_that_is_read_once_is_not_read_again_while_it_decodes() {
    let config = WorkloadConfig { decode_reads: DecodeReads::Once, ..WorkloadConfig::default() };
    let (trail, _) = run(&config, request(demand(1000, 650), vec![]), all_well);
    assert_eq!(trail.last(), Some(&(Purpose::Decode, 1)));
    // One that is gone by then is written again and read.
    let mut misses = 1;
    let mut answer = |step: &RequestStep| match step {
        RequestStep::Read(_, _, Purpose::Decode, _) if misses > 0 => {
            misses -= 1;
            Outcome::Miss { reads_done: 0 }
        }
        _ => all_well(0, step),
    };
    let (mut stats, mut one) = (WorkloadStats::default(), request(demand(1000, 650), vec![]));
    let (mut step, mut decode_reads) = (one.next(&config, None, &mut stats), Vec::new());
    while step != RequestStep::Done {
        if let RequestStep::Read(_, _, Purpose::Decode, times) = step {
            decode_reads.push(times);
        }
        let outcome = answer(&step);
        step = one.next(&config, Some((outcome, StepTimes::default())), &mut stats);
    }
    assert_eq!(decode_reads, [1, 1]);
}

#[test]
fn a_missing_prompt_is_written_and_a_missing_turn_counted() {
    let config = WorkloadConfig::default();
    let (trail, _) = run(&config, request(demand(1000, 1), vec![3]), |_, step| match step {
        RequestStep::Read(_, _, Purpose::Prefix | Purpose::History, _) => {
            Outcome::Miss { reads_done: 0 }
        }
        other => all_well(0, other),
    });
    let purposes: Vec<Purpose> = trail.iter().map(|&(purpose, _)| purpose).collect();
    use Purpose::{Decode, History, Prefill, Prefix};
    assert_eq!(purposes, [Prefix, Prefix, History, Prefill, Decode]);
}

#[test]
fn a_prompt_is_never_written_where_prompts_are_not() {
    let config = WorkloadConfig { system_prompts_written: false, ..WorkloadConfig::default() };
    let (trail, _) = run(&config, request(demand(1000, 1), vec![]), |_, step| match step {
        RequestStep::Read(_, _, Purpose::Prefix, _) => Outcome::Miss { reads_done: 0 },
        other => all_well(0, other),
    });
    let purposes: Vec<Purpose> = trail.iter().map(|&(purpose, _)| purpose).collect();
    assert_eq!(purposes, [Purpose::Prefix, Purpose::Prefill, Purpose::Decode]);
}

#[test]
fn without_documents_a_retrieval_is_left_out() {
    let config = WorkloadConfig { rag_documents: 2, ..WorkloadConfig::default() };
    let asked = Demand { retrieval: Some(9), prompt: None, ..demand(1000, 1) };
    let past = Past { seed: 1, ..Past::default() };
    let request = Request::new(3, Class::Batch, times(), asked, past);
    let purposes: Vec<Purpose> =
        run(&config, request, all_well).0.iter().map(|&(purpose, _)| purpose).collect();
    assert_eq!(purposes, [Purpose::Prefill, Purpose::Decode]);
}

#[test]
fn a_decode_only_request_retrieves_before_it_decodes_and_writes_nothing() {
    let mut config = WorkloadConfig {
        rag_documents: 2,
        phases: PhaseMode::DecodeOnly,
        ..WorkloadConfig::default()
    };
    config.rag.document_tokens = [1_200, 1_200];
    let asked = Demand { retrieval: Some(9), prompt: None, ..demand(20_000, 64) };
    let (trail, _) = run(&config, request(asked, vec![1, 2]), all_well);
    let purposes: Vec<Purpose> = trail.iter().map(|&(purpose, _)| purpose).collect();
    use Purpose::{Decode, Rag};
    assert_eq!(purposes, [Rag, Rag, Rag, Decode]);
}

#[test]
fn a_retrieval_reads_its_chunks_between_prefill_and_decode_and_only_counts_misses() {
    let mut config = WorkloadConfig { rag_documents: 2, ..WorkloadConfig::default() };
    config.rag.document_tokens = [1_200, 1_200];
    let asked = Demand { retrieval: Some(9), prompt: None, ..demand(1000, 1) };
    let (trail, _) = run(&config, request(asked, vec![]), |_, step| match step {
        RequestStep::Read(_, _, Purpose::Rag, _) => Outcome::Miss { reads_done: 0 },
        other => all_well(0, other),
    });
    let purposes: Vec<Purpose> = trail.iter().map(|&(purpose, _)| purpose).collect();
    use Purpose::{Decode, Prefill, Rag};
    assert_eq!(purposes, [Prefill, Rag, Rag, Rag, Decode]);
}

#[test]
fn leading_blocks_are_read_and_the_rest_written() {
    let config = WorkloadConfig::default();
    let with_blocks = |ids: &[u64]| {
        let blocks = PromptBlocks { cycle: 0, ids: ids.into(), tokens: 512 };
        let past = Past { blocks: Some(blocks), ..Past::default() };
        Request::new(3, Class::Batch, times(), demand(512 * 3 + 7, 5), past)
    };
    let token = 131_072;
    // Blocks 8 and 6 are there, but between them one is not.
    let resident = [key::block(0, 9), key::block(0, 8), key::block(0, 6)];
    let (trail, stats) = run(&config, with_blocks(&[9, 8, 7, 6]), |_, step| match step {
        RequestStep::Read(key, ..) if !resident.contains(key) => Outcome::Miss { reads_done: 0 },
        other => all_well(0, other),
    });
    let sizes: Vec<u64> = trail.iter().map(|&(_, size)| size).collect();
    assert!(trail.iter().all(|&(purpose, _)| purpose == Purpose::Block));
    assert_eq!(sizes, [1, 1, 1, 512 * token, 7 * token], "three reads, two writes");
    assert_eq!((stats.block_hits, stats.block_misses), (2, 2));
    let (trail, stats) = run(&config, with_blocks(&[9, 8, 9, 8]), all_well);
    assert_eq!((trail.len(), stats.block_hits, stats.block_misses), (4, 4, 0));
}

/// Each step of a request that loads its prefix as engines do: the number of entries that are
/// looked for, of which so many are found, or the tokens that are computed or written.
fn prefix_steps(reads: PrefixReads, one: Request, found: u32) -> (Vec<String>, WorkloadStats) {
    chunk_steps(1, reads, one, found)
}

/// The same where chunks of so many tokens are stored.
fn chunk_steps(
    chunk_tokens: u32,
    reads: PrefixReads,
    mut one: Request,
    found: u32,
) -> (Vec<String>, WorkloadStats) {
    let config = WorkloadConfig {
        chunk_tokens,
        prefix_reads: reads,
        prefill_tokens_per_s: 1e6,
        decode_reads: DecodeReads::Once,
        generation_mode: crate::config::GenerationMode::None,
        ..WorkloadConfig::default()
    };
    let (mut stats, mut trail) = (WorkloadStats::default(), Vec::new());
    let mut step = one.next(&config, None, &mut stats);
    while step != RequestStep::Done {
        let mut outcome = all_well(0, &step);
        trail.push(match step {
            RequestStep::ReadPrefix(keys, ..) => {
                if keys.len() > found as usize {
                    outcome = Outcome::Miss { reads_done: found };
                }
                format!("prefix {}", keys.len())
            }
            RequestStep::WriteAll(entries, ..) => {
                let tokens = entries.iter().map(|(_, bytes)| (bytes / 131_072).to_string());
                format!("write {}", tokens.collect::<Vec<_>>().join("+"))
            }
            RequestStep::Compute(time) => format!("compute {}", time.as_ns() / 1_000),
            RequestStep::Write(_, _, _, bytes) => format!("write {}", bytes / 131_072),
            _ => "read".to_owned(),
        });
        step = one.next(&config, Some((outcome, StepTimes::default())), &mut stats);
    }
    (trail, stats)
}

/// They were read one after the other, turns behind a missing one as well, and none of those was
/// ever stored again.
#[test]
fn a_prefix_is_loaded_up_to_the_first_entry_that_is_missing() {
    let blocks = || {
        let blocks = PromptBlocks { cycle: 0, ids: [9, 8, 7, 6].into(), tokens: 512 };
        let past = Past { blocks: Some(blocks), ..Past::default() };
        Request::new(3, Class::Batch, times(), demand(512 * 3 + 7, 5), past)
    };
    let (trail, stats) = prefix_steps(PrefixReads::AtOnce, blocks(), 2);
    assert_eq!(trail, ["prefix 4", "compute 519", "write 512+7"]);
    assert_eq!((stats.block_hits, stats.block_misses), (2, 2));
    let (trail, stats) = prefix_steps(PrefixReads::AtOnce, blocks(), 4);
    assert_eq!((trail, stats.block_hits), (vec!["prefix 4".to_owned()], 4));
    for reads in [PrefixReads::InOrder, PrefixReads::AtOnce] {
        let turns = || request(Demand { prompt: None, ..demand(1_007, 65) }, vec![3, 4, 5]);
        let (trail, _) = prefix_steps(reads, turns(), 1);
        assert_eq!(trail, ["prefix 3", "compute 2000", "write 1000+1000", "write 1000", "read"]);
        assert_eq!(prefix_steps(reads, turns(), 3).0, ["prefix 3", "write 1000", "read"]);
    }
}

/// The end of each entry was stored in a smaller file, which no engine has.
#[test]
fn whole_chunks_are_stored_with_the_entry_in_which_they_end() {
    let (reads, blocks) = (PrefixReads::InOrder, |block_tokens: u32, tokens: u32| {
        let ids = (0..u64::from(tokens.div_ceil(block_tokens))).collect();
        let blocks = Some(PromptBlocks { cycle: 0, ids, tokens: block_tokens });
        let past = Past { blocks, ..Past::default() };
        Request::new(3, Class::Batch, times(), demand(tokens, 5), past)
    });
    let steps = |chunk_tokens, one, found| {
        let (trail, stats) = chunk_steps(chunk_tokens, reads, one, found);
        (trail.join(", "), stats.block_hits, stats.block_misses)
    };
    // The third block has 300 tokens, of which 256 are a chunk.
    let whole = "prefix 3, compute 1324, write 512+512+256".to_owned();
    assert_eq!(steps(256, blocks(512, 1_324), 0), (whole, 0, 3));
    assert_eq!(steps(256, blocks(512, 1_324), 3), ("prefix 3, compute 44".to_owned(), 3, 0));
    let rest = "prefix 3, compute 812, write 512+256".to_owned();
    assert_eq!(steps(256, blocks(512, 1_324), 1), (rest, 1, 2));
    // One of 99 tokens is no chunk.
    let rest = "prefix 2, compute 611, write 512".to_owned();
    assert_eq!(steps(256, blocks(512, 1_123), 1), (rest, 1, 2));
    assert_eq!(steps(256, blocks(512, 1_123), 2), ("prefix 2, compute 99".to_owned(), 2, 1));
    // Chunks larger than blocks lie with every sixteenth, or with the block that they end in.
    let rest = "prefix 2, compute 264, write 256".to_owned();
    assert_eq!(steps(256, blocks(16, 520), 1), (rest, 16, 17));
    let rest = "prefix 4, compute 900, write 256+256+256".to_owned();
    assert_eq!(steps(256, blocks(300, 1_156), 1), (rest, 1, 3));
    assert_eq!(steps(256, blocks(512, 255), 0), ("compute 255".to_owned(), 0, 1));
    // Turns of 1,000 tokens and a prompt of 7: the last chunk of each is whole with the next.
    let turns = |history| request(demand(1_007, 65), history);
    for (history, found, expected) in [
        (vec![], 0, "compute 7, write 768, read"),
        (vec![3], 1, "prefix 1, compute 239, write 1024, read"),
        (vec![3, 4], 2, "prefix 2, compute 215, write 1024, read"),
        (vec![3, 4], 1, "prefix 2, compute 1239, write 1024, write 1024, read"),
    ] {
        assert_eq!(steps(256, turns(history), found).0, expected);
    }
    assert_eq!(steps(2_048, turns(vec![]), 0).0, "compute 7");
    assert_eq!(steps(2_048, turns(vec![3, 4]), 0).0, "compute 2007, write 2048, read");
}

/// It was read and computed again, although its engine had it in memory.
#[test]
fn an_entry_that_is_not_stored_is_not_looked_for() {
    let not_stored = |_: usize, step: &RequestStep| match step {
        RequestStep::Write(_, _, Purpose::Prefill, _) => Outcome::NotStored,
        other => all_well(0, other),
    };
    let one = request(Demand { prompt: None, ..demand(1_007, 65) }, vec![]);
    let (trail, stats) = run(&WorkloadConfig::default(), one, not_stored);
    assert_eq!((trail.len(), stats.decode_misses), (1, 0), "{trail:?}");
}

#[test]
fn long_contexts_and_prefill_only_runs_do_not_decode() {
    let only = WorkloadConfig { phases: PhaseMode::PrefillOnly, ..WorkloadConfig::default() };
    for (config, tokens) in [(WorkloadConfig::default(), 10_000), (only, 100)] {
        let (trail, _) = run(&config, request(demand(tokens, 50), vec![]), all_well);
        assert!(trail.iter().all(|&(purpose, _)| purpose != Purpose::Decode));
    }
    let (trail, _) = run(&WorkloadConfig::default(), request(demand(9_999, 50), vec![]), all_well);
    assert_eq!(trail.last(), Some(&(Purpose::Decode, 3)));
}

#[test]
fn an_entry_evicted_during_decode_is_one_miss_and_one_re_write() {
    let config = WorkloadConfig::default();
    let missing = |_: usize, step: &RequestStep| match step {
        RequestStep::Read(_, _, Purpose::Decode, 4) => Outcome::Miss { reads_done: 1 },
        other => all_well(0, other),
    };
    let (trail, stats) = run(&config, request(demand(1000, 96), vec![]), missing);
    assert_eq!(trail[2].0, Purpose::Decode);
    assert_eq!(trail[3].0, Purpose::Rewrite);
    assert_eq!(trail[4], (Purpose::Decode, 3));
    assert_eq!((stats.decode_misses, stats.decode_rewrites), (1, 1));
}

#[test]
fn decode_only_reads_one_entry_of_the_population() {
    let config = WorkloadConfig { phases: PhaseMode::DecodeOnly, ..WorkloadConfig::default() };
    let (trail, _) = run(&config, request(demand(20_000, 64), vec![1, 2]), all_well);
    assert_eq!(trail, [(Purpose::Decode, 3)]);
}

#[test]
fn a_read_only_run_writes_nothing_when_an_entry_is_gone() {
    let config = WorkloadConfig { phases: PhaseMode::DecodeOnly, ..WorkloadConfig::default() };
    let gone = |_: usize, _: &RequestStep| Outcome::Miss { reads_done: 1 };
    let (trail, stats) = run(&config, request(demand(20_000, 64), vec![]), gone);
    assert_eq!(trail, [(Purpose::Decode, 3)]);
    assert_eq!((stats.decode_misses, stats.decode_rewrites), (1, 0));
}

#[test]
fn a_request_whose_entry_is_refused_was_not_served() {
    let config = WorkloadConfig::default();
    let mut stats = WorkloadStats::default();
    for (outcome, end, refused) in [
        (Outcome::Refused, RequestEnd::Refused, 1),
        (Outcome::Failed, RequestEnd::Failed, 1),
        (Outcome::Written, RequestEnd::Served, 1),
    ] {
        let mut one = request(Demand { prompt: None, ..demand(10_000, 50) }, vec![]);
        let mut step = one.next(&config, None, &mut stats);
        while step != RequestStep::Done {
            let answer =
                if matches!(step, RequestStep::Write(..)) { outcome } else { Outcome::Waited };
            step = one.next(&config, Some((answer, io(1))), &mut stats);
        }
        assert_eq!((one.record(Nanos::from_ns(99)).end, stats.refused_requests), (end, refused));
    }
}

#[test]
fn any_outcome_at_any_step_ends_the_request() {
    let outcomes = [
        Outcome::Hit,
        Outcome::Miss { reads_done: 0 },
        Outcome::Written,
        Outcome::Refused,
        Outcome::Waited,
        Outcome::Failed,
    ];
    let config = WorkloadConfig::default();
    for seed in 0..2_000u64 {
        let random = |n: usize| crate::rng::mix64(seed << 8 | n as u64) as usize;
        let (trail, _) = run(&config, request(demand(500, 40), vec![1, 2, 3]), |n, step| {
            match (outcomes[random(n) % outcomes.len()], step) {
                (Outcome::Hit | Outcome::Miss { .. }, RequestStep::Write(..)) => Outcome::Written,
                (outcome, _) => outcome,
            }
        });
        assert!(trail.len() < 12, "{trail:?}");
    }
}
