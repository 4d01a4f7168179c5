//! Text of a run's progress.

mod live;

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_core::key::Tier;
use ringfall_core::units::gib;

use ringfall_host::counted;
use ringfall_running::run::{Phase, Progress, SecondFigures, Timeline};

pub use live::live_text;

/// `, about 12 s left` at the pace so far, once there is something to judge it by.
pub fn time_left(elapsed_s: f64, done: u64, of: u64) -> String {
    if done == 0 || elapsed_s < 1.0 {
        return String::new();
    }
    let left = of.saturating_sub(done) as f64 / done as f64;
    format!(", about {:.0} s left", (elapsed_s * left).ceil())
}

/// Text of the population's progress, and the time left at the pace so far.
fn populating(progress: &Progress<'_>) -> String {
    let (done, all) = (progress.status.populated, progress.status.population);
    if all == 0 {
        return "about to populate".to_owned();
    }
    let left = time_left(progress.elapsed.as_secs_f64(), done, all);
    format!("populating: {done} of {all} entries written{left}")
}

/// Text of the wait before the load begins.
fn gathering(progress: &Progress<'_>) -> String {
    match (progress.awaits, progress.left) {
        ("", Nanos::MAX) => "ready, and waiting for the others".to_owned(),
        ("", left) => format!("ready: the load begins in {} s", left.div_ceil(SECOND)),
        (awaits, _) => awaits.to_owned(),
    }
}

/// Text that says how far a run has come.
pub fn progress_text(progress: &Progress<'_>) -> String {
    let Some(waiting) = &progress.waiting else { return line_of_phase(progress) };
    // In the place of figures, of which a slow drive gives none, and which leave no room.
    let far = match progress.phase {
        Phase::WarmUp | Phase::Measure => format!(" {} s", progress.left.div_ceil(SECOND)),
        Phase::Populate => format!(" {}/{}", progress.status.populated, progress.status.population),
        _ => String::new(),
    };
    format!("{}{far} | {waiting}", progress.phase)
}

/// Seconds that every shard has surely reported: all but the newest.
fn reported(timeline: &Timeline) -> &[SecondFigures] {
    timeline.seconds().split_last().map_or(&[], |(_, before)| before)
}

/// `1 user, ` or `9 users, `; empty where their number is not known.
fn users(progress: &Progress<'_>) -> String {
    progress.users.map_or(String::new(), |users| format!("{}, ", counted(users.into(), "user")))
}

fn line_of_phase(progress: &Progress<'_>) -> String {
    let phase = match progress.phase {
        Phase::Populate => return populating(progress),
        Phase::Gather => return gathering(progress),
        phase @ (Phase::WarmUp | Phase::Measure) => phase.doing(),
        Phase::Drain if progress.is_interrupted => {
            return "ending what is in flight… (a second signal leaves the data file behind)"
                .to_owned();
        }
        phase @ (Phase::Drain
        | Phase::Open
        | Phase::Precondition
        | Phase::Assemble
        | Phase::Report) => return format!("{phase}…"),
    };
    let left_s = progress.left.div_ceil(SECOND);
    let status = &progress.status;
    let users = users(progress);
    let mut line =
        format!("{phase} {left_s} s | {users}{} running, {} queued", status.serving, status.queued);
    if let Some(second) = reported(progress.timeline).last() {
        let storage = &second.row.tiers[Tier::Storage.index()];
        line.push_str(&format!(
            " | read {:.2} write {:.2} GiB/s",
            gib(storage.read.bytes),
            gib(storage.write.bytes)
        ));
        let [read, _] = second.latencies(Tier::Storage);
        if let Some(p95_ns) = read.and_then(|latency| latency.quantile_ns(0.95)) {
            line.push_str(&format!(" | read P95 {:.0} ms", p95_ns as f64 / 1e6));
        }
    }
    if status.errors > 0 {
        line.push_str(&format!(" | {}", counted(status.errors, "error")));
    }
    line
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ringfall_core::placement::{BudgetConfig, SharedBudgets, Watermarks};
    use ringfall_running::driver::ShardStatus;
    use ringfall_running::run::SlowIos;

    use super::progress_text as line;
    use super::*;

    /// Seconds and space of a run that has measured nothing.
    pub(super) struct Begun {
        pub(super) timeline: Timeline,
        budgets: Arc<SharedBudgets>,
    }

    impl Begun {
        pub(super) fn new() -> Begun {
            let budgets = SharedBudgets::new(&BudgetConfig {
                shards: 1,
                gpu_bytes: 0,
                cpu_bytes: 0,
                storage_blocks: 1,
                segment_blocks: 1,
                slot_blocks: 1,
                watermarks: Watermarks::default(),
            });
            Begun { timeline: Timeline::default(), budgets }
        }

        /// The run in a phase that has just begun, and of which nobody knows when it ends.
        pub(super) fn at(&self, phase: Phase) -> Progress<'_> {
            Progress {
                phase,
                left: Nanos::MAX,
                elapsed: Nanos::ZERO,
                status: ShardStatus::default(),
                timeline: &self.timeline,
                budgets: &self.budgets,
                users: None,
                awaits: "",
                waiting: None,
                is_interrupted: false,
            }
        }
    }

    #[test]
    fn the_time_left_follows_from_what_is_done() {
        assert_eq!(time_left(10.0, 1, 4), ", about 30 s left");
        assert_eq!(time_left(0.0, 1, 4), "");
        assert_eq!(time_left(5.0, 0, 1), "");
    }

    #[test]
    fn a_population_says_how_long_it_still_takes() {
        let begun = Begun::new();
        let populating = |populated| Progress {
            elapsed: 10 * SECOND,
            status: ShardStatus { populated, population: 300, ..ShardStatus::default() },
            ..begun.at(Phase::Populate)
        };
        let text = line(&populating(100));
        assert_eq!(text, "populating: 100 of 300 entries written, about 20 s left");
        assert_eq!(line(&populating(0)), "populating: 0 of 300 entries written");
    }

    #[test]
    fn a_slow_drive_is_told_in_every_phase() {
        let begun = Begun::new();
        let waiting = SlowIos { on: "drive", ios: 65_536, oldest: 1_280 * SECOND };
        for (phase, start) in [
            (Phase::Populate, "populating 100/300 | "),
            (Phase::WarmUp, "warming up 86400 s | "),
            (Phase::Measure, "measuring 86400 s | "),
            (Phase::Drain, "ending what is in flight | "),
        ] {
            let text = line(&Progress {
                left: 86_400 * SECOND,
                elapsed: SECOND,
                status: ShardStatus { populated: 100, population: 300, ..ShardStatus::default() },
                waiting: Some(waiting),
                is_interrupted: true,
                ..begun.at(phase)
            });
            let told = "waiting for the drive: 65536 I/Os, the oldest for 1280 s";
            assert_eq!(text, format!("{start}{told}"));
        }
    }

    #[test]
    fn one_user_is_told_in_the_singular() {
        let begun = Begun::new();
        let of = |users| line(&Progress { users, left: SECOND, ..begun.at(Phase::Measure) });
        assert_eq!(of(Some(1)), "measuring 1 s | 1 user, 0 running, 0 queued");
        assert_eq!(of(Some(2)), "measuring 1 s | 2 users, 0 running, 0 queued");
        assert_eq!(of(None), "measuring 1 s | 0 running, 0 queued");
    }

    #[test]
    fn an_interrupted_run_says_what_a_second_signal_does() {
        let begun = Begun::new();
        let ending = |is_interrupted| line(&Progress { is_interrupted, ..begun.at(Phase::Drain) });
        assert!(ending(true).contains("a second signal") && ending(true).chars().count() < 80);
        assert!(!ending(false).contains("signal"));
    }

    #[test]
    fn whoever_waits_says_for_whom() {
        let begun = Begun::new();
        let gathering = |awaits, left| line(&Progress { awaits, left, ..begun.at(Phase::Gather) });
        assert_eq!(gathering("waiting for rank 2", Nanos::MAX), "waiting for rank 2");
        assert_eq!(gathering("", Nanos::from_ms(1_500)), "ready: the load begins in 2 s");
    }
}
