//! The answer of `ringfall quick` on the terminal, alone or beside that for another drive.

use std::fmt::Write as _;
use std::path::Path;

use ringfall_host::escape::{self, terminal_path};
use ringfall_host::{counted, human_time as time};

use super::prose::{command, wrapped};
use super::table::{Cell, Mark, Medium, Table, fixed, percent, times};
use crate::quick::{
    AVERAGE_LOADS_MIN, CHECK_S_MIN, Check, CheckFigure, LOADS_MIN, LOADS_WANTED, QuickLimits,
    QuickPoint, QuickReport, TURNS_MIN, is_reuse_sure,
};

/// Rows of the curve on a terminal above and below the answer's.
const ROWS_BESIDE: usize = 2;

/// Row of a table of users.
struct Line {
    point: QuickPoint,
    /// Origin of the figures, or the targets that they miss.
    told: String,
    mark: Mark,
}

/// The curve: a row for each of these numbers of users, the answer marked.
pub(super) fn curve(report: &QuickReport, points: &[QuickPoint]) -> Table {
    table(&lines(report, points))
}

fn lines(report: &QuickReport, points: &[QuickPoint]) -> Vec<Line> {
    let line = |point: &QuickPoint| Line {
        point: point.clone(),
        told: told(report, point),
        mark: if point.users <= marked(report) { Mark::Good } else { Mark::Bad },
    };
    points.iter().map(line).collect()
}

/// The runs on the drive in their order, the last one simulated, and its check.
pub(super) fn runs(report: &QuickReport) -> Table {
    let run = |point: &QuickPoint, is_missed: bool| {
        let judged = |load: Option<f64>| load.filter(|_| point.loads >= LOADS_MIN);
        let (load_p50_s, load_p95_s) = (judged(point.load_p50_s), judged(point.load_p95_s));
        let told = match (point.loads >= AVERAGE_LOADS_MIN, is_missed) {
            (false, _) => "run, too few loads",
            (true, true) => "run, missed",
            (true, false) if point.is_without_pauses => "run, no pauses",
            (true, false) => "run",
        };
        Line {
            point: QuickPoint { load_p50_s, load_p95_s, ..point.clone() },
            told: told.to_owned(),
            mark: if is_missed { Mark::Bad } else { Mark::Plain },
        }
    };
    let simulated =
        |point: &QuickPoint, what: &str| Line { told: what.to_owned(), ..run(point, false) };
    let measured = report.runs().map(|one| one.measured);
    let mut lines: Vec<Line> =
        measured.map(|point| run(&point, report.has_missed(point.users))).collect();
    lines.push(simulated(&report.predicted, "run simulated"));
    lines.extend(report.check_predicted.iter().map(|point| simulated(point, "check simulated")));
    table(&lines)
}

fn table(lines: &[Line]) -> Table {
    let s = |value: Option<f64>| value.map(|seconds| time(seconds * 1e3));
    Table::of(lines)
        .count("users", |line| line.point.users)
        .number("GiB/s", fixed(2), |line| line.point.gib_per_s)
        .count("loads", |line| line.point.loads)
        .count("load P50", |line| s(line.point.load_p50_s))
        .count("load P95", |line| s(line.point.load_p95_s))
        .only(Medium::Page)
        .count("KV I/O P95", |line| s(line.point.kv_io_p95_s))
        .everywhere()
        .number("busy", percent, |line| line.point.drive_busy_share)
        .count("found", |line| found(&line.point))
        .text("", |line| Cell::Marked(line.told.clone(), line.mark))
        .done()
}

/// Share of earlier turns found; of few turns, their numbers.
fn found(point: &QuickPoint) -> Option<String> {
    let share = point.reuse_share?;
    Some(match point.earlier_turns {
        Some(turns @ ..TURNS_MIN) => format!("{:.0}/{turns}", share * turns as f64),
        _ => percent(share),
    })
}

/// Number of users that the curve marks: the answer, or the simulation's where there is none.
fn marked(report: &QuickReport) -> u32 {
    report.answer().unwrap_or(report.served().users)
}

/// Rows of the curve around the answer, as many as a terminal shows.
fn rows_near(report: &QuickReport) -> &[QuickPoint] {
    let at = report.curve.partition_point(|point| point.users < marked(report));
    let most = report.runs().map(|run| run.measured.users).max().unwrap_or(0);
    let tried = report.curve.partition_point(|point| point.users <= most);
    let end = report.curve.len().min(at + ROWS_BESIDE + 1).max(tried);
    &report.curve[at.saturating_sub(ROWS_BESIDE)..end]
}

/// Sentence that explains the columns of the curve.
fn columns(report: &QuickReport) -> String {
    let speed =
        report.speed_told().map(|speed| format!(", of a drive {speed}")).unwrap_or_default();
    format!(
        "All rows are simulated with space for every turn{speed} (*: not run on the drive); found: \
         turns found again in {:.1} GiB; busy: time in which the simulated drive works.",
        report.space_gib
    )
}

/// Sentences that explain the columns of the curve, and what stands in these rows of it.
pub(super) fn legend(report: &QuickReport, points: &[QuickPoint]) -> Vec<String> {
    let mut sentences = vec![columns(report)];
    let is_quicker = |one: &QuickPoint, two: &QuickPoint| {
        one.load_p50_s > two.load_p50_s || one.load_p95_s > two.load_p95_s
    };
    if points.windows(2).any(|pair| is_quicker(&pair[0], &pair[1])) {
        sentences.push(
            "Context sizes differ from user to user, so more users may load more quickly."
                .to_owned(),
        );
    }
    sentences
}

/// Targets that a number of users misses, and the answer; after a star where that is by simulation
/// alone.
fn told(report: &QuickReport, point: &QuickPoint) -> String {
    let is_run = report.runs().any(|run| run.measured.users == point.users);
    let star = if is_run { "" } else { "* " };
    if point.users == marked(report) {
        return match report.answer() {
            Some(_) => format!("{star}<- the answer"),
            None => format!("{star}<- by simulation"),
        };
    }
    if report.has_missed(point.users) {
        return "missed on the drive".to_owned();
    }
    let near = (!is_reuse_sure(point, report.reuse_share)).then(|| match report.is_lost(point) {
        true => "too few found",
        false => "barely enough found",
    });
    let slow = report.is_slow(point).then_some("too slow");
    let missed = slow.into_iter().chain(near).collect::<Vec<_>>().join(", ");
    format!("{star}{missed}").trim_end().to_owned()
}

/// Page of a report, which `answer` has, and of another one that it is set beside.
pub fn quick_page(report: &QuickReport, other: Option<&QuickReport>, answer: &Path) -> String {
    let mut page = String::from("\n");
    let mut labelled =
        |label: &str, text: &str| wrapped(&mut page, &format!("  {label:<10} "), text);
    labelled("verdict", &report.verdict);
    labelled("rule", &format!("{}, {}", report.model, report.rule()));
    if let Some(range) = report.range() {
        labelled("range", &range);
    }
    // The verdict on a drive on which not even one user is served has its limit.
    if let Some(limit) = report.limit().filter(|_| report.answer() != Some(0)) {
        labelled("limit", &limit);
    }
    let limits = report.limits;
    let mixed = limits.mixed_gib_per_s.map(|rate| format!(", both at once {rate:.2} GiB/s"));
    labelled(
        "drive",
        &format!(
            "{}: read {:.2} GiB/s, write {:.2} GiB/s{}",
            report.drive,
            limits.read_gib_per_s,
            limits.write_gib_per_s,
            mixed.unwrap_or_default()
        ),
    );
    labelled(
        "space",
        &format!(
            "{:.1} GiB (--space) are enough for {} at {:.2} GiB a turn",
            report.space_gib,
            counted(report.served_by_space.users.into(), "user"),
            report.turn_gib
        ),
    );
    labelled("runs", &report.runs_told());
    for doubt in report.doubts() {
        labelled("trust", &doubt);
    }
    let points = rows_near(report);
    let _infallible = writeln!(page, "\n{}", curve(report, points).page().trim_end());
    wrapped(&mut page, "  ", &legend(report, points).join(" "));
    if let Some(other) = other {
        page.push_str(&beside_lines(other, report));
        wrapped(&mut page, "  ", "`ringfall compare` of both prints checks with one load.");
    }
    page.push('\n');
    let steps = steps(report, answer);
    command(&mut page, "  check      ", &steps.check);
    wrapped(&mut page, "             ", &steps.told);
    command(&mut page, "  then       ", &steps.compare);
    page
}

/// Sentence on checks of answers one of which was measured under a limit; none where none was.
pub(super) fn limited(reports: &[&QuickReport]) -> Option<&'static str> {
    let is_limited = |report: &&QuickReport| {
        report.machine.as_ref().is_some_and(|machine| !machine.throttles.is_empty())
    };
    reports
        .iter()
        .any(is_limited)
        .then_some("Check a limited drive in the cgroup that `ringfall quick` was in.")
}

/// Commands that check an answer.
pub(super) struct Steps {
    /// The longer run.
    pub(super) check: String,
    /// Sentences on its length and its place.
    pub(super) told: String,
    /// Comparison of its result with the answer.
    pub(super) compare: String,
}

/// Length of a check of so many minutes, and the reason for it.
fn length(minutes: u64) -> String {
    match minutes * 60 > CHECK_S_MIN {
        true => format!("{minutes} min, in which {LOADS_WANTED} loads and requests end"),
        false => format!("{minutes} min, the least for a check"),
    }
}

/// The commands that check a report, which `answer` has.
pub(super) fn steps(report: &QuickReport, answer: &Path) -> Steps {
    let stem = answer.file_stem().unwrap_or_default().to_string_lossy();
    let result = answer.with_file_name(format!("{stem}-check.json")).display().to_string();
    let compare = format!(
        "ringfall compare {} {}",
        escape::shell(&answer.display().to_string()),
        escape::shell(&result)
    );
    let length = format!("It takes {}.", length(report.check_minutes()));
    let told = [&*length].into_iter().chain(limited(&[report])).collect::<Vec<_>>().join(" ");
    Steps { check: report.check_line(&result), told, compare }
}

/// Page of an answer and the result of its check.
pub fn check_page(report: &QuickReport, check: &Check) -> String {
    let name = |figure: &CheckFigure| match &figure.target {
        Some(target) => format!("{}, {target}", figure.name),
        None => figure.name.to_owned(),
    };
    let mut page = String::new();
    wrapped(&mut page, "  check      ", &check.finding);
    if check.figures.is_empty() {
        return page;
    }
    let table = Table::of(&check.figures)
        .text("", name)
        .count("expected", |figure| figure.expected.map(figure.unit))
        .count("by chance (95 %)", |figure| figure.interval.map(|_| figure.interval_told()))
        .count("measured", |figure| figure.measured.map(figure.unit))
        .number("off", |off| format!("{:+.0} %", off * 100.0), CheckFigure::deviation)
        .done();
    page.push_str(&table.page());
    let has = |of: fn(&CheckFigure) -> bool| check.figures.iter().any(of);
    if has(|figure| figure.interval.is_some()) {
        let told = "By chance is what the load alone brings, on a drive that keeps its speed.";
        wrapped(&mut page, "  ", told);
    }
    let load = report.answer().and_then(|users| report.load_of(users));
    if let Some(load) = load.filter(|_| has(|figure| figure.expected.is_some())) {
        let told = format!(
            "Expected is this run simulated in {:.1} GiB, from an empty cache; the answer's load \
             P95, {}, is with space for every turn.",
            report.space_gib,
            time(load * 1e3)
        );
        wrapped(&mut page, "  ", &told);
    }
    page
}

/// Lines that set a report beside another, their drives in the order given, and the commands that
/// put one load on both.
pub fn beside_page(first: &QuickReport, other: &QuickReport) -> String {
    let mut page = beside_lines(first, other);
    for report in [first, other] {
        for doubt in report.doubts() {
            wrapped(&mut page, &format!("  note: {}: ", report.place), &doubt);
        }
    }
    let checks = checks(first, other);
    wrapped(&mut page, "  ", &checks.told);
    for line in checks.lines {
        command(&mut page, "  check      ", &line);
    }
    if let Some(limited) = limited(&[first, other]) {
        wrapped(&mut page, "  ", limited);
    }
    page
}

/// Lines that set a report beside another.
fn beside_lines(first: &QuickReport, other: &QuickReport) -> String {
    let mut page = String::new();
    for line in beside_notes(first, other) {
        wrapped(&mut page, "  ", &line);
    }
    let _infallible = writeln!(page, "\n{}", beside(first, other).page().trim_end());
    page
}

/// Number of users that both drives are compared by: the smaller of their checks.
fn users_of_both(first: &QuickReport, other: &QuickReport) -> u32 {
    first.checked_users().min(other.checked_users())
}

/// Commands that put one load on both drives.
pub(super) struct Checks {
    /// Sentence before them.
    pub(super) told: String,
    pub(super) lines: Vec<String>,
}

/// The check of each report, with the same number of users in the same space.
pub(super) fn checks(first: &QuickReport, other: &QuickReport) -> Checks {
    let users = users_of_both(first, other);
    let space_gib = first.space_gib.min(other.space_gib);
    // More users of the other answer load as often in less time.
    let of_fewest = [first, other].into_iter().filter(|report| report.checked_users() == users);
    let minutes = of_fewest.map(QuickReport::check_minutes).max().unwrap_or(0);
    let is_own = |report: &&QuickReport| {
        report.checked_users() == users
            && report.space_gib == space_gib
            && report.check_minutes() == minutes
    };
    let own: Vec<&str> =
        [first, other].into_iter().filter(is_own).map(|report| report.place.as_str()).collect();
    let own = match &own[..] {
        [] => String::new(),
        own => format!(" The one of {} checks its own answer, too.", own.join(" and of ")),
    };
    let told = format!(
        "Both checks put {} in {space_gib:.1} GiB for {}.{own} Then: ringfall compare check1.json \
         check2.json",
        counted(users.into(), "user"),
        length(minutes)
    );
    let lines = vec![
        first.run_line_of(users, space_gib, minutes, "check1.json"),
        other.run_line_of(users, space_gib, minutes, "check2.json"),
    ];
    Checks { told, lines }
}

/// Figures of both reports for one number of users.
struct Shared<'a> {
    users: u32,
    first: &'a QuickPoint,
    other: &'a QuickPoint,
}

impl<'a> Shared<'a> {
    /// Those of the largest number of users that both curves have and both drives serve, or of one
    /// user.
    fn of(first: &'a QuickReport, other: &'a QuickReport) -> Option<Shared<'a>> {
        let most = users_of_both(first, other);
        let mut served = first.curve.iter().rev().filter(|point| point.users <= most);
        served.find_map(|point| {
            let users = point.users;
            let other = other.curve.iter().find(|point| point.users == users)?;
            Some(Shared { users, first: point, other })
        })
    }

    /// Ratio of the other's load P95 to the first's; none where either has no loads.
    fn load_ratio(&self) -> Option<f64> {
        let (one, two) = (self.first.load_p95_s?, self.other.load_p95_s?);
        (one > 0.0 && two > 0.0).then(|| two / one)
    }
}

/// Sentence on which of two drives is better: by the users that each serves, and by the load P95 of
/// as many users on both.
fn better(first: &QuickReport, other: &QuickReport) -> Option<String> {
    let shared = Shared::of(first, other)?;
    let ratio = shared.load_ratio()?;
    let (quick, slow) = if ratio >= 1.0 { (first, other) } else { (other, first) };
    let times = ratio.max(1.0 / ratio);
    let served = quick.answer().zip(slow.answer()).map(|(most, least)| {
        format!(
            "{} serves {} within the rule, and {} {least}; ",
            quick.place,
            counted(most.into(), "user"),
            slow.place
        )
    });
    let users = counted(shared.users.into(), "user");
    let (quick, slow) = (&quick.place, &slow.place);
    let varied = [first, other].map(|report| 1.0 + report.limits_deviation.unwrap_or(0.0));
    let by_chance = varied.iter().product();
    let speed = if times < ALIKE_WITHIN {
        format!("{quick} and {slow} load about equally quickly: P95 of {users}")
    } else if times < by_chance {
        format!(
            "no difference in speed is shown: the load P95s of {users} are {times:.1}× apart, and \
             the drives' speeds varied by {by_chance:.1}× while their limits were measured"
        )
    } else {
        format!("{slow} is about {times:.1}× slower: load P95 of {users} by simulation")
    };
    let unsure: Vec<&str> = [first, other]
        .into_iter()
        .filter(|report| !report.is_borne_out())
        .map(|report| report.place.as_str())
        .collect();
    let unsure = match &unsure[..] {
        [] => String::new(),
        unsure => format!(" (no run bears out the answer for {})", unsure.join(" and ")),
    };
    Some(format!("{}{speed}{unsure}.", served.unwrap_or_default()))
}

/// Ratio of two load P95s below which they are called equal: about what two measurements of one
/// drive differ by.
const ALIKE_WITHIN: f64 = 1.1;

/// Sentences on how two reports differ, and on what makes them differ besides their drives.
pub(super) fn beside_notes(first: &QuickReport, other: &QuickReport) -> Vec<String> {
    let mut notes = Vec::new();
    let differs = unlike(first, other);
    if !differs.is_empty() {
        let (what, flags): (Vec<_>, Vec<_>) = differs.iter().copied().unzip();
        notes.push(format!(
            "The two differ in their {}, and the users served can't be compared: give the second \
             the {} of the first.",
            what.join(", "),
            flags.join(", ")
        ));
    }
    let has_other_space = first.space_gib != other.space_gib;
    if has_other_space && differs.is_empty() {
        notes.push(format!(
            "Space differs ({:.1} and {:.1} GiB): it bears on turns found, and not on loads.",
            first.space_gib, other.space_gib
        ));
    }
    let open = inconclusive(first, other);
    if !open.is_empty() {
        notes.push(format!("No conclusion can be drawn, since {}.", open.join("; ")));
    }
    let is_one_drive = first.is_of_one_drive(other);
    let limits = first.limited_unlike(other).filter(|_| is_one_drive);
    let is_one_system = is_one_drive && limits.is_none();
    let drive = format!("{} of {}", first.drive, first.host.as_deref().unwrap_or_default());
    if let Some(limits) = limits {
        notes.push(format!(
            "Both answers are for one drive ({drive}) under different limits ({limits}): the \
             ratios are those of the limits."
        ));
    } else if is_one_drive {
        notes.push(format!(
            "Both answers are for one drive ({drive}): they differ by chance or time, not by \
             their drives."
        ));
    }
    if !is_one_system && differs.is_empty() && open.is_empty() {
        notes.extend(better(first, other));
    }
    notes
}

/// Reasons why one of the answers says nothing of its drive, each with its place.
fn inconclusive(first: &QuickReport, other: &QuickReport) -> Vec<String> {
    let told = |one: &QuickReport| Some(format!("{}: {}", one.place, one.why_inconclusive()?));
    [first, other].into_iter().filter_map(told).collect()
}

/// Settings for which the users that two drives serve can't be compared, each with its flag; empty
/// where they can.
fn unlike(first: &QuickReport, other: &QuickReport) -> Vec<(&'static str, &'static str)> {
    let is_by_space = [first, other].iter().any(|one| one.served() == one.served_by_space);
    [
        (("models", "--model"), first.model != other.model),
        (("seeds", "--seed"), first.seed != other.seed),
        (("space", "--space"), first.space_gib != other.space_gib && is_by_space),
        (("rules", "--slo"), first.served_rule() != other.served_rule()),
    ]
    .into_iter()
    .filter_map(|(setting, differs)| differs.then_some(setting))
    .collect()
}

/// Figure of two reports.
struct Row<'a> {
    name: &'a str,
    first: Option<f64>,
    other: Option<f64>,
    unit: fn(f64) -> String,
    /// Whether it is the drive's, whatever was asked of it.
    is_of_drive: bool,
}

/// Two reports side by side, with the ratio of the second to the first.
pub(super) fn beside(first: &QuickReport, other: &QuickReport) -> Table {
    let gib = |value: f64| format!("{value:.2} GiB/s");
    let s = |value: f64| time(value * 1e3);
    let count = |value: f64| format!("{value:.0}");
    let shared = Shared::of(first, other);
    let named =
        shared.as_ref().map(|at| format!("load P95 of {}", counted(at.users.into(), "user")));
    let users = |name, first: Option<u32>, other: Option<u32>| Row {
        name,
        first: first.map(f64::from),
        other: other.map(f64::from),
        unit: count,
        is_of_drive: false,
    };
    let limits = |name, of: fn(QuickLimits) -> Option<f64>| Row {
        name,
        first: of(first.limits),
        other: of(other.limits),
        unit: gib,
        is_of_drive: true,
    };
    let mut rows = vec![
        users("users served", first.answer(), other.answer()),
        limits("reads", |limits| Some(limits.read_gib_per_s)),
        limits("writes", |limits| Some(limits.write_gib_per_s)),
        limits("both at once", |limits| limits.mixed_gib_per_s),
    ];
    if let Some((at, name)) = shared.as_ref().zip(named.as_deref()) {
        let (first, other) = (at.first.load_p95_s, at.other.load_p95_s);
        rows.push(Row { name, first, other, unit: s, is_of_drive: false });
    }
    let is_alike = unlike(first, other).is_empty() && inconclusive(first, other).is_empty();
    let [one, two] = [first, other].map(|report| terminal_path(Path::new(&report.place)));
    Table::of(&rows)
        .text("", |row| row.name)
        .count(&one, |row| row.first.map(row.unit))
        .count(&two, |row| row.other.map(row.unit))
        .number("ratio", times, |row| {
            let (first, other) = (row.first?, row.other?);
            // A drive that serves nobody is not so many times as good, and neither is one whose
            // users are of another rule.
            (first > 0.0 && other > 0.0 && (is_alike || row.is_of_drive)).then(|| other / first)
        })
        .done()
}
