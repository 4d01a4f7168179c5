//! Text of a search for users: its answer, and the curve of what each number of users came to.

use ringfall_host::human_time as time;
use ringfall_model::Document;
use ringfall_model::autoscaling::{self, AutoscalerReport, CurvePoint};
use ringfall_model::stats::tail;

use super::table::{Mark, Table, fixed};
use super::terminal::Summary;

impl Summary<'_> {
    /// Writes what a search for users found; nothing without one.
    pub(super) fn search(&mut self) {
        for (label, line) in autoscaling::lines(self.result) {
            self.labelled(label, &line);
        }
        if let Some((legend, table)) = curve(self.document) {
            self.labelled("curve", &legend);
            self.table(&table);
        }
    }
}

/// Curve of a result's search for users, and what its columns are; none without one, and where the
/// steps are those of several searches.
pub(super) fn curve(document: &Document) -> Option<(String, Table)> {
    let ours = &document.ringfall;
    let search = ours.autoscaler.as_ref().filter(|search| !search.curve.is_empty())?;
    let is_of_one = ours.merged.is_none() || search.ranks.known().is_some();
    is_of_one.then(|| (legend(search), steps(search)))
}

fn legend(search: &AutoscalerReport) -> String {
    let (columns, sign) = match Judged::of(search) {
        Judged::Entries { verb } => (
            format!(
                "; used: of the highest throughput; {verb} P95: the device's time for an entry"
            ),
            "; x: first beyond it",
        ),
        Judged::Requests => {
            ("; saturation: the worst figure over its target".to_owned(), "; x: first beyond it")
        }
        Judged::Throughput => (String::new(), ""),
    };
    let busy = search.curve.iter().any(|step| step.drive_busy_share.is_some());
    let busy = if busy { "; busy: the drive" } else { "" };
    format!("reuse: earlier turns found; load: of a context{columns}{busy}; <-: the answer{sign}")
}

/// Figures by which a search judges a step.
enum Judged {
    /// Mode qos: the storage tier's, with the direction of the entries whose latency counts.
    Entries { verb: &'static str },
    /// Mode slo: the latency of requests.
    Requests,
    /// Mode capacity: the throughput alone.
    Throughput,
}

impl Judged {
    fn of(search: &AutoscalerReport) -> Judged {
        let broke = search.qos_broke.as_ref().and_then(|broke| broke.part.as_deref());
        match search.mode.as_ref().map(String::as_str) {
            Some("qos") if broke.is_some_and(|part| part.contains("write")) => {
                Judged::Entries { verb: "write" }
            }
            Some("qos") => Judged::Entries { verb: "read" },
            Some("slo") => Judged::Requests,
            _ => Judged::Throughput,
        }
    }
}

/// Users of the first step beyond the answer, and the figure that broke there, as its column is
/// called; none where no step was beyond it.
fn first_beyond(search: &AutoscalerReport) -> Option<(u32, &str)> {
    let broke = search.qos_broke.as_ref()?;
    let figure = match broke.part.as_deref() {
        None => "no answers",
        Some("context load") => "load P95",
        Some("storage throughput") => "used",
        Some("storage read latency") => "read P95",
        Some("storage write latency") => "write P95",
        Some("storage queue" | "request queue") => "queue",
        Some("request backlog") => "backlog",
        Some(class_or_reuse) => class_or_reuse,
    };
    Some((broke.users.known()?, figure))
}

/// Steps of a search, a row for each number of users, with the figures that decide.
fn steps(search: &AutoscalerReport) -> Table {
    let answer = search.peak_users.known().or(search.qos_users.known());
    let beyond = first_beyond(search);
    let mark = |step: &CurvePoint| match (step.users.known(), beyond) {
        (Some(users), _) if Some(users) == answer => ("<-".to_owned(), Mark::Good),
        (Some(users), Some((most, figure))) if users == most => (format!("x {figure}"), Mark::Bad),
        _ => (String::new(), Mark::Plain),
    };
    let whole = |share: f64| format!("{:.0} %", share * 100.0);
    let told = |ms: Option<f64>| ms.map(time);
    let load_p95 = |step: &CurvePoint| tail(step.loads?, step.load_ms.map(|[_, p95]| p95));
    let judged = Judged::of(search);
    let mut table = Table::of(search.decisive_steps())
        .count("users", |step| step.users.known())
        .number("GiB/s", fixed(2), |step| step.gib_per_s.known());
    if let Judged::Entries { .. } = judged {
        table = table.number("used", whole, |step| step.used_share);
    }
    table = table
        .number("reuse", whole, |step| step.reuse_share)
        .count("load P50", |step| told(step.load_ms.map(|[p50, _]| p50)))
        .count("load P95", |step| told(load_p95(step)))
        .count("KV I/O P95", |step| told(step.storage_io_p95_ms));
    table = match judged {
        Judged::Entries { verb: "write" } => {
            table.count("write P95", |step| told(step.write_device_p95_ms))
        }
        Judged::Entries { .. } => table.count("read P95", |step| told(step.read_device_p95_ms)),
        Judged::Requests => table.number("saturation", fixed(2), |step| step.saturation),
        Judged::Throughput => table,
    };
    if search.curve.iter().any(|step| step.drive_busy_share.is_some()) {
        table = table.number("busy", whole, |step| step.drive_busy_share);
    }
    table.text("", |step| mark(step).0).marked(|step| mark(step).1).done()
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::GIB;
    use ringfall_model::testing::nothing;
    use ringfall_model::{Document, RunResult};
    use ringfall_workloads::autoscale::{
        Act, Answer, CapacityAnswer, Conclusion, Entry, Mode, Part, QosAnswer, QosBreak,
        StepResult, StorageLoad,
    };

    use super::super::Style;
    use super::super::terminal::summary;

    fn step(users: u32, window_s: f64, rate_gib: f64) -> Entry {
        Entry {
            result: StepResult {
                users,
                window_s,
                bytes_per_s: rate_gib * GIB as f64,
                storage: StorageLoad {
                    read_device_p95_ns: Some(860_000_000),
                    ..StorageLoad::default()
                },
                loads: 50,
                load_ns: Some([20_000_000, 1_500_000_000]),
                storage_io_p95_ns: Some(12_000_000_000),
                reuse_share: Some(0.7),
                drive_busy_share: Some(0.421),
                saturation: Some(rate_gib / 2.0),
                used_share: Some(rate_gib / 2.0),
                ..StepResult::default()
            },
            act: Act::Hold,
        }
    }

    /// Rows of the curve of a search over 8, 4 and 2 users, the lines of its legend, and its head.
    fn shown(mode: Mode, answer: Answer) -> (String, String, Vec<String>) {
        let mut result: RunResult = nothing();
        result.autoscale = Some(Conclusion {
            mode,
            initial_users: 2,
            conclusive: true,
            reason: "a reason ".repeat(20),
            answer,
            entries: vec![
                step(8, 35.0, 1.9),
                step(8, 5.0, 2.0),
                step(4, 5.0, 1.7),
                step(2, 5.0, 1.0),
                step(4, 30.0, 1.5),
            ],
        });
        let text = summary(Style { colour: false }, &result, &Document::of(&result));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with("curve "));
        let legend: Vec<&str> =
            lines.by_ref().take_while(|line| !line.contains("load P50")).collect();
        let head = text.lines().find(|line| line.contains("load P50")).unwrap();
        let rows = lines.take(3).map(words).collect();
        (words(&legend.join(" ")), words(head), rows)
    }

    /// The answer's curve stood in the JSON and on the page alone, and its lines left the screen. A
    /// repeated step was left out if it was the shorter one, though it had decided.
    #[test]
    fn numbers_of_users_stand_in_order_and_each_by_the_step_that_decided() {
        let answer = Answer::Capacity(Some(CapacityAnswer {
            peak_bytes_per_s: 2.0 * GIB as f64,
            knee_bytes_per_s: 2.0 * GIB as f64,
            peak_users: 4,
            peak_tokens_per_s: 1.0,
            flat_from: None,
            usl: None,
            confirmed: true,
        }));
        let (_, head, rows) = shown(Mode::Capacity, answer);
        assert_eq!(head, "users GiB/s reuse load P50 load P95 KV I/O P95 busy");
        let row = |users: u32, rate: &str, mark: &str| {
            format!("{users} {rate} 70 % 20.0 ms 1.50 s 12.0 s 42 %{mark}")
        };
        assert_eq!(rows, [row(2, "1.00", ""), row(4, "1.50", " <-"), row(8, "2.00", "")]);
    }

    /// The curve had neither the figure by which a step was judged nor the step that broke.
    #[test]
    fn the_first_step_beyond_the_answer_is_marked_with_its_figure() {
        let answer = |part| {
            let broke = QosBreak {
                users: 8,
                part: Some(part),
                saturation: Some(1.0),
                largest_part: "storage",
                largest_share: 1.0,
            };
            Answer::Qos(QosAnswer { users: 4, confirmed: true, broke: Some(broke) })
        };
        let (legend, head, rows) = shown(Mode::Qos, answer(Part::StorageRead));
        assert_eq!(head, "users GiB/s used reuse load P50 load P95 KV I/O P95 read P95 busy");
        let row = |rate: &str, used: u32, mark: &str| {
            format!("{rate} {used} % 70 % 20.0 ms 1.50 s 12.0 s 860 ms 42 %{mark}")
        };
        let qos = [row("2 1.00", 50, ""), row("4 1.50", 75, " <-"), row("8 2.00", 100, " x used")];
        assert_eq!(rows, qos);
        assert!(legend.contains("used: of the highest throughput"), "{legend}");
        let (_, head, rows) = shown(Mode::Slo, answer(Part::Class(0)));
        assert_eq!(head, "users GiB/s reuse load P50 load P95 KV I/O P95 saturation busy");
        assert_eq!(rows[2], "8 2.00 70 % 20.0 ms 1.50 s 12.0 s 1.00 42 % x interactive");
    }
}
