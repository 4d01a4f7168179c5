//! The dashboard beside a Prometheus that scrapes a run: each of its expressions has data.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr, Command};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::prometheus::{address_of, ask, number};
use crate::support::{Scratch, finish, skipped, spawn, text, wait_until};

/// A server that scrapes a run every second, until it is dropped.
struct Prometheus {
    child: Child,
    address: String,
    /// A server whose log nobody can read any more ends.
    _log: Lines<BufReader<ChildStderr>>,
}

impl Prometheus {
    fn of(scratch: &Scratch, target: &str) -> Prometheus {
        let config = format!(
            "scrape_configs: [{{job_name: ringfall, scrape_interval: 1s, \
             static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        std::fs::write(scratch.file("prometheus.yml"), config).unwrap();
        let mut command = Command::new("prometheus");
        command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=prometheus"]);
        command.arg("--web.listen-address=127.0.0.1:0").current_dir(&scratch.path);
        let mut child = spawn(command);
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = log.find_map(|line| {
            let line = line.unwrap();
            let is_it = line.contains("\"Listening on\"");
            line.split_once(" address=").filter(|_| is_it).map(|(_, address)| address.to_owned())
        });
        Prometheus { child, address: address.expect("it says where it listens"), _log: log }
    }

    /// Values of an expression at a time, seconds since 1970: those of its series.
    fn values(&self, expression: &str, at_s: f64) -> Vec<f64> {
        let escaped: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let request = format!("GET /api/v1/query?time={at_s}&query={escaped} HTTP/1.0\r\n\r\n");
        let response = ask(&self.address, request.as_bytes());
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        // Before the server is ready it answers with a word.
        let Ok(answer) = serde_json::from_str::<Value>(body) else { return Vec::new() };
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        let series = answer["data"]["result"].as_array().unwrap().iter();
        series.map(|one| one["value"][1].as_str().unwrap().parse().unwrap()).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Expressions of a panel, with Grafana's variables as it has them for a server with its own
/// settings.
fn expressions(panel: &Value, target: &str) -> Vec<String> {
    let targets = panel["targets"].as_array().unwrap().iter();
    let expressions = targets.map(|one| one["expr"].as_str().unwrap());
    let filled = expressions.map(|expression| expression.replace("$instance", target));
    filled.map(|expression| expression.replace("$__rate_interval", "1m")).collect()
}

#[test]
fn every_expression_of_the_dashboard_has_data_of_a_run() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        return skipped("the dashboard beside Prometheus", "prometheus is not installed");
    }
    let scratch = Scratch::new("dashboard");
    // All that reaches the drive was in the CPU tier before.
    let more = ["--cpu-mem-gb", "0.1", "--duration", "1h", "--metrics-listen", "127.0.0.1:0"];
    let mut run = scratch.start(&more);
    let target = address_of(&mut run);
    let server = Prometheus::of(&scratch, &target);
    let dashboard: Value = serde_json::from_str(include_str!("../config/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for expression in panels.iter().flat_map(|panel| expressions(panel, &target)) {
        wait_until(&format!("Prometheus has numbers for {expression}"), || {
            let values = server.values(&expression, now_s());
            !values.is_empty() && values.iter().all(|value| value.is_finite())
        });
    }
    let at_s = now_s();
    for panel in panels {
        let expressions = expressions(panel, &target).into_iter();
        let values: Vec<f64> = expressions.flat_map(|one| server.values(&one, at_s)).collect();
        let holds = match panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap() {
            "binBps" => values.iter().all(|&value| value > 0.0),
            "s" => values[0] > 0.0 && values.is_sorted(),
            "percentunit" => values.iter().all(|value| (0.0..=1.0).contains(value)),
            "none" => values == [1.0],
            _ => values.iter().all(|&value| value >= 0.0),
        };
        assert!(holds, "{}: {values:?}", panel["title"]);
    }
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let output = finish(run);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let json = scratch.json();
    for (name, path) in [
        ("ringfall_tier_read_bytes_total{tier=\"storage\"}", "/ringfall/io/read/bytes"),
        ("ringfall_tier_written_bytes_total{tier=\"storage\"}", "/ringfall/io/write/bytes"),
        ("ringfall_requests_finished_total{outcome=\"completed\"}", "/requests_completed"),
    ] {
        let seen = server.values(&format!("max_over_time({name}[1h])"), now_s())[0];
        assert!(seen > 0.0 && seen <= number(&json, path), "{name}: {seen}");
    }
}
