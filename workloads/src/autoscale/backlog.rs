//! Requests that pile up where users do not wait for answers: whether they become ever more.

use serde::Serialize;

use super::step::{BLOCKS, KNOWN_TO, blocks, mean_and_uncertainty};

/// Requests that arrived in a window, over those that ended in it.
///
/// Its interval follows from how the number of open requests changed in parts of the window, by
/// Student's t. Beyond the limit these changes are independent of each other. Below it they make up
/// for each other, so that the interval is too wide and never too narrow. (A line fitted to the
/// number itself was rejected: near the limit that number is a random walk, which looks like a
/// trend far too often.)
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Backlog {
    /// The ratio. Above 1 there are ever more open requests.
    pub ratio: f64,
    /// Half the width of its 95 % confidence interval.
    pub uncertainty: f64,
    /// Part of the ratio that may be requests whose tokens are being generated, at most. After a
    /// change of users they become more until the first have ended, and wait for nothing.
    pub generating: f64,
}

impl Backlog {
    /// Ratio from the increase of open requests per second, sample by sample, and the requests that
    /// ended in as many seconds, the tokens of all of them being generated for `generation_s`;
    /// where none did, as if one had. None without samples.
    pub(super) fn of(
        increases_per_s: &[f64],
        ended: u64,
        seconds: f64,
        generation_s: f64,
    ) -> Option<Backlog> {
        if increases_per_s.is_empty() {
            return None;
        }
        let (mean, uncertainty) = match increases_per_s.len() < BLOCKS {
            true => mean_and_uncertainty(increases_per_s),
            false => mean_and_uncertainty(&blocks(increases_per_s)),
        };
        let ended_per_s = ended.max(1) as f64 / seconds;
        Some(Backlog {
            ratio: 1.0 + mean / ended_per_s,
            uncertainty: uncertainty / ended_per_s,
            // Little's law: so many are in generation at a time, of those that end in the window.
            generating: generation_s / ended.max(1) as f64 / seconds,
        })
    }

    /// Whether it is shown that there are ever more open requests.
    pub(super) fn grows(&self) -> bool {
        self.ratio - self.uncertainty > 1.0 + self.generating
    }

    /// Whether it is shown that requests are answered as fast as they arrive, to 5 %.
    pub(super) fn is_held(&self) -> bool {
        self.ratio + self.uncertainty <= 1.0 + KNOWN_TO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where four requests end in each second.
    fn backlog(increases_per_s: &[f64]) -> Backlog {
        let seconds = increases_per_s.len() as u64;
        Backlog::of(increases_per_s, 4 * seconds, seconds as f64, 0.0).unwrap()
    }

    #[test]
    fn a_backlog_grows_where_more_requests_arrive_than_end() {
        // Three more arrive in each.
        let growing = backlog(&[3.0, 2.0, 4.0, 3.0, 2.0, 4.0]);
        assert!((growing.ratio - 1.75).abs() < 1e-12 && growing.grows(), "{growing:?}");
        assert!(!growing.is_held());
        // One that only fills up at the beginning does not.
        let filling: Vec<f64> = (0..36).map(|n| if n < 6 { 1.0 } else { 0.0 }).collect();
        let filling = backlog(&filling);
        assert!(filling.ratio > 1.0 && !filling.grows(), "{filling:?}");
        // Changes that make up for each other, and those of which too little is known.
        let even: Vec<f64> = (0..60).map(|n| if n % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let even = backlog(&even);
        assert!(even.is_held() && !even.grows(), "{even:?}");
        let unknown = backlog(&[2.0, -2.0, 2.0, 1.0]);
        assert!(!unknown.is_held() && !unknown.grows(), "{unknown:?}");
        assert_eq!(Backlog::of(&[], 4, 1.0, 0.0), None);
    }

    /// With 3 users, of whose requests tokens are generated for ten seconds and who kept the drive
    /// 51 % busy, requests were said to pile up.
    #[test]
    fn requests_that_begin_to_generate_tokens_are_no_backlog() {
        // Two begin in each second, and the first end after ten.
        let begun: Vec<f64> = (0..12).map(|n| if n < 10 { 2.0 } else { 0.0 }).collect();
        for (generation_s, grows) in [(0.0, true), (24.0 * 10.0, false)] {
            let backlog = Backlog::of(&begun, 24, 12.0, generation_s).unwrap();
            assert_eq!(backlog.grows(), grows, "{backlog:?}");
        }
        // Beyond as many there is one.
        let begun = [2.0; 24];
        assert!(Backlog::of(&begun, 48, 24.0, 48.0 * 10.0).unwrap().grows());
    }
}
