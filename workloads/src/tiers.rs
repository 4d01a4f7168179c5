//! Traffic between two tiers, DRAM above an SSD, for all pairs of their sizes in one pass.
//!
//! The list of [`crate::reuse`], the most recently used block first, holds the contents of both
//! tiers. DRAM of D blocks has the first D of it, for every block of a prompt is stored in DRAM,
//! wherever it was found. The [`WritePolicy`] says which ones an SSD of S blocks has:
//!
//! - `Demote`: the next S, from D + 1 to D + S. A block is in one tier at a time, as in this
//!   program's tiers with `--promotion on-hit`. A block that is stored and was not in DRAM pushes
//!   the last one out of DRAM once that is full, and that one is written: all that is on the SSD
//!   already was used before it, so the SSD keeps the order of the list.
//! - `Through`: the first S, those in DRAM among them. A block is written when it is stored and is
//!   not on the SSD.
//! - Without DRAM, both are the same: a block is written when it is stored and is not on the SSD.
//!
//! The blocks of a prompt that are found are read from where they are when it is looked up; DRAM
//! gets them, as those that were computed, from the GPU. Then they are stored one after another,
//! from the last to the first: with `Demote`, a prompt may push out its own blocks.

use std::collections::BTreeMap;

/// Rule by which blocks get to the SSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WritePolicy {
    /// Writes a block when it falls out of DRAM; a block is in one tier at a time.
    Demote,
    /// Writes a block when it is stored in DRAM, unless it is on the SSD.
    Through,
}

/// Blocks that were moved in all, and in the busiest window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MovedBlocks {
    /// Number of blocks over the whole trace.
    pub blocks: u64,
    /// Number of blocks in the window with the highest rate.
    pub busiest_blocks: u64,
    /// Length of that window in the trace's own time, ns; 0 where nothing was moved.
    pub busiest_ns: u64,
}

impl MovedBlocks {
    fn add_window(&mut self, blocks: u64, length_ns: u64) {
        self.blocks += blocks;
        let product = |blocks: u64, ns: u64| u128::from(blocks) * u128::from(ns);
        let most = product(self.busiest_blocks, length_ns);
        if product(blocks, self.busiest_ns.max(1)) > most {
            (self.busiest_blocks, self.busiest_ns) = (blocks, length_ns);
        }
    }
}

/// Hits and traffic of one pair of sizes over the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TierPair {
    /// Number of input tokens that DRAM would find without the SSD.
    pub dram_tokens: u64,
    /// Number of input tokens that are found besides: those on the SSD, and those in DRAM behind
    /// them in the prompt.
    pub ssd_tokens: u64,
    /// Sum over the requests of the squared number of tokens found, less that of those that DRAM
    /// would find without the SSD: attention over them takes as long in proportion.
    pub ssd_squares: u128,
    /// Number of requests that read from the SSD.
    pub ssd_requests: u64,
    /// Blocks read from the SSD.
    pub read: MovedBlocks,
    /// Blocks written to the SSD.
    pub written: MovedBlocks,
}

/// Counts for each pair of a size of DRAM and one of the SSD. A block takes O(log n) steps for each
/// size of DRAM, n being the number of sizes of the SSD.
#[derive(Debug)]
pub struct PairCounts {
    policy: WritePolicy,
    window_ns: u64,
    /// Time of the first request, from which windows are counted; none before it.
    begin_ns: Option<u64>,
    /// Longest time between it and another request.
    span_ns: u64,
    /// Number of the window that the current request is in.
    window: u64,
    /// Tokens of the current request's blocks that were looked up so far.
    request_tokens: u64,
    ssds: Vec<u64>,
    drams: Vec<DramCounts>,
}

/// Counts beside one size of DRAM. Lists have a place for each size of the SSD and one behind them,
/// for what none of them would do.
#[derive(Debug)]
struct DramCounts {
    dram_blocks: u64,
    /// Tokens that DRAM finds alone.
    tokens: u64,
    /// At each place, tokens that are found from that size of the SSD on.
    ssd_tokens: Vec<u64>,
    /// At each place, the squares of [`TierPair::ssd_squares`] from that size on.
    ssd_squares: Vec<u128>,
    /// At each place, requests that read from the SSD from that size on.
    ssd_requests: Vec<u64>,
    /// Whether the current request needs the SSD.
    needs_ssd: bool,
    windows: BTreeMap<u64, Vec<WindowCounts>>,
}

#[derive(Clone, Debug, Default)]
struct WindowCounts {
    /// Blocks that are read from the SSD from this size on.
    read_blocks: u64,
    /// Blocks that are written to the SSD below this size.
    written_below_blocks: u64,
}

impl PairCounts {
    /// Creates counts of nothing. Sizes are in blocks and in any order. Windows of the trace's own
    /// time, of which the busiest is sought, take `window_ns`, at least 1, from the first request
    /// on. The last one is longer: what is left of the time, less than a window, belongs to it. A
    /// trace that is shorter is one window, of its own length.
    pub fn new(
        policy: WritePolicy,
        window_ns: u64,
        drams_blocks: &[u64],
        mut ssds_blocks: Vec<u64>,
    ) -> PairCounts {
        ssds_blocks.sort_unstable();
        ssds_blocks.dedup();
        let places = ssds_blocks.len() + 1;
        let dram = |&dram_blocks: &u64| DramCounts {
            dram_blocks,
            tokens: 0,
            ssd_tokens: vec![0; places],
            ssd_squares: vec![0; places],
            ssd_requests: vec![0; places],
            needs_ssd: false,
            windows: BTreeMap::new(),
        };
        let drams = drams_blocks.iter().map(dram).collect();
        PairCounts {
            policy,
            window_ns: window_ns.max(1),
            begin_ns: None,
            span_ns: 0,
            window: 0,
            request_tokens: 0,
            ssds: ssds_blocks,
            drams,
        }
    }

    /// Begins the next request, at this time of the trace. One that is earlier than the first
    /// counts in its window.
    pub(crate) fn begin(&mut self, at_ns: u64) {
        let begin_ns = *self.begin_ns.get_or_insert(at_ns);
        self.span_ns = self.span_ns.max(at_ns.abs_diff(begin_ns));
        self.window = at_ns.saturating_sub(begin_ns) / self.window_ns;
        self.request_tokens = 0;
        self.drams.iter_mut().for_each(|dram| dram.needs_ssd = false);
    }

    /// Counts a block that was looked up: `depth` is its place in the list, from 1, and `needed`
    /// the largest one of the prefix that ends with it.
    pub(crate) fn found(&mut self, depth: u64, needed: u64, tokens: u64) {
        let before = self.request_tokens;
        self.request_tokens += tokens;
        for dram in &mut self.drams {
            if needed <= dram.dram_blocks {
                dram.tokens += tokens;
                continue;
            }
            let smallest = match self.policy {
                WritePolicy::Demote => needed - dram.dram_blocks,
                WritePolicy::Through => needed,
            };
            let place = self.ssds.partition_point(|&ssd| ssd < smallest);
            dram.ssd_tokens[place] += tokens;
            dram.ssd_squares[place] +=
                u128::from(tokens) * (2 * u128::from(before) + u128::from(tokens));
            if !std::mem::replace(&mut dram.needs_ssd, true) {
                dram.ssd_requests[place] += 1;
            }
            // One behind it in the prompt may be in DRAM.
            if depth > dram.dram_blocks {
                dram.window(self.window)[place].read_blocks += 1;
            }
        }
    }

    /// Counts a block that is about to be stored, at its place in the list, if it has one, of
    /// `distinct_blocks`.
    pub(crate) fn stored(&mut self, depth: Option<u64>, distinct_blocks: u64) {
        for dram in &mut self.drams {
            let place = if self.policy == WritePolicy::Demote && dram.dram_blocks > 0 {
                let is_in_dram = depth.is_some_and(|depth| depth <= dram.dram_blocks);
                if is_in_dram || distinct_blocks < dram.dram_blocks {
                    continue;
                }
                self.ssds.len()
            } else {
                let holds_not = |depth| self.ssds.partition_point(|&ssd| ssd < depth);
                depth.map_or(self.ssds.len(), holds_not)
            };
            dram.window(self.window)[place].written_below_blocks += 1;
        }
    }

    /// Counts of a pair of sizes in blocks; none where they were not counted.
    pub fn pair(&self, dram_blocks: u64, ssd_blocks: u64) -> Option<TierPair> {
        let dram = self.drams.iter().find(|dram| dram.dram_blocks == dram_blocks)?;
        let above = self.ssds.binary_search(&ssd_blocks).ok()? + 1;
        let mut pair = TierPair {
            dram_tokens: dram.tokens,
            ssd_tokens: dram.ssd_tokens[..above].iter().sum(),
            ssd_squares: dram.ssd_squares[..above].iter().sum(),
            ssd_requests: dram.ssd_requests[..above].iter().sum(),
            ..TierPair::default()
        };
        pair.read = self
            .moved(dram, |window| window[..above].iter().map(|counts| counts.read_blocks).sum());
        // An SSD without room for a block takes none.
        if ssd_blocks > 0 {
            pair.written = self.moved(dram, |window| {
                window[above..].iter().map(|counts| counts.written_below_blocks).sum()
            });
        }
        Some(pair)
    }

    /// Blocks that were moved beside a size of DRAM, those of a window counted by `of`.
    fn moved(&self, dram: &DramCounts, of: impl Fn(&[WindowCounts]) -> u64) -> MovedBlocks {
        let last = (self.span_ns / self.window_ns).saturating_sub(1);
        let mut windows = BTreeMap::<u64, u64>::new();
        for (&window, counts) in &dram.windows {
            *windows.entry(window.min(last)).or_default() += of(counts);
        }
        let mut moved = MovedBlocks::default();
        for (window, blocks) in windows {
            let is_last = window == last;
            let last_ns = self.span_ns - last * self.window_ns;
            moved.add_window(blocks, if is_last { last_ns } else { self.window_ns });
        }
        moved
    }
}

impl DramCounts {
    /// Counts of a window, a place for each size of the SSD and one behind them.
    fn window(&mut self, window: u64) -> &mut [WindowCounts] {
        let places = self.ssd_tokens.len();
        self.windows.entry(window).or_insert_with(|| vec![WindowCounts::default(); places])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::reuse::PrefixReuse;

    const BLOCK: u64 = 8;
    const WINDOW_NS: u64 = 10;

    #[derive(Debug)]
    struct Prompt {
        at_ns: u64,
        blocks: Vec<u64>,
        tokens: u64,
    }

    impl Prompt {
        fn new(at_ns: u64, blocks: &[u64]) -> Prompt {
            let tokens = blocks.len() as u64 * BLOCK;
            Prompt { at_ns, blocks: blocks.to_vec(), tokens }
        }
    }

    /// Two tiers that are lists, searched from their front.
    struct Lists {
        policy: WritePolicy,
        dram_blocks: usize,
        ssd_blocks: usize,
        dram: Vec<u64>,
        ssd: Vec<u64>,
    }

    impl Lists {
        /// Stores a block in DRAM; returns how many are written to the SSD.
        fn store(&mut self, block: u64) -> u64 {
            let was_on_ssd = self.ssd.contains(&block);
            self.dram.retain(|other| *other != block);
            self.ssd.retain(|other| *other != block);
            self.dram.insert(0, block);
            let mut written = 0;
            let fallen = (self.dram.len() > self.dram_blocks).then(|| self.dram.pop()).flatten();
            match self.policy {
                WritePolicy::Demote => {
                    if let Some(fallen) = fallen {
                        self.ssd.insert(0, fallen);
                        written = u64::from(self.dram_blocks > 0 || !was_on_ssd);
                    }
                }
                WritePolicy::Through => {
                    self.ssd.insert(0, block);
                    written = u64::from(!was_on_ssd);
                }
            }
            self.ssd.truncate(self.ssd_blocks);
            if self.ssd_blocks == 0 { 0 } else { written }
        }

        fn serve(&mut self, prompts: &[Prompt], window_ns: u64) -> TierPair {
            let mut pair = TierPair::default();
            let mut windows = BTreeMap::<u64, (u64, u64)>::new();
            let begin_ns = prompts.first().map_or(0, |prompt| prompt.at_ns);
            let spans_ns = prompts.iter().map(|prompt| prompt.at_ns.abs_diff(begin_ns));
            let span_ns = spans_ns.max().unwrap_or(0);
            let last = (span_ns / window_ns).saturating_sub(1);
            for Prompt { at_ns, blocks, tokens } in prompts {
                let is_in_dram = |block: &&u64| self.dram.contains(block);
                let alone = blocks.iter().take_while(is_in_dram).count();
                let is_found = |block: &&u64| is_in_dram(block) || self.ssd.contains(block);
                let found: Vec<&u64> = blocks.iter().take_while(is_found).collect();
                let tokens_of = |blocks: usize| (blocks as u64 * BLOCK).min(*tokens);
                pair.dram_tokens += tokens_of(alone);
                pair.ssd_tokens += tokens_of(found.len()) - tokens_of(alone);
                let square = |blocks: usize| u128::from(tokens_of(blocks)).pow(2);
                pair.ssd_squares += square(found.len()) - square(alone);
                pair.ssd_requests += u64::from(found.len() > alone);
                let read = found.iter().filter(|block| !is_in_dram(block)).count() as u64;
                let written: u64 = blocks.iter().rev().map(|block| self.store(*block)).sum();
                let window = at_ns.saturating_sub(begin_ns) / window_ns;
                let window = windows.entry(window.min(last)).or_default();
                window.0 += read;
                window.1 += written;
            }
            for (window, (read, written)) in windows {
                let length_ns = if window < last { window_ns } else { span_ns - last * window_ns };
                pair.read.add_window(read, length_ns);
                pair.written.add_window(written, length_ns);
            }
            pair
        }
    }

    fn by_lists(policy: WritePolicy, dram: u64, ssd: u64, prompts: &[Prompt]) -> TierPair {
        let (dram_blocks, ssd_blocks) = (dram as usize, ssd as usize);
        let mut lists =
            Lists { policy, dram_blocks, ssd_blocks, dram: Vec::new(), ssd: Vec::new() };
        lists.serve(prompts, WINDOW_NS)
    }

    fn counted(policy: WritePolicy, drams: &[u64], ssds: &[u64], all: &[Prompt]) -> PairCounts {
        let mut reuse = PrefixReuse::new(BLOCK as u32, Vec::new());
        reuse.tiers = Some(PairCounts::new(policy, WINDOW_NS, drams, ssds.to_vec()));
        for prompt in all {
            reuse.tiers.as_mut().unwrap().begin(prompt.at_ns);
            reuse.request(&prompt.blocks, prompt.tokens);
        }
        reuse.tiers.unwrap()
    }

    proptest! {
        /// Prompts are longer than some of the tiers, come in no order of time, name blocks twice,
        /// and end with partial ones.
        #[test]
        fn every_pair_of_sizes_moves_what_two_lists_move(
            given in prop::collection::vec(
                (prop::collection::vec(0_u64..24, 0..14), 1_u64..8, 0_u64..60),
                0..40,
            ),
            is_through in any::<bool>(),
        ) {
            let policy = if is_through { WritePolicy::Through } else { WritePolicy::Demote };
            let prompts: Vec<Prompt> = given
                .into_iter()
                .map(|(blocks, last, at_ns)| {
                    let prompt = Prompt::new(at_ns, &blocks);
                    Prompt { tokens: prompt.tokens.saturating_sub(BLOCK - last), ..prompt }
                })
                .collect();
            let (drams, ssds) = ([0, 1, 2, 5, 9, 16, 30], [0, 1, 3, 4, 8, 15, 30]);
            let counts = counted(policy, &drams, &ssds, &prompts);
            for dram in drams {
                for ssd in ssds {
                    let expected = by_lists(policy, dram, ssd, &prompts);
                    prop_assert_eq!(counts.pair(dram, ssd), Some(expected), "{} {}", dram, ssd);
                }
            }
            prop_assert_eq!(counts.pair(0, 2), None);
        }

        /// Writes to an endless SSD are the blocks that fall out of DRAM: all that are stored
        /// and were not in DRAM, but for those that filled it.
        #[test]
        fn a_demotion_is_a_block_stored_and_not_in_dram_once_dram_is_full(
            given in prop::collection::vec(0_u64..24, 0..60),
            dram in 1_u64..30,
        ) {
            let prompts: Vec<Prompt> =
                given.iter().map(|block| Prompt::new(0, &[*block])).collect();
            let pair = counted(WritePolicy::Demote, &[dram], &[u64::MAX], &prompts);
            let pair = pair.pair(dram, u64::MAX).unwrap();
            let distinct = given.iter().collect::<BTreeSet<_>>().len() as u64;
            let not_in_dram = given.len() as u64 - pair.dram_tokens / BLOCK;
            prop_assert_eq!(pair.written.blocks, not_in_dram - distinct.min(dram));
            prop_assert_eq!(pair.read.blocks, not_in_dram - distinct);
        }
    }

    /// DRAM holds one block, and the SSD two. By hand, from the front, after each request: 1;
    /// 2 | 1; 1 | 2, which was read and wrote 2; 3 | 1 2; 4 | 3 1, which dropped 2.
    #[test]
    fn windows_have_what_their_own_requests_move() {
        let requests = [(0, 1), (9, 2), (10, 1), (35, 3), (31, 4), (70, 2)];
        let prompts = requests.map(|(at_ns, block)| Prompt::new(at_ns, &[block]));
        let pair = counted(WritePolicy::Demote, &[1], &[2], &prompts).pair(1, 2).unwrap();
        assert_eq!((pair.dram_tokens, pair.ssd_tokens, pair.ssd_requests), (0, BLOCK, 1));
        let busiest = |busiest_blocks| MovedBlocks { busiest_blocks, busiest_ns: 10, blocks: 5 };
        assert_eq!(pair.read, MovedBlocks { blocks: 1, ..busiest(1) });
        // One each from 0 to 9, from 10 to 19 and from 60 on, two from 30 to 39.
        assert_eq!(pair.written, busiest(2));
        let through = counted(WritePolicy::Through, &[1], &[2], &prompts).pair(1, 2).unwrap();
        // The SSD holds 1, then 2 1, 1 2, 3 1, 4 3 and 2 4.
        assert_eq!(through.written, busiest(2));
        assert_eq!(through.read, pair.read);
    }

    /// A rest of the time counted as a whole window, and not at all where the trace began late.
    #[test]
    fn what_is_left_of_the_time_belongs_to_the_last_window() {
        let of = |times_ns: &[u64]| {
            let at = |(block, at_ns): (u64, &u64)| Prompt::new(*at_ns, &[block]);
            let prompts: Vec<Prompt> = (0..).zip(times_ns).map(at).collect();
            let pairs = counted(WritePolicy::Through, &[1], &[9], &prompts);
            let written = pairs.pair(1, 9).unwrap().written;
            (written.busiest_blocks, written.busiest_ns)
        };
        assert_eq!(of(&[0, 1, 12, 13]), (4, 13));
        assert_eq!(of(&[0, 1, 2, 11, 20, 21, 22, 23, 24]), (6, 14));
        assert_eq!(of(&[0, 1, 2, 3, 12, 24]), (4, 10));
        assert_eq!(of(&[7, 8, 9, 10, 27]), (4, 10), "from the first request on");
        assert_eq!(of(&[3, 9]), (2, 6), "a trace without a whole window");
    }
}
