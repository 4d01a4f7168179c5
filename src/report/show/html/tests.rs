use ringfall_config::Origin;
use ringfall_core::clock::Nanos;
use ringfall_core::key::Tier;
use ringfall_core::units::GIB;
use ringfall_model::merge::merge;
use ringfall_model::testing::{judged, nothing, rank_of_204};
use ringfall_workloads::autoscale::{
    Act, Answer, Conclusion, Entry, Mode, Part, QosAnswer, QosBreak, StepResult, StorageLoad,
};
use ringfall_workloads::contract::Class;

use super::page::page;
use super::*;
use crate::show::tests::{on_two_nodes, with_drive_logs};
use crate::suite::{Asked, End, Flag, Invocation, Row, SavedSuite, SuiteTable, Workload};

fn named(name: &str) -> Named {
    let mut result = judged();
    result.plan.model = "<script>alert(1)</script> & \"co\"".into();
    result.timeline[0].io[0].record(Nanos::from_ms(3));
    (0..30).for_each(|_| result.requests.record_unfinished(Class::Batch, 60_000_000_000));
    result.timeline[0].tiers[Tier::Storage.index()].read.bytes = 1 << 30;
    Named { name: name.into(), document: Document::of(&result) }
}

/// Tags that were opened are closed, in order; void and self-closing ones aside.
fn assert_well_formed(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(begin) = rest.find('<') {
        rest = &rest[begin + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if tag.starts_with('!') || ["meta", "link"].contains(&name) || tag.ends_with('/') {
            continue;
        }
        match tag.strip_prefix('/') {
            Some(_) => assert_eq!(open.pop(), Some(name), "before {:.60}", rest),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_page_is_whole_escapes_what_it_shows_and_fetches_nothing() {
    for results in [vec![named("a")], vec![named("a<b>"), named("b")]] {
        let html = page(&results);
        assert_well_formed(&html);
        assert!(!html.contains("<script"), "what was typed must not run");
        assert!(html.contains("&lt;script&gt;"));
        for fetching in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!html.contains(fetching), "{fetching}");
        }
        for part in [
            "What to go by",
            "decode bytes read, GiB",
            "<p class=\"verdict\">",
            "Where the time of the requests went",
            "time went to: storage",
            "tokens generated, all together",
            "PASS, passed 4 of 4",
            "Cache Hit Rate &gt; 30%",
            "met: 83.3 % of 24 samples",
            "Latency",
            "finished and unfinished",
            "<td class=\"n\">30</td>",
            "≥ 60.",
            "Over time",
            "Tiers",
            "Configuration",
            "Machine",
            "<polyline",
            "heat",
        ] {
            assert!(html.contains(part), "{part}");
        }
    }
}

#[test]
fn two_results_are_compared_at_the_top_of_their_page() {
    let html = page(&[named("a<b>"), named("b")]);
    let comparison = html.find("<h2>Comparison</h2>").unwrap();
    assert!(comparison < html.find("<h2>Figures</h2>").unwrap());
    for part in
        ["baseline: a&lt;b&gt; · candidate: b", "95 % interval", "<th>all requests, P95</th>"]
    {
        assert!(html[comparison..].contains(part), "{part}");
    }
    assert!(!page(&[named("a")]).contains("<h2>Comparison</h2>"));
}

#[test]
fn two_results_of_other_loads_have_no_ratios_on_their_page() {
    let mut other = judged();
    other.plan.model = "other".into();
    let html = page(&[named("a"), Named { name: "b".into(), document: Document::of(&other) }]);
    let comparison = &html[html.find("<h2>Comparison</h2>").unwrap()..];
    for part in ["The two can&#39;t be compared, since the models differ", "the models differ ("] {
        assert!(comparison.contains(part), "{part}");
    }
    assert!(!comparison.contains("95 % interval"));
}

#[test]
fn the_first_screen_has_the_verdict_honest_figures_the_drive_s_limits_and_time() {
    let mut one = named("a");
    let ours = &mut one.document.ringfall;
    ours.roofline = serde_json::from_value(serde_json::json!({
        "source": "limits.json", "unix_s": 1.0, "read_gib_per_s": 8.0, "write_gib_per_s": 4.0,
        "share": 0.25,
    }))
    .unwrap();
    let html = page(&[one]);
    let screen = &html[..html.find("<h2>").unwrap()];
    for part in [
        "<p class=\"verdict\">",
        "<b>≥ 60.",
        "<span>all requests, P95 (30 of ",
        "<b>25.0 %</b><span>of the drive&#39;s limits used</span>",
        "% of the drive&#39;s 8.000 GiB/s)",
        "Storage bandwidth",
        "<li><i class=\"c0 dotted\"></i>limit of reads</li>",
    ] {
        assert!(screen.contains(part), "{part} is not in {screen}");
    }
    assert!(!screen.contains("write P95"), "no more than is read at a glance");
}

/// "20 users, not confirmed" stood for the number with which a search had begun that made no step.
#[test]
fn a_search_without_a_step_is_told_by_its_reason_alone() {
    let mut result = judged();
    let reason = "the run ended after 0 steps, before the search was over";
    result.autoscale = Some(Conclusion {
        mode: Mode::Qos,
        initial_users: 20,
        conclusive: false,
        reason: reason.to_owned(),
        answer: Answer::Qos(QosAnswer { users: 0, confirmed: false, broke: None }),
        entries: Vec::new(),
    });
    let document = Document::of(&result);
    let told = format!("no answer: {reason}");
    assert_eq!(crate::suite::found(&document).as_deref(), Some(&*told));
    let html = page(&[Named { name: "a".into(), document }]);
    assert!(html.contains(&format!("<p class=\"verdict\">Search for users: {told}.</p>")));
    let users = result.plan.users;
    assert!(html.contains(&format!(" · {users} users at first (qos mode) · ")), "{users}");
}

/// A page had charts of a search, and none of the figures by which it judged its steps.
#[test]
fn a_search_has_its_curve_on_the_first_screen() {
    let mut result = judged();
    let entry = |users, act| Entry {
        result: StepResult {
            users,
            used_share: Some(0.5),
            storage: StorageLoad {
                write_device_p95_ns: Some(u64::from(users) * 100_000_000),
                ..StorageLoad::default()
            },
            ..StepResult::default()
        },
        act,
    };
    let broke = QosBreak {
        users: 4,
        part: Some(Part::StorageWrite),
        saturation: Some(1.0),
        largest_part: "storage",
        largest_share: 1.0,
    };
    result.autoscale = Some(Conclusion {
        mode: Mode::Qos,
        initial_users: 2,
        conclusive: true,
        reason: String::new(),
        answer: Answer::Qos(QosAnswer { users: 2, confirmed: true, broke: Some(broke) }),
        entries: vec![entry(4, Act::ScaleDown), entry(2, Act::Stop)],
    });
    let html = page(&[Named { name: "a".into(), document: Document::of(&result) }]);
    assert_well_formed(&html);
    let screen = &html[..html.find("<h2>").unwrap()];
    for part in [
        "<h3>Curve of the search for users</h3>",
        "<th class=\"n\">write P95</th>",
        "<tr class=\"good\"><th class=\"n\">2</th>",
        "<tr class=\"bad\"><th class=\"n\">4</th>",
        "<td>x write P95</td></tr>",
        "used: of the highest throughput",
    ] {
        assert!(screen.contains(part), "{part} is not in {screen}");
    }
}

#[test]
fn settings_that_were_given_come_before_all_settings() {
    let mut result = judged();
    result.plan.origins.insert("num_users", Origin::CommandLine);
    result.plan.origins.insert("warmup", Origin::Default);
    let html = page(&[Named { name: "a".into(), document: Document::of(&result) }]);
    let (given, all) = html
        .split_once("<h2>Configuration</h2>")
        .and_then(|(_, rest)| rest.split_once("<details>"))
        .unwrap();
    assert!(given.contains("<th>num_users</th>") && !given.contains("<th>warmup</th>"), "{given}");
    assert!(all.contains("<th>num_users</th>") && all.contains("<th>warmup</th>"));
}

#[test]
fn a_suite_s_page_has_its_date_flags_charts_and_links() {
    let flag = Flag {
        flag: "--num-users".to_owned(),
        value: Some("50".to_owned()),
        reason: String::new(),
    };
    let invocation = |name: &str, impossible: Option<&str>| Invocation {
        name: name.to_owned(),
        workload: Workload::StorageOnly,
        title: "on storage".to_owned(),
        flags: vec![flag.clone()],
        duration_s: 60,
        left_out: None,
        impossible: impossible.map(str::to_owned),
    };
    let invocations = vec![invocation("storage-only", None), invocation("gpu", Some("no GPU"))];
    let mut result = named("storage-only");
    result.document.ringfall.window.start_unix_s =
        serde_json::from_value(serde_json::json!(1_738_367_999.5)).unwrap();
    let rows = vec![
        Row::of(&invocations[0], &End::Done, Some(&result.document), None),
        Row::of(&invocations[1], &End::NotRun, None, None),
    ];
    let more = (None, vec!["--arrival".to_owned(), "closed".to_owned()]);
    let plan = SavedSuite::new(None, Asked::default(), Vec::new(), more, invocations);
    let command_line = ["ringfall", "suite", "-m", "a b"].map(str::to_owned);
    let source = SuiteSource { plan: &plan, command_line: &command_line, results: &[result] };
    let html = super::suite::page(&SuiteTable::new(None, None, rows), &source);
    assert_well_formed(&html);
    for part in [
        "begun 2025-01-31 23:59:59 UTC",
        "ringfall suite -m &#39;a b&#39;",
        "ringfall run --num-users 50 --arrival closed",
        "<a href=\"storage-only.html\">storage-only.html</a>",
        "<a href=\"storage-only.json\">",
        "<figcaption>Tokens per second</figcaption>",
        "because: no GPU",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    assert!(!html.contains("gpu.html"), "it has no result");
}

#[test]
fn a_result_that_measured_nothing_is_a_page_too() {
    let document = Document::of(&nothing());
    let html = page(&[Named { name: "x".into(), document }]);
    assert_well_formed(&html);
    assert!(!html.contains("NaN") && !html.contains(">inf<"), "no number that is none");
}

#[test]
fn numbers_are_short() {
    for (value, text) in [
        (0.0, "0"),
        (0.034_12, "0.0341"),
        (0.5, "0.50"),
        (2.4789, "2.48"),
        (12.3456, "12.3"),
        (1234.5, "1234"),
        (1_234_567.0, "1.23e6"),
        (0.000_012, "1.2e-5"),
    ] {
        assert_eq!(shown(value), text);
    }
}

#[test]
fn bytes_that_cross_between_numa_nodes_are_on_the_page_where_they_are_known() {
    let shown = |remote_bytes| {
        let document = Document::of(&on_two_nodes(remote_bytes));
        page(&[Named { name: "a".into(), document }])
    };
    let known = shown([Some(0), Some(3 << 20)]);
    for share in ["0.0 %", "75.0 %"] {
        let told = format!("; {share} of them from or to other NUMA nodes; P95");
        assert!(known.contains(&told), "{known}");
    }
    assert!(!shown([None; 2]).contains("other NUMA nodes"));
}

#[test]
fn the_drives_own_logs_are_on_the_page() {
    let document = Document::of(&with_drive_logs());
    let page = page(&[Named { name: "a".into(), document }]);
    for part in [
        "a write amplification of 1.25",
        "blocks left. vda: not told by this drive (it is not an NVMe drive)",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

/// As many ranks as the largest published launch.
#[test]
fn two_hundred_and_four_ranks_open_as_a_page() {
    let files: Vec<_> = (0..204).map(rank_of_204).collect();
    let merged = merge(&files, &[], &["ringfall".into()]).unwrap();
    let page = std::env::temp_dir().join(format!("ringfall-204-{}.html", std::process::id()));
    write_html(&[Named { name: "all".into(), document: merged }], &page).unwrap();
    let text = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    assert!(text.contains("· 204 ranks, 4 users each ·"));
    assert!(text.contains("204 of 204 ranks have a result here."));
    assert_eq!(text.matches("<td>node50</td>").count(), 4, "a row for each rank");
    assert_eq!(text.matches("<th>node50</th>").count(), 1, "a row for each machine");
    assert!(text.contains("</html>") && text.len() < 5_000_000, "{}", text.len());
}

/// A tier holds less after the run: requests that were cut off have let go of their entries.
#[test]
fn what_tiers_held_is_that_of_the_last_second_of_the_chart_over_time() {
    let mut result = judged();
    result.tiers[Tier::Cpu.index()].used_bytes = GIB;
    let last = result.timeline.last_mut().unwrap();
    last.gauges.held_bytes[Tier::Cpu.index()] = 3 * GIB;
    last.gauges.held_bytes[Tier::Storage.index()] = 7 * GIB;
    let html = page(&[Named { name: "a".into(), document: Document::of(&result) }]);
    for row in ["CPU tier, GiB held", "storage, GiB held"] {
        assert!(html.contains(row), "{row}");
    }
    assert!(html.contains("<td>3.00 of ") && html.contains("<td>7.00 of "), "{html}");
}
