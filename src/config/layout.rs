//! Layout of the storage tier: ringfall's own, or that of an inference engine, with what follows
//! from it for other settings.

use ringfall_core::units::BLOCK_BYTES;
use ringfall_workloads::layout::{EngineLayout, LayoutOption, LayoutOptions, LayoutPlan};
use ringfall_workloads::model::ModelSpec;

use super::kinds::IO_SIZE_BYTES_MAX;
use super::names::Names;
use super::values::Size;
use super::words::DecodeReads;
use super::{Options, Word};

/// Longest name of a file or directory that Linux's file systems take, bytes (`NAME_MAX`).
const NAME_BYTES_MAX: usize = 255;

/// The layout that is asked for, of a model; none where it is ringfall's own.
///
/// # Errors
/// An option that it has not, or that means nothing here; objects larger than an I/O; or a layout
/// that no run can have: a sentence.
pub(super) fn planned(
    settings: &Options,
    name: &str,
    spec: &ModelSpec,
    names: &Names<'_>,
) -> Result<Option<LayoutPlan>, String> {
    let Some(engine) = settings.layout.and_then(|Word(layout)| layout) else {
        return Ok(None);
    };
    if engine == EngineLayout::Mooncake {
        return Err(format!(
            "{} mooncake: a run can't keep buckets, which are written and evicted whole: give \
             another layout, such as nixl, or measure its stores and fetches by `ringfall layouts \
             compare --layout mooncake`",
            names.name_of("layout")
        ));
    }
    let flag = names.name_of("layout_option");
    let mut options = [LayoutOptions::of(engine)];
    let typed = settings.layout_option.as_deref().filter(|typed| *typed != "none");
    let typed = typed.into_iter().flat_map(|typed| typed.split(',')).map(str::trim);
    LayoutOptions::apply(&mut options, typed).map_err(|error| format!("{flag} {error}"))?;
    let [options] = options;
    if options.value(LayoutOption::Requests) != engine.default_of(LayoutOption::Requests) {
        return Err(format!(
            "{flag} requests has no effect on a run, whose users decide how many entries are moved \
             at a time: leave it out"
        ));
    }
    let tokens = options.value(LayoutOption::ChunkTokens).unwrap_or(1);
    let ranks = settings.tensor_parallel.unwrap_or(1).max(1).unsigned_abs();
    let plan =
        LayoutPlan::new(options, name, spec, ranks, tokens).map_err(|error| error.to_string())?;
    let name_bytes = plan.name_bytes_max();
    if name_bytes > NAME_BYTES_MAX {
        return Err(format!(
            "{} {}: names of files have the model's name in them, and would be of {name_bytes} \
             bytes where a file system takes {NAME_BYTES_MAX}: shorten the name of the model",
            names.name_of("layout"),
            engine.name()
        ));
    }
    match object_bytes(&plan) {
        0..=IO_SIZE_BYTES_MAX => Ok(Some(plan)),
        bytes => {
            let fitting = IO_SIZE_BYTES_MAX * tokens / bytes;
            Err(format!(
                "{} {}: {tokens} tokens of {name} take {}, and an I/O has at most 64 MiB: give \
                 --layout-option chunk_tokens={}",
                names.name_of("layout"),
                engine.name(),
                Size(bytes),
                fitting.max(1)
            ))
        }
    }
}

/// Size of a file or slot of a run in that layout without its header, whole blocks, bytes.
fn object_bytes(plan: &LayoutPlan) -> u64 {
    plan.chunk_bytes().unwrap_or(IO_SIZE_BYTES_MAX).next_multiple_of(BLOCK_BYTES)
}

/// Sets what follows from that layout: an I/O is a file or slot, and an entry that was loaded stays
/// with the engine. The keys of what was set.
///
/// # Errors
/// Another size of I/Os was asked for: a sentence.
pub(super) fn fit(
    plan: &LayoutPlan,
    settings: &mut Options,
    names: &Names<'_>,
) -> Result<Vec<&'static str>, String> {
    let mut keys = vec!["io_size"];
    let size = Size(object_bytes(plan));
    let given = settings.io_size.replace(size);
    let is_asked = names.is_asked("io_size", given != Options::defaults().io_size);
    if let Some(given) = given.filter(|given| is_asked && *given != size) {
        return Err(format!(
            "{} {given} can't be had with {} {}, whose {} have {size} each: leave one of them out",
            names.name_of("io_size"),
            names.name_of("layout"),
            plan.layout().name(),
            if plan.has_slots() { "slots" } else { "files" }
        ));
    }
    if !names.is_given("decode_reads") {
        settings.decode_reads = Some(Word(DecodeReads::Once));
        keys.push("decode_reads");
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::MIB;

    use super::*;
    use crate::tests::{complaint_on, facts, plan_on, typed};
    use crate::{ConfigFile, Facts, defaults_page, resolve};

    /// The line for llama3.1-8b, unless it names a model.
    fn of_8b(line: &str) -> String {
        let model = if line.contains("--model") { "" } else { " --model llama3.1-8b" };
        format!("{line}{model}")
    }

    #[test]
    fn an_io_is_an_object_of_the_engine_s_and_reads_are_once() {
        for (line, bytes) in [
            ("--layout vllm", 2 * MIB),
            ("--layout lmcache", 32 * MIB),
            ("--layout hicache --layout-option chunk_tokens=16", 2 * MIB),
            ("--layout mlperf", 64 * MIB),
            ("--layout lmcache-raw", 32 * MIB),
            ("--layout nixl", 2 * MIB),
            ("--layout nixl --model deepseek-v3", 1_126_400),
            ("--layout lmcache --model llama3.1-70b --num-gpus 8 --tensor-parallel 8", 10 * MIB),
            ("--layout vllm --num-gpus 8 --tensor-parallel 8", 2 * MIB),
            // 274.5 blocks, which vLLM pads.
            ("--layout vllm --model deepseek-v3", 1_126_400),
            ("--layout vllm --io-size 2MiB", 2 * MIB),
            ("--layout native", MIB),
        ] {
            let plan = plan_on(&of_8b(line), &facts());
            assert_eq!(u64::from(plan.io_size_bytes), bytes, "{line}");
            let is_native = line.ends_with("native");
            assert_eq!(plan.layout_plan.is_none(), is_native, "{line}");
            assert_eq!(plan.decode_reads == DecodeReads::Batch, is_native, "{line}");
        }
        let given = plan_on("--layout vllm --decode-reads batch", &facts());
        assert_eq!(given.decode_reads, DecodeReads::Batch);
        // A printed configuration names every setting.
        let file = ConfigFile::parse("my.yaml".into(), defaults_page()).unwrap();
        let plan = resolve(&typed(&of_8b("--layout vllm")), Some(&file), &facts()).unwrap();
        assert_eq!(u64::from(plan.io_size_bytes), 2 * MIB);
        let simulated = Facts { is_simulated: true, ..facts() };
        let simulated = plan_on(&of_8b("--layout vllm"), &simulated);
        assert!(simulated.layout_plan.is_some() && simulated.asked_of_a_drive().is_empty());
        assert_eq!(u64::from(simulated.io_size_bytes), 2 * MIB);
        assert_eq!(simulated.decode_reads, DecodeReads::Once);
    }

    #[test]
    fn what_can_t_be_kept_in_files_is_refused_with_the_remedy() {
        for (line, words) in [
            ("--layout vllm --io-size 4MiB", "whose files have 2MiB each: leave one"),
            ("--layout nixl --io-size 4MiB", "whose slots have 2MiB each: leave one"),
            ("--layout mooncake", "ringfall layouts compare --layout mooncake"),
            // The default is as much asked for as any other size.
            ("--layout vllm --io-size 1MiB", "--io-size 1MiB can't be had with --layout vllm"),
            (
                "--layout vllm --layout-option direct=yes,vllm.direct=no",
                "--layout-option \"vllm.direct=no\": direct of vllm is given twice",
            ),
            ("--layout vllm --layout-option colour=1", "--layout-option \"colour=1\": colour"),
            ("--layout vllm --layout-option requests=3", "requests has no effect on a run"),
            ("--layout lmcache --model llama3.1-70b", "chunk_tokens=204"),
            (
                "--layout hicache --layout-option selective=yes --cpu-mem-gb 1",
                "--layout-option selective decides what is stored at all",
            ),
            ("--layout vllm --cache-dir /a,/b", "works with one directory, and --cache-dir"),
            ("--layout vllm --precondition", "--precondition works with ringfall's own data"),
            ("--layout vllm --disable-storage", "--layout has no effect with --disable"),
            ("--layout llmd --num-gpus 3 --tensor-parallel 3", "give a divisor of its 8 KV heads"),
        ] {
            let told = complaint_on(&of_8b(line), &facts());
            assert!(told.contains(words), "{line}: {told}");
        }
        let objects = "--layout vllm --cache-dir s3://b/p --storage-capacity-gb 1";
        let told = complaint_on(objects, &facts());
        assert!(told.contains("s3://b/p is an object store: name a directory"), "{told}");
    }
}
