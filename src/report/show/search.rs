//! Terminal text of a search for users: its answer, and what each number of users came to.

use ringfall_host::human_time as time;
use ringfall_model::autoscaling::{self, AutoscalerReport, CurvePoint};

use super::table::{Table, fixed};
use super::terminal::Summary;

impl Summary<'_> {
    /// Writes what a search for users found; nothing without one.
    pub(super) fn search(&mut self) {
        for (label, line) in autoscaling::lines(self.result) {
            self.labelled(label, &line);
        }
        let document = self.document;
        let Some(search) = document.ringfall.autoscaler.as_ref() else { return };
        if search.curve.is_empty() {
            return;
        }
        self.labelled(
            "curve",
            "by users: P50 and P95 of reading an entry, and P95 of the requests of each class",
        );
        self.table(&curve(search));
    }
}

/// Steps of a search, a row for each number of users.
fn curve(search: &AutoscalerReport) -> Table {
    let answer = search.peak_users.known().or(search.qos_users.known());
    let read = |step: &CurvePoint, at: usize| step.read_ms.map(|three| time(three[at]));
    let class = |step: &CurvePoint, at: usize| step.class_p95_ms.known()?[at].map(time);
    let is_answer = |step: &CurvePoint| answer.is_some() && step.users.known() == answer;
    Table::of(search.decisive_steps())
        .count("users", |step| step.users.known())
        .number("GiB/s", fixed(2), |step| step.gib_per_s.known())
        .count("read P50", |step| read(step, 0))
        .count("read P95", |step| read(step, 1))
        .count("interactive", |step| class(step, 0))
        .count("responsive", |step| class(step, 1))
        .count("batch", |step| class(step, 2))
        .number("saturation", fixed(2), |step| step.saturation)
        .text("", |step| if is_answer(step) { "<-" } else { "" })
        .done()
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::GIB;
    use ringfall_model::Document;
    use ringfall_model::testing::nothing;
    use ringfall_workloads::autoscale::{
        Act, Answer, CapacityAnswer, Conclusion, Entry, Mode, StepResult,
    };

    use super::super::Style;
    use super::super::terminal::summary;

    /// The answer's curve stood in the JSON and on the page alone, and its lines left the screen. A
    /// repeated step was left out if it was the shorter one, though it had decided.
    #[test]
    fn numbers_of_users_stand_in_order_and_each_by_the_step_that_decided() {
        let step = |users: u32, window_s: f64, rate_gib: f64| Entry {
            result: StepResult {
                users,
                window_s,
                bytes_per_s: rate_gib * GIB as f64,
                read_ns: Some([20_000_000, 1_500_000_000, 2_000_000_000]),
                class_p95_ns: [Some(3_000_000_000), None, Some(12_000_000_000)],
                saturation: Some(0.5),
                ..StepResult::default()
            },
            act: Act::Hold,
        };
        let mut result = nothing();
        result.autoscale = Some(Conclusion {
            mode: Mode::Capacity,
            initial_users: 2,
            conclusive: true,
            reason: "a reason ".repeat(20),
            answer: Answer::Capacity(Some(CapacityAnswer {
                peak_bytes_per_s: 2.0 * GIB as f64,
                knee_bytes_per_s: 2.0 * GIB as f64,
                peak_users: 4,
                peak_tokens_per_s: 1.0,
                flat_from: None,
                usl: None,
                confirmed: true,
            })),
            entries: vec![
                step(8, 35.0, 1.9),
                step(8, 5.0, 2.1),
                step(4, 5.0, 1.5),
                step(2, 5.0, 1.0),
                step(4, 30.0, 2.0),
            ],
        });
        let text = summary(Style { colour: false }, &result, &Document::of(&result));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let rows = text.lines().skip_while(|line| !line.contains("read P50")).skip(1).take(3);
        let rows: Vec<String> =
            rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let row = |users: u32, rate: &str, mark: &str| {
            format!("{users} {rate} 20.0 ms 1.50 s 3.00 s – 12.0 s 0.50{mark}")
        };
        assert_eq!(rows, [row(2, "1.00", ""), row(4, "2.00", " <-"), row(8, "2.10", "")]);
    }
}
