//! First screen of the page: what limited each run, its figures to see first, and how it went.

use ringfall_host::human_time;
use ringfall_model::document::{LimitKind, Ours, RunLimit};
use ringfall_model::{Code, Document};

use super::bars::{Share, shares};
use super::markup::Html;
use super::page::{Beside, known};
use super::{Named, compare, or_dash, parts, shown};
use crate::show::table::{Table, UNKNOWN, bandwidth as rate_told, percent};
use crate::show::{began, search};
use crate::suite::found;

/// Writes the first screen: cards of one result, or a table of several.
pub(super) fn section(html: &mut Html, results: &[Named]) {
    compare::section(html, results);
    for named in results {
        if results.len() > 1 {
            html.heading(&named.name);
        }
        conclusion(html, &named.document);
    }
    match results {
        [one] => {
            let figures = figures(&one.document).into_iter();
            let cards = figures.filter_map(|figure| Some((figure.told.clone()?, figure.label())));
            html.cards(shown, cards);
        }
        several => {
            html.heading("Figures");
            html.table(&beside(several));
        }
    }
    for named in results {
        curve(html, named, results.len() > 1);
    }
    html.charts(&parts::overview(results));
    for named in results {
        notes(html, named, results.len() > 1);
    }
}

/// Writes what was run and what limited it.
fn conclusion(html: &mut Html, document: &Document) {
    let ours = &document.ringfall;
    let config = ours.config.as_ref();
    let state = match (ours.window.interrupted.known(), ours.window.failure.as_ref()) {
        (Some(true), _) => ", interrupted".to_owned(),
        (_, Some(failure)) => format!(", failed: {failure}"),
        (_, None) => String::new(),
    };
    let simulated = ours.simulation.as_ref().and_then(|simulation| simulation.device.as_ref());
    let device = ours.machine.device.as_ref();
    let device = device.map(|device| device.model.as_deref().unwrap_or(&device.name));
    let device = simulated.map(String::as_str).or(device).unwrap_or("unknown device");
    let began = began(document).map_or(String::new(), |began| format!(" · {began} UTC"));
    html.sub(&format!(
        "{} · {} · {} arrivals · {} s{state} · {device}{began}",
        known(config.and_then(|c| c.model.as_deref())),
        load_of(ours),
        known(config.and_then(|c| c.arrival.as_deref())),
        or_dash(ours.window.seconds.known()),
    ));
    for error in ours.errors.first_ever.iter() {
        html.paragraph_of("bad", &format!("Error: {error}"));
    }
    html.paragraph_of("verdict", &verdict(document));
    let time = ours.served.time.rows().into_iter().flatten();
    let time: Vec<Share> = time
        .map(|(part, share)| Share { name: part.to_owned(), share })
        // Less than that is no more than a line.
        .filter(|part| part.share >= 0.005)
        .collect();
    html.raw(&shares("Where the time of the requests went", &time));
}

/// Sentence on what a search for users found, or else on what limited the run.
fn verdict(document: &Document) -> String {
    if let Some(found) = found(document) {
        return format!("Search for users: {found}.");
    }
    let limit = RunLimit::of(document);
    let flag = tried(limit.flag_to_try.as_deref());
    match limit.kind {
        LimitKind::None => format!("No limit found: {}{flag}.", limit.told),
        kind => format!("Limited by {}: {}{flag}.", kind.name(), limit.told),
    }
}

/// Text of the flag that may help, if there is one.
fn tried(flag: Option<&str>) -> String {
    flag.map_or(String::new(), |flag| format!(" (try {flag})"))
}

/// Text of the number of users; for ranks, the number of each.
fn load_of(ours: &Ours) -> String {
    let users = match ours.config.as_ref().and_then(|config| config.num_users) {
        Some(1) => "1 user".to_owned(),
        users => format!("{} users", known(users)),
    };
    // A search has others later.
    let mode = ours.autoscaler.as_ref().and_then(|search| search.mode.as_ref());
    let users = mode.map_or(users.clone(), |mode| format!("{users} at first ({mode} mode)"));
    let ranks = ours.merged.as_ref().map_or(&[][..], |merged| &merged.ranks);
    match ranks.len() {
        0 => users,
        1 => format!("1 rank, {users}"),
        count => format!("{count} ranks, {users} each"),
    }
}

struct Figure {
    name: &'static str,
    /// Text of its value, where it is known.
    told: Option<String>,
    remark: Option<String>,
}

impl Figure {
    fn label(&self) -> String {
        match &self.remark {
            Some(remark) => format!("{} ({remark})", self.name),
            None => self.name.to_owned(),
        }
    }

    fn text(&self) -> String {
        match (&self.told, &self.remark) {
            (Some(told), Some(remark)) => format!("{told} ({remark})"),
            (Some(told), None) => told.clone(),
            (None, _) => UNKNOWN.to_owned(),
        }
    }
}

/// The figures to see first. Latencies of requests are those of all, finished or not.
fn figures(document: &Document) -> Vec<Figure> {
    let (ours, summary) = (&document.ringfall, &document.summary);
    let figure = |name, told| Figure { name, told, remark: None };
    let all = ours.requests.as_ref().map(|requests| &requests.all);
    let unfinished = all
        .filter(|all| all.unfinished > 0)
        .map(|all| format!("{} of {} unfinished", all.unfinished, all.finished + all.unfinished));
    let load = document.context_load().and_then(|load| load.p95.known());
    let kv_io = document.storage_io_latency().and_then(|latency| latency.p95.known());
    let mut figures = vec![
        figure("load of a context, P95", load.map(human_time)),
        figure("KV I/O of a finished request, P95", kv_io.map(human_time)),
        Figure {
            name: "all requests, P95",
            told: all.and_then(|all| all.p95.as_ref()).map(|p95| p95.told(human_time)),
            remark: unfinished,
        },
    ];
    figures.extend(bandwidths(document));
    figures.extend([
        figure("tokens/s", summary.avg_throughput_tokens_per_sec.known().map(shown)),
        figure("of earlier turns found", document.multi_turn_hit_rate().map(percent)),
    ]);
    figures
}

/// Bandwidths of storage, and how much of the drive was used.
fn bandwidths(document: &Document) -> [Figure; 4] {
    let ours = &document.ringfall;
    let has_drive = !document.is_without_drive();
    let roofline = ours.roofline.as_ref();
    let is_uneven = ours.warnings.iter().any(|warning| warning.code == Code::NotSteady);
    let bandwidth = |name, rate: Option<f64>, limit: Option<f64>| {
        let share = rate.zip(limit).filter(|(_, limit)| *limit > 0.0);
        let share = share.map(|(rate, limit)| {
            format!("{:.0} % of the drive's {}", rate / limit * 100.0, rate_told(limit))
        });
        let remarks = is_uneven.then(|| "unsteady".to_owned()).into_iter().chain(share);
        let remarks: Vec<String> = remarks.collect();
        Figure {
            name,
            told: rate.filter(|_| has_drive).map(rate_told),
            remark: (!remarks.is_empty()).then(|| remarks.join(", ")),
        }
    };
    let of = |name, share: Option<f64>| Figure { name, told: share.map(percent), remark: None };
    let simulated = ours.simulation.as_ref().filter(|_| has_drive);
    let simulated = simulated.and_then(|simulation| simulation.drive_busy_share.known());
    let busy = ours.device.utilisation.known().or(simulated);
    let used = roofline.and_then(|roofline| roofline.share.known());
    [
        bandwidth(
            "storage read",
            ours.io.read.bandwidth_gib_per_s.known(),
            roofline.and_then(|roofline| roofline.read_gib_per_s.known()),
        ),
        bandwidth(
            "storage write",
            ours.io.write.bandwidth_gib_per_s.known(),
            roofline.and_then(|roofline| roofline.write_gib_per_s.known()),
        ),
        of("of the drive's limits used", used),
        of("of the time the device was busy", busy),
    ]
}

/// The same figures with a column for each result.
fn beside(results: &[Named]) -> Table {
    let all: Vec<Vec<Figure>> = results.iter().map(|named| figures(&named.document)).collect();
    let names = all.first().into_iter().flatten().map(|figure| figure.name.to_owned());
    let row = |(place, name): (usize, String)| {
        let cells = all.iter().map(|figures| figures[place].text());
        (name, cells.collect())
    };
    Beside { results, rows: names.enumerate().map(row).collect() }.table("")
}

/// Writes the curve of a search for users, where there was one.
fn curve(html: &mut Html, named: &Named, is_named: bool) {
    if let Some((legend, table)) = search::curve(&named.document) {
        let of = if is_named { format!(", {}", named.name) } else { String::new() };
        html.subheading(&format!("Curve of the search for users{of}"));
        html.table(&table);
        html.paragraph(&legend);
    }
}

/// Writes the warnings of a result.
fn notes(html: &mut Html, named: &Named, is_named: bool) {
    let name = if is_named { format!("{}: ", named.name) } else { String::new() };
    html.notes(
        named.document.ringfall.warnings.iter().map(|warning| {
            format!("{name}{}{}", warning.text, tried(warning.flag_to_try.as_deref()))
        }),
    );
}
