//! `ringfall simulate`: runs on described drives; several drives, models or numbers of users make
//! a table.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use ringfall_config::{DeviceFile, Facts, InputError, Options, Plan};
use ringfall_host::counted;
use ringfall_host::escape::{terminal, terminal_path};
use ringfall_host::exit::Exit;
use ringfall_model::{distinct_by, write_json};
use ringfall_report::show::table::figure;
use ringfall_report::show::{WhatIf, WhatIfRow, letters, write_what_if_html};

use super::run::{all_outputs, simulated};
use super::{file_of, interrupt, none_of, refuse_input, show, wrapped, write_form};
use crate::cli::SimulateArgs;

/// Combinations that a person may ask for.
const COMBINATIONS_MAX: usize = 10_000;

/// Simulates what was asked for.
pub fn run(args: &SimulateArgs, command_line: Vec<String>) -> Result<Exit> {
    let mut devices =
        args.device.iter().map(|path| DeviceFile::read(path)).collect::<Result<Vec<_>, _>>()?;
    tell_apart(&mut devices, &args.device);
    let plans = plans(args)?;
    for plan in &plans {
        devices.iter().try_for_each(|device| simulated::refuse_files_on_several(plan, device))?;
        for (flag, output) in all_outputs(plan) {
            refuse_input(&flag, output, args.device.iter().map(PathBuf::as_path))?;
        }
    }
    match (&devices[..], &plans[..]) {
        ([device], [plan]) => simulated::one(plan, device, command_line),
        _ => {
            // What the file says is the same for all.
            super::tell(plans.first().map_or(&[], |plan| &plan.told));
            table(&devices, &plans)
        }
    }
}

/// Drives of one name get those of their files too, and a number if those are alike.
fn tell_apart(devices: &mut [DeviceFile], paths: &[PathBuf]) {
    let names: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
    for ((device, path), name) in devices.iter_mut().zip(paths).zip(&names) {
        if names.iter().filter(|other| *other == name).count() > 1 {
            device.name = format!("{name} ({})", path.display());
        }
    }
    for place in 1..devices.len() {
        let name = devices[place].name.clone();
        if devices[..place].iter().any(|device| device.name == name) {
            devices[place].name = format!("{name}, number {}", place + 1);
        }
    }
}

/// A plan for each model and number of users.
fn plans(args: &SimulateArgs) -> Result<Vec<Plan>, InputError> {
    let file = file_of(&args.run)?;
    let facts = Facts::look().of_no_machine();
    let options = &args.run.typed()?;
    let models = choices(&args.what_if_models, options.model.clone());
    let mut users = choices(&args.what_if_users, options.num_users);
    // Whatever the order in which they were typed, the table is a curve.
    users.sort_unstable();
    let gpus = choices(&args.what_if_gpu_gb, options.gpu_mem_gb);
    if args.device.len() * models.len() * users.len() * gpus.len() > COMBINATIONS_MAX {
        refuse!("more than {COMBINATIONS_MAX} combinations: give fewer");
    }
    let mut plans = Vec::new();
    for model in &models {
        for &num_users in &users {
            for &gpu_mem_gb in &gpus {
                let model = model.clone();
                let options = Options { model, num_users, gpu_mem_gb, ..options.clone() };
                let plan = ringfall_config::resolve(&options, file.as_ref(), &facts);
                plans.push(plan.map_err(|error| as_typed(error, args))?);
            }
        }
    }
    Ok(plans)
}

/// Values of a setting that were given to be compared, else its only one.
fn choices<T: Clone>(given: &[T], only: Option<T>) -> Vec<Option<T>> {
    match given {
        [] => vec![only],
        several => several.iter().cloned().map(Some).collect(),
    }
}

/// The same with the flags that were typed.
fn as_typed(mut error: InputError, args: &SimulateArgs) -> InputError {
    for sentence in &mut error.sentences {
        for (flag, typed, is_typed) in [
            ("--num-users", "--what-if-users", !args.what_if_users.is_empty()),
            ("--model", "--what-if-models", !args.what_if_models.is_empty()),
            ("--gpu-mem-gb", "--what-if-gpu-gb", !args.what_if_gpu_gb.is_empty()),
        ] {
            if is_typed && sentence.starts_with(&format!("{flag} ")) {
                sentence.replace_range(..flag.len(), typed);
            }
        }
    }
    error
}

/// Collects the doubts that the device descriptions raise about their own numbers.
fn doubts(devices: &[DeviceFile]) -> Vec<String> {
    let told = |device: &DeviceFile| Some(format!("{}: {}", device.name, device.doubt.as_ref()?));
    devices.iter().filter_map(told).collect()
}

fn table(devices: &[DeviceFile], plans: &[Plan]) -> Result<Exit> {
    let Some(plan) = plans.first() else { return Ok(Exit::Done) };
    refuse(plan)?;
    let outputs = [("--output", Some(&plan.output)), ("--html-output", plan.html_output.as_ref())];
    for (flag, path) in outputs {
        path.map_or(Ok(()), |path| super::run::check_output_writable(flag, path))?;
    }
    let interrupt = interrupt()?;
    let mut what_if = WhatIf::new(plan);
    what_if.doubts = doubts(devices);
    what_if.doubts.extend(simulated::doubt_of_files(plan).map(str::to_owned));
    'all: for plan in plans {
        for device in devices {
            if interrupt.is_set() {
                break 'all;
            }
            let result = simulated::explained(plan, device, Vec::new(), &interrupt)?;
            if let Some(failure) = &result.failure {
                anyhow::bail!("{}, {} users on {}: {failure}", plan.model, plan.users, device.name);
            }
            // Of one that was interrupted later, the limit is not known.
            if !result.interrupted && !interrupt.is_set() {
                what_if.rows.push(WhatIfRow::of(&result));
            }
        }
    }
    let exit = if interrupt.is_set() { Exit::Interrupted } else { Exit::Done };
    if exit == Exit::Interrupted {
        let (done, all) = (what_if.rows.len(), plans.len() * devices.len());
        let told = match done {
            0 => "no simulation had ended, and nothing was written".to_owned(),
            _ => format!("the table has {done} of {all} simulations"),
        };
        ringfall_host::stderr::tell(format_args!("interrupted: {told}"));
        if done == 0 {
            return Ok(exit);
        }
    }
    what_if.weigh_gpu_memory();
    let (what, html) = ("the table", plan.html_output.as_deref());
    let json = write_form(Some(&plan.output), what, |path| write_json(&what_if, path));
    let html = write_form(html, what, |path| write_what_if_html(&what_if, path));
    let written = json.and(html);
    show(&what_if, plan.json, plan.quiet, || page(&what_if, plan, written.is_ok()))?;
    written.map(|()| exit)
}

/// Refuses settings that a table of several simulations can't show.
fn refuse(plan: &Plan) -> Result<(), InputError> {
    simulated::refuse_what_needs_a_drive(plan)?;
    let one_only = [
        ("--xlsx-output", plan.xlsx_output.is_some()),
        ("--io-trace-log", plan.io_trace_log.is_some()),
        ("--enable-autoscaling", plan.enable_autoscaling),
    ];
    let wrong = one_only.iter().filter(|(_, given)| *given);
    none_of(wrong.map(|(flag, _)| {
        format!(
            "{flag} can be used only with one drive, one model, one number of users and one size \
             of the GPU tier"
        )
    }))
}

/// The table and what it means; its files are named where they were written.
fn page(what_if: &WhatIf, plan: &Plan, is_written: bool) -> String {
    let mut page = String::new();
    let _infallible = writeln!(
        page,
        "What if: {} s simulated, seed {}, {} GiB of CPU memory",
        what_if.seconds,
        what_if.seed,
        figure(what_if.cpu_memory_gib)
    );
    for (place, name) in what_if.devices().into_iter().enumerate() {
        wrapped(&mut page, &format!("  {:<2} ", letters(place)), name);
    }
    let _infallible = writeln!(page, "\n{}", what_if.table().page());
    what_if.doubts.iter().for_each(|doubt| wrapped(&mut page, "  note: ", &terminal(doubt)));
    what_if.reuse_notes().for_each(|note| wrapped(&mut page, "  note: ", note));
    for row in distinct_by(&what_if.rows, |one, other| one.binds == other.binds) {
        let Some(binds) = row.binds else { continue };
        let head = format!("  {binds}: ");
        let users = counted(row.users.into(), "user");
        let example = format!("{users} on {}: {}", what_if.letter(row), row.because);
        wrapped(&mut page, &head, &example);
    }
    gpu_memory_lines(&mut page, what_if);
    if !is_written {
        return page;
    }
    let _infallible = writeln!(page, "\n  table        {}", terminal_path(&plan.output));
    if let Some(path) = &plan.html_output {
        let _infallible = writeln!(page, "               {}", terminal_path(path));
    }
    page
}

/// Writes one line for each size of the GPU tier: the number of users that it is worth.
fn gpu_memory_lines(page: &mut String, what_if: &WhatIf) {
    for worth in what_if.gpu_memory.iter().flatten() {
        let text = format!("{}, {}: {}", terminal(&worth.model), worth.device, worth.told());
        wrapped(page, &format!("  {} GiB of VRAM: ", figure(worth.gpu_memory_gib)), &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drive_has_a_name_and_letters_of_its_own() {
        let text = "name: x\nread: {mb_per_s: 1, iops: 1, latency_us: 1}\n\
                    write: {mb_per_s: 1, iops: 1, latency_us: 1}\n";
        let one = DeviceFile::parse("d.yaml", text).unwrap();
        let other = DeviceFile { name: "y".to_owned(), ..one.clone() };
        let mut devices = vec![one.clone(), one.clone(), other, one];
        let paths = ["a.yaml", "b.yaml", "c.yaml", "a.yaml"].map(PathBuf::from);
        tell_apart(&mut devices, &paths);
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["x (a.yaml)", "x (b.yaml)", "y", "x (a.yaml), number 4"]);
        assert_eq!([0, 25, 26, 51, 52, 702].map(letters), ["A", "Z", "AA", "AZ", "BA", "AAA"]);
    }
}
