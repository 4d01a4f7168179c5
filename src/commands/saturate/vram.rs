//! `ringfall saturate --target vram`: the limits of the ways between GPU memory, host memory and a
//! drive, as a table and a file.

use std::sync::Arc;

use anyhow::Result;
use ringfall_config::{Facts, GpuBackend, InputError, Rank, Word};
use ringfall_core::units::{BLOCK_BYTES, GIB, MIB};
use ringfall_engine::device::DataFile;
use ringfall_engine::load::{LoadError, VramEnds};
use ringfall_engine::tier::gpu::{CHUNK_BYTES, NoDirect};
use ringfall_host::Machine;
use ringfall_host::escape::terminal;
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_model::write_json;
use ringfall_report::show::io_size;
use ringfall_report::show::table::{Table, fixed, latency};
use ringfall_running::saturate::{
    SaturateError, VramLimits, VramPoint, VramSettings, vram_bytes, vram_limits, vram_measurements,
};
use ringfall_running::store::StoreRequest;

use super::{LIMITS, check, check_outputs, cores, output, places, request, show};
use crate::cli::SaturateArgs;
use crate::commands::run::gpu::Gpu;
use crate::commands::{both, interrupt, none_of, tell_error, wrapped, write_form};
use crate::remedy::told;

/// Length of a measurement where no time limit is given, and the bounds of one that follows from a
/// limit, s.
const SECONDS_EACH: f64 = 1.0;
const SECONDS_EACH_BOUNDS: (f64, f64) = (0.1, 10.0);

/// Measures, and writes and shows what was found.
pub(super) fn run(args: &SaturateArgs) -> Result<Exit> {
    let unix_s = Facts::look().unix_s as f64;
    let output = output(args, "vram");
    refuse(args)?;
    if Rank::for_command(args.ranks.0, &output)?.is_some() {
        refuse!("--target vram measures one GPU from one process: give --ranks off");
    }
    check(args)?;
    check_outputs(args, &output)?;
    let places = places(args)?;
    let mut settings = settings(args);
    check_time(args, &settings)?;
    let interrupt = interrupt()?;
    let backend = args.gpu_backend.map_or(GpuBackend::Auto, |word| word.0);
    let gpu = open(backend, vram_bytes(&settings))?;
    let request = StoreRequest { places, ..request(args, 0, settings.threads as usize) };
    let Some(store) = super::open(&request, &|| interrupt.is_set())? else {
        return Ok(Exit::Interrupted);
    };
    settings.range_bytes = store.capacity_bytes();
    let machine = Machine::look(store.path());
    let mut limits = VramLimits::of(gpu.memory.facts(), machine, &settings, unix_s);
    let found = measure(args, &store.drives[0].file, gpu, &mut settings, &interrupt, &mut limits);
    let removed = store.remove();
    match found {
        Err(SaturateError::Interrupted) => {
            tell_error(SaturateError::Interrupted);
            removed.as_ref().err().into_iter().for_each(|left| tell_error(told(left)));
            return Ok(Exit::Interrupted);
        }
        Err(error) => return both(Err(error.into()), removed.map_err(Into::into)),
        Ok(()) => {}
    }
    let written = write_form(Some(&output), LIMITS, |path| write_json(&limits, path));
    show(args, &limits, table, &output, written)?;
    let exit = match &limits.failure {
        _ if limits.interrupted => Exit::Interrupted,
        Some(_) => Exit::Failed,
        None => return Ok(removed.map(|()| interrupt.exit_or(Exit::Done))?),
    };
    // What was measured is kept, and an interrupt stays one, also where the file can't be deleted.
    let failure = limits.failure.as_ref().filter(|_| !limits.interrupted);
    failure.into_iter().for_each(tell_error);
    removed.as_ref().err().into_iter().for_each(|left| tell_error(told(left)));
    Ok(interrupt.exit_or(exit))
}

/// Settings to try, without the range and the length of a measurement, which are found later.
fn settings(args: &SaturateArgs) -> VramSettings {
    VramSettings {
        range_bytes: 0,
        io_bytes: (args.io_size_min.0 as u32, args.io_size_max.0 as u32),
        depth_max: args.depth_max,
        // Each thread keeps at least one I/O in flight.
        threads: (cores(args, None).len() as u32).min(args.depth_max),
        buffer_bytes_max: args.io_buffer_mb * MIB,
        seconds_each: SECONDS_EACH,
        seed: args.seed,
    }
}

/// Whether the time that is given is enough for the shortest measurements, with GPUDirect Storage
/// among them.
fn check_time(args: &SaturateArgs, settings: &VramSettings) -> Result<(), InputError> {
    let Some(seconds) = args.time_limit else { return Ok(()) };
    let measurements = vram_measurements(settings, true);
    let needed_s = (f64::from(measurements) * SECONDS_EACH_BOUNDS.0).ceil();
    if f64::from(seconds) >= needed_s {
        return Ok(());
    }
    Err(InputError::new(format!(
        "--time-limit is {seconds}: up to {measurements} measurements of at least {} s need \
         {needed_s:.0} s: give that, or fewer sizes and depths by --io-size-min, --io-size-max and \
         --depth-max",
        SECONDS_EACH_BOUNDS.0
    )))
}

/// Says what has no meaning here.
fn refuse(args: &SaturateArgs) -> Result<(), InputError> {
    let given = [
        ("an object store", args.target.is_some()),
        ("--mix-of", args.mix_of.is_some()),
        ("--html-output", args.html_output.is_some()),
        ("--device-output", args.device_output.is_some()),
        ("--sqpoll", args.sqpoll),
        ("--iopoll", args.iopoll),
        ("--nvme-passthrough", args.nvme_passthrough),
        ("--read-percent", args.read_percent.is_some()),
        ("--no-iops", args.no_iops),
    ];
    let mut sentences: Vec<String> = given
        .into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(what, _)| what.to_owned())
        .chain(args.first_of_objects())
        .map(|what| format!("{what} has no meaning with --target vram: leave it out"))
        .collect();
    if args.gpu_backend == Some(Word(GpuBackend::None)) {
        sentences.push("--target vram needs a GPU backend: auto, cuda or emulated".to_owned());
    }
    if args.cache_dir.as_ref().is_some_and(|places| places.0.len() > 1) {
        sentences.push("--target vram measures one drive: name one with --cache-dir".to_owned());
    }
    none_of(sentences)
}

fn open(backend: GpuBackend, bytes: u64) -> Result<Gpu> {
    let bytes = bytes.next_multiple_of(CHUNK_BYTES);
    if backend == GpuBackend::Emulated {
        return Gpu::emulated(1, bytes);
    }
    let refused = |why: String| InputError::new(format!("--target vram: {why}"));
    Ok(Gpu::cuda(None, 1, bytes).map_err(refused)?)
}

fn measure(
    args: &SaturateArgs,
    file: &Arc<DataFile>,
    gpu: Gpu,
    settings: &mut VramSettings,
    interrupt: &Interrupt,
    limits: &mut VramLimits,
) -> Result<(), SaturateError> {
    let probe_bytes = file.prepared_blocks().saturating_mul(BLOCK_BYTES).min(settings.range_bytes);
    let direct = match file.descriptor() {
        Ok(descriptor) => (gpu.open_direct)(vec![descriptor], probe_bytes),
        Err(error) => {
            Err(NoDirect::Unusable(format!("the data file can't be opened again ({error})")))
        }
    };
    if let Err(NoDirect::UnderWay(why)) = &direct {
        let what = format!("GPUDirect Storage: {why}, so that nothing else can be measured");
        return Err(LoadError::Gpu { what }.into());
    }
    let direct = direct.map_err(|why| why.why().to_owned());
    limits.why_not_gds = direct.as_ref().err().cloned();
    if let Some(seconds) = args.time_limit {
        let measurements = vram_measurements(settings, direct.is_ok()).max(1);
        let each = f64::from(seconds) / f64::from(measurements);
        settings.seconds_each = each.clamp(SECONDS_EACH_BOUNDS.0, SECONDS_EACH_BOUNDS.1);
    }
    limits.seconds_each = settings.seconds_each;
    let mut teller = super::Teller::new(args, false);
    let is_gpu = limits.is_gpu;
    let mut watcher = |way: &str, point: &VramPoint| {
        let stands_in = if is_gpu { "" } else { " (emulated)" };
        teller.show(format!(
            "{way}{stands_in}: {} × {} deep: {:.2} GiB/s",
            io_size(point.io_bytes),
            point.depth,
            point.bytes_per_s / GIB as f64
        ));
    };
    let ends = VramEnds { memory: gpu.memory, file: Arc::clone(file), direct: direct.ok() };
    let ended = vram_limits(&ends, settings, interrupt, &mut watcher, limits);
    teller.progress.clear();
    limits.failure = ended?.map(|error| told(&error));
    limits.interrupted = interrupt.is_set();
    Ok(())
}

fn table(limits: &VramLimits) -> String {
    let mut page = String::new();
    let what = match limits.is_gpu {
        true => format!("{}, CUDA {}", limits.device, limits.driver.as_deref().unwrap_or("?")),
        false => {
            "emulated: no GPU. What follows is this machine's memory, and not a GPU's".to_owned()
        }
    };
    wrapped(&mut page, "  GPU          ", &terminal(&what));
    let table = Table::of(&limits.ways)
        .text("", |way| way.way)
        .number("GiB/s", fixed(3), |way| way.best.bytes_per_s / GIB as f64)
        .count("I/O", |way| io_size(way.best.io_bytes))
        .count("depth", |way| way.best.depth)
        .count("P50", |way| way.best.latency_p50_us.map(latency))
        .count("P99", |way| way.best.latency_p99_us.map(latency))
        .widths(&[26, 8, 8, 7, 10, 10]);
    page.push_str(&table.done().page());
    if let Some(why) = &limits.why_not_gds {
        wrapped(&mut page, "  gds          ", &format!("not measured: {}", terminal(why)));
    }
    if limits.is_gpu && !limits.is_page_locked {
        wrapped(&mut page, "  buffers      ", "host memory was not page-locked for the GPU");
    }
    page
}
