//! The sweep over an object store: asked for, watched, written and shown.

use std::time::Duration;

use anyhow::Result;
use ringfall_config::object_store::ObjectUrl;
use ringfall_config::{InputError, Rank};
use ringfall_core::units::{BLOCK_BYTES, GIB, MIB};
use ringfall_host::exit::Exit;
use ringfall_host::{Room, human};
use ringfall_model::write_json;
use ringfall_report::show::io_size;
use ringfall_report::show::table::{Table, fixed, latency};
use ringfall_running::objects::{Objects, OpenError};
use ringfall_running::saturate::{ObjectLimits, ObjectSweep, ObjectSweepError, sweep};

use super::{LIMITS, out_of_bounds, output, progress_line, show};
use crate::cli::SaturateArgs;
use crate::commands::run::check_output_writable;
use crate::commands::{interrupt, tell_error, wrapped, write_form};

/// Sizes of objects that are measured when none are named, bytes: from what a request costs to
/// what a connection carries.
const SIZES: [u64; 4] = [64 << 10, MIB, 8 * MIB, 32 * MIB];
/// Requests in flight when none are named.
const IN_FLIGHT: [u32; 4] = [1, 4, 16, 64];
/// Seconds a point when nothing is said.
const POINT_S: f64 = 3.0;
/// Shortest and longest point, s.
const POINT_S_BOUNDS: (f64, f64) = (0.1, 3_600.0);
/// Largest object that is sent as one, bytes: S3's limit is 5 GiB.
const OBJECT_BYTES_MAX: u64 = GIB;
/// Part of the time of a point that comes before it is measured: see `saturate/objects.rs`.
const WITH_RAMP: f64 = 1.2;

/// Measures it, and writes and shows what was found.
pub(super) fn run(args: &SaturateArgs, url: &ObjectUrl) -> Result<Exit> {
    let plan = plan(args)?;
    let output = output(args, "objects");
    check_output_writable("--output", &output)?;
    if Rank::for_command(args.ranks.0, &output)?.is_some() {
        refuse!("an object store is measured from one process: give --ranks off");
    }
    let interrupt = interrupt()?;
    let most = plan.in_flight.iter().copied().max().unwrap_or(1);
    let mut progress = progress_line(args, false);
    let goes_on = &mut || !interrupt.is_set();
    let opened = Objects::open(url, &args.object_options(most), goes_on);
    let (objects, _) = match opened {
        Err(OpenError::Options(what)) => return Err(InputError::new(what).into()),
        Err(error @ OpenError::Interrupted { .. }) => {
            tell_error(error);
            return Ok(Exit::Interrupted);
        }
        other => other?,
    };
    let points = 2 * plan.sizes.len() * plan.in_flight.len();
    progress.tell(&format!("limits of {url}, {points} points"));
    let mut watcher = |operation: &str, bytes, in_flight: u32, rate: Option<f64>| {
        let rate = rate.map_or(String::new(), |rate| format!(": {:.3} GiB/s", rate / GIB as f64));
        progress.rewrite(&format!("{operation} {} × {in_flight}{rate}", size_of(bytes)));
    };
    let found = sweep(&objects, &plan, &interrupt, &mut watcher);
    progress.clear();
    let limits = match found {
        Err(error @ ObjectSweepError::Interrupted) => {
            tell_error(error);
            return Ok(Exit::Interrupted);
        }
        Err(error @ ObjectSweepError::NotEmpty { .. }) => {
            return Err(InputError::new(error.to_string()).into());
        }
        other => other?,
    };
    let written = write_form(Some(&output), LIMITS, |path| write_json(&limits, path));
    show(args, &limits, table, &output, written)?;
    Ok(interrupt.exit_or(Exit::Done))
}

fn plan(args: &SaturateArgs) -> Result<ObjectSweep, InputError> {
    let mut wrong = out_of_bounds(args);
    let given = args.sweep.object_sizes.as_ref();
    let sizes: Vec<u64> =
        given.map_or(SIZES.to_vec(), |sizes| sizes.0.iter().map(|size| size.0).collect());
    if let Some(bytes) = sizes.iter().find(|bytes| {
        !bytes.is_multiple_of(BLOCK_BYTES) || !(BLOCK_BYTES..=OBJECT_BYTES_MAX).contains(bytes)
    }) {
        wrong.push(format!("--object-sizes has {bytes}: give multiples of 4 KiB up to 1g"));
    }
    let given = args.sweep.object_in_flight.as_ref();
    let in_flight = given.map_or(IN_FLIGHT.to_vec(), |counts| counts.0.clone());
    if let Some(count) = in_flight.iter().find(|count| !(1..=1_024).contains(*count)) {
        wrong.push(format!("--object-in-flight has {count}: give 1 to 1024"));
    }
    if args.objects.is_given("object_concurrency") {
        let what = "--object-concurrency has no effect here: give the numbers of requests in \
                    flight to --object-in-flight";
        wrong.push(what.to_owned());
    }
    let point_s = args.sweep.object_seconds.unwrap_or(POINT_S);
    if !(POINT_S_BOUNDS.0..=POINT_S_BOUNDS.1).contains(&point_s) {
        wrong.push(format!("--object-seconds is {point_s}: give 0.1 to 3600"));
    }
    let buffer_bytes_max = args.io_buffer_mb.saturating_mul(MIB);
    if let Some(room) = Room::look().lacks(buffer_bytes_max) {
        let wanted = human(buffer_bytes_max);
        wrong.push(format!("--io-buffer-mb needs {wanted} of memory; there is {room}: lower it"));
    }
    let smallest = sizes.iter().copied().min().unwrap_or(0);
    if smallest > buffer_bytes_max {
        wrong.push("--io-buffer-mb is less than one object of --object-sizes".to_owned());
    }
    if !wrong.is_empty() {
        return Err(InputError::new(wrong.join("; ")));
    }
    let points = 2 * sizes.len() * in_flight.len();
    let most_s = args
        .time_limit
        .map_or(f64::INFINITY, |limit| f64::from(limit) / (points as f64 * WITH_RAMP));
    Ok(ObjectSweep {
        sizes,
        in_flight,
        point: Duration::from_secs_f64(point_s.min(most_s)),
        buffer_bytes_max,
        range_bytes: (args.size_gb * GIB as f64) as u64,
        seed: args.seed,
    })
}

fn size_of(bytes: u64) -> String {
    io_size(u32::try_from(bytes).unwrap_or(u32::MAX))
}

/// Formats the results as text, 80 columns.
fn table(limits: &ObjectLimits) -> String {
    let table = Table::of(&limits.points)
        .text("", |point| point.operation.as_str())
        .count("object", |point| size_of(point.object_bytes))
        .count("in flight", |point| point.in_flight)
        .number("GiB/s", fixed(3), |point| point.bytes_per_s / GIB as f64)
        .number("requests/s", fixed(1), |point| point.requests_per_s)
        .count("P50", |point| latency(point.latency_p50_us))
        .count("P99", |point| latency(point.latency_p99_us))
        .count("retries", |point| point.retries)
        .widths(&[4, 8, 9, 9, 11, 10, 10, 8]);
    let mut page = table.done().page();
    for operation in ["PUT", "GET"] {
        let Some((fastest, most)) = limits.best(operation) else { continue };
        let cpu =
            fastest.cpu_s_per_gib.map_or(String::new(), |cpu| format!(" ({cpu:.3} CPU-s/GiB)"));
        let text = format!(
            "{:.3} GiB/s with {} × {}{cpu}; {:.0} requests/s with {} × {}",
            fastest.bytes_per_s / GIB as f64,
            size_of(fastest.object_bytes),
            fastest.in_flight,
            most.requests_per_s,
            size_of(most.object_bytes),
            most.in_flight
        );
        wrapped(&mut page, &format!("  best {operation:<8}"), &text);
    }
    if let Some(told) = limits.counts.retries.sentence() {
        wrapped(&mut page, "  repeated     ", &told);
    }
    if limits.counts.endpoints.len() > 1 {
        let each = limits.counts.endpoints.iter();
        let each = each.map(|one| format!("{} {}", one.endpoint, one.requests));
        let told = each.collect::<Vec<_>>().join(", ");
        wrapped(&mut page, "  endpoints    ", &format!("requests to each: {told}"));
    }
    for told in &limits.left_out {
        wrapped(&mut page, "  left out     ", told);
    }
    page.push_str(&format!("  search       {:.1} s\n", limits.seconds));
    page
}

#[cfg(test)]
mod tests {
    use ringfall_model::facts::ObjectCounts;
    use ringfall_running::saturate::ObjectPoint;

    use super::*;

    #[test]
    fn the_table_fits_a_terminal() {
        let point = |operation: &str| ObjectPoint {
            operation: operation.into(),
            object_bytes: 32 * MIB,
            in_flight: 1_024,
            seconds: 3.0,
            requests: 99,
            bytes_per_s: 140e9,
            requests_per_s: 123_456.7,
            latency_p50_us: 1_234_567.0,
            latency_p99_us: 12_345_678.0,
            cpu_s_per_gib: Some(0.123),
            retries: 12_345,
        };
        let limits = ObjectLimits {
            ringfall_object_limits: 1,
            version: String::new(),
            unix_s: 0.0,
            place: "s3://b".into(),
            seconds: 1.0,
            points: vec![point("PUT"), point("GET")],
            left_out: vec!["GET of 1 bytes".into()],
            counts: ObjectCounts::default(),
        };
        let page = table(&limits);
        assert!(page.lines().all(|line| line.chars().count() <= 96), "{page}");
        for word in ["best PUT", "best GET", "0.123 CPU-s/GiB", "left out"] {
            assert!(page.contains(word), "{word}: {page}");
        }
    }
}
