//! Inputs that once took all of a machine's memory, or time without end: each is refused, or ends.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::support::{Scratch, assert_fails, ended_well, output, text};

/// Address space that the program gets, KiB: 1 GiB.
const ADDRESS_SPACE_KIB: &str = "1048576";

/// The command with `ulimit FLAG LIMIT`.
fn limited(command: &Command, flag: &str, limit: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {flag} {limit} && exec \"$@\""), "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    shell
}

/// It was ended by the kernel, without a word.
#[test]
fn a_tiny_stack_is_enough() {
    let scratch = Scratch::new("stack");
    ended_well(output(limited(&scratch.run_command(&["--duration", "1"]), "-s", "64")));
}

/// A run that may have 1 GiB.
fn in_a_gib(scratch: &Scratch, more: &[&str]) -> Output {
    output(limited(&scratch.run_command(more), "-v", ADDRESS_SPACE_KIB))
}

fn write(scratch: &Scratch, name: &str, content: &[u8]) -> String {
    let path = scratch.file(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

fn pipe(scratch: &Scratch, name: &str) -> PathBuf {
    let path = scratch.file(name);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    path
}

/// A workbook of these shared texts and rows.
fn workbook(path: &Path, texts: &str, rows: &str) {
    let relation = |kind: &str, target: &str| {
        format!(
            "<Relationships><Relationship Id=\"r1\" Type=\"http://schemas.openxmlformats.org/\
             officeDocument/2006/relationships/{kind}\" Target=\"{target}\"/></Relationships>"
        )
    };
    let parts = [
        ("_rels/.rels", relation("officeDocument", "xl/workbook.xml")),
        ("xl/_rels/workbook.xml.rels", relation("worksheet", "worksheets/sheet1.xml")),
        (
            "xl/workbook.xml",
            "<workbook xmlns:r=\"r\"><sheets><sheet name=\"S\" sheetId=\"1\" r:id=\"r1\"/></sheets>\
             </workbook>"
                .to_owned(),
        ),
        ("xl/sharedStrings.xml", texts.to_owned()),
        (
            "xl/worksheets/sheet1.xml",
            format!("<worksheet><sheetData>{rows}</sheetData></worksheet>"),
        ),
    ];
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    for (name, content) in parts {
        archive.start_file(name, options).unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
}

fn analyze_in_a_gib(scratch: &Scratch, side: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.arg("analyze").arg(side).arg(side).current_dir(&scratch.path);
    output(limited(&command, "-v", ADDRESS_SPACE_KIB))
}

#[test]
fn a_spreadsheet_that_asks_for_all_memory_is_refused() {
    let scratch = Scratch::new("bounds-sheet");
    let texts = |count: &str| format!("<sst uniqueCount=\"{count}\"><si><t>a</t></si></sst>");
    let header = "<row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>Filename</t></is></c></row>";
    let row = "<row><c><v>1</v></c></row>";
    let wide = format!("<sst uniqueCount=\"1\"><si><t>{}</t></si></sst>", "x".repeat(1 << 20));
    let shared = "<row><c t=\"s\"><v>0</v></c></row>".repeat(5_000);
    for (name, texts, rows, word) in [
        ("texts.xlsx", texts("4294967295"), header.to_owned(), "declares 4294967295 shared texts"),
        ("rows.xlsx", texts("1"), row.repeat(250_000), "more than 200000 rows"),
        ("blank.xlsx", texts("1"), " ".repeat(80 << 20), "unpacks to more than"),
        ("shared.xlsx", wide, shared, "bytes of text"),
        ("plain.xlsx", texts("1"), header.to_owned(), "no column of a metric"),
    ] {
        let path = scratch.file(name);
        workbook(&path, &texts, &rows);
        assert!(std::fs::metadata(&path).unwrap().len() < 2 << 20, "{name} is small");
        assert_fails(&analyze_in_a_gib(&scratch, &path), 2, &[name, word]);
    }
    let commas = [&b"Filename\n"[..], &b",".repeat(5_000_000)].concat();
    write(&scratch, "wide.csv", &commas);
    let refused = analyze_in_a_gib(&scratch, &scratch.file("wide.csv"));
    assert_fails(&refused, 2, &["5000001 cells"]);
}

#[test]
fn counts_of_a_configuration_are_held_against_the_memory_there_is() {
    let scratch = Scratch::new("bounds-yaml");
    let configuration = |name: &str, section: &str| {
        write(&scratch, name, format!("workload:\n  {section}\n").as_bytes())
    };
    let prompts = configuration("p.yaml", "system_prompts: 4294967295\n  prefix_probability: 1");
    let entries = configuration("e.yaml", "decode_only_entries_per_user: 4294967295");
    let document = "document_tokens: [100000000, 100000000]";
    let chunks = configuration("c.yaml", &format!("rag: {{{document}, chunk_tokens: 1}}"));
    let documents = ["--enable-rag", "--rag-num-docs", "1000000"];
    let (chunks, whole) = ([&["--config", &chunks], &documents[..]].concat(), "chunk_tokens: 100");
    let many = configuration("m.yaml", &format!("rag: {{{document}, {whole}000, top_k: 1}}"));
    let many = [&["--config", &many], &documents[..]].concat();
    let limit = "ulimit -v";
    for (flags, words) in [
        (&["--config", &prompts][..], &["line 2: workload.system_prompts 4294967295", limit][..]),
        (&["--config", &entries, "--decode-only"], &["decode_only_entries_per_user", limit]),
        (&chunks, &["100000000 chunks", "rag.chunk_tokens"]),
        (&many, &["--rag-num-docs 1000000", "entries", limit]),
    ] {
        assert_fails(&in_a_gib(&scratch, flags), 2, words);
        assert!(!scratch.store().exists());
    }
}

#[test]
fn more_shards_than_the_cores_can_keep_going_are_refused_and_the_most_end_their_run() {
    let scratch = Scratch::new("bounds-shards");
    let all = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|&core| all.is_set(core)).unwrap());
    // Of this thread, and of what it starts.
    sched_setaffinity(None, &one).unwrap();
    let run = |shards: &str| {
        let small = ["--io-size", "64k", "--queue-depth", "1", "--duration", "1"];
        scratch.run(&[&["--shards", shards], &small[..]].concat())
    };
    assert_fails(&run("257"), 2, &["--shards 257", "1 core", "give 256 or fewer"]);
    ended_well(run("256"));
    let peak_rss_bytes = &scratch.json()["ringfall"]["cost"]["peak_rss_bytes"];
    // Of which a huge page of buffers a shard.
    assert!(peak_rss_bytes.as_u64().unwrap() < 1024 << 20, "{peak_rss_bytes}");
    let few = scratch.run_command(&["--shards", "32"]);
    assert_fails(&output(limited(&few, "-n", "256")), 2, &["--shards 32", "256", "ulimit -n 320"]);
}

#[test]
fn a_compressed_trace_of_nothing_ends() {
    let scratch = Scratch::new("bounds-bomb");
    let header = b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
    let row = b"0,GPT-4,10,10,20,API log\n";
    let pack = |name: &str, parts: &[&[u8]]| {
        let packed = zstd::encode_all(&parts.concat()[..], 1).unwrap();
        assert!(packed.len() < 1 << 20, "{name} is small");
        write(&scratch, name, &packed)
    };
    let (blank, zeros) = (b"\n".repeat(11_000_000), vec![0; 300 << 20]);
    let replay = |path: &str| {
        let flags = ["--use-burst-trace", "--burst-trace-path", path, "--trace-speedup", "0"];
        in_a_gib(&scratch, &[&flags[..], &["--shards", "1", "--arrival", "open"]].concat())
    };
    let path = pack("blank.csv.zst", &[header, &blank]);
    assert_fails(&replay(&path), 2, &["blank.csv.zst", "no row that can be used"]);
    let path = pack("zeros.csv.zst", &[header, &zeros]);
    assert_fails(&replay(&path), 2, &["zeros.csv.zst", "has no end within"]);
    // After a row that can be used, the run begins, and ends with its time or with the trace.
    let path = pack("later.csv.zst", &[header, row, &blank]);
    let ran = replay(&path);
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{}", text(&ran));
    assert!(scratch.json()["ringfall"]["window"].is_object());
}

#[test]
fn named_pipes_without_another_side_are_refused_and_with_one_are_read() {
    let scratch = Scratch::new("bounds-pipe");
    let lonely = pipe(&scratch, "lonely").display().to_string();
    for flags in [
        &["--use-burst-trace", "--burst-trace-path", &lonely, "--arrival", "open"][..],
        &["--output", &lonely],
    ] {
        assert_fails(&scratch.run(flags), 2, &["lonely", "pipe"]);
    }
    assert!(!scratch.store().exists());
    let written = pipe(&scratch, "written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["config", "--config"]).arg(&written).current_dir(&scratch.path);
    let writer = std::thread::spawn(move || std::fs::write(written, "num_users: 321\n").unwrap());
    let ran = output(command);
    writer.join().unwrap();
    assert!(ran.status.success() && text(&ran).contains("num_users: 321"), "{}", text(&ran));
    let ran = ended_well(scratch.run(&["--output", "/dev/stdout", "--quiet"]));
    let document: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(document["ringfall"].is_object());
}

#[test]
fn a_cpu_tier_beyond_memory_is_told_in_gib_with_what_there_is() {
    let scratch = Scratch::new("bounds-cpu");
    let words = ["--cpu-mem-gb 1000 needs 1000.0 GiB", "MiB (the limit of address space", "auto"];
    assert_fails(&in_a_gib(&scratch, &["--cpu-mem-gb", "1000", "--strict"]), 2, &words);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["saturate", "--depth-max", "16384", "--io-buffer-mb", "65536"]);
    command.arg("--cache-dir").arg(scratch.store()).current_dir(&scratch.path);
    let refused = output(limited(&command, "-v", ADDRESS_SPACE_KIB));
    assert_fails(&refused, 2, &["--io-buffer-mb 65536", "64.0 GiB", "lower one of them"]);
    let words = ["--cpu-mem-gb 100000 needs 97.7 TiB", " to give: give "];
    assert_fails(&scratch.run(&["--cpu-mem-gb", "100000", "--strict"]), 2, &words);
}

#[test]
fn a_cpu_tier_that_may_be_smaller_is_takes_what_it_needs_and_says_so() {
    let scratch = Scratch::new("bounds-cpu-less");
    let ran = ended_well(scratch.run(&["--cpu-mem-gb", "10000", "--max-requests", "4"]));
    let told = ["--cpu-mem-gb 10000 is more than this machine", "the CPU tier holds", "9.8 TiB"];
    assert!(told.iter().all(|words| text(&ran).contains(words)), "{}", text(&ran));
    let ours = &scratch.json()["ringfall"];
    let shortage = &ours["shortages"][0];
    assert_eq!(
        (&shortage["tier"], &shortage["since_s"]),
        (&"cpu".into(), &serde_json::Value::Null)
    );
    assert_eq!(shortage["wanted_bytes"], 10_000_u64 << 30);
    let given = shortage["given_bytes"].as_u64().unwrap();
    assert_eq!(ours["config"]["cpu_memory_bytes"], given);
    assert_eq!(ours["config"]["settings"]["cpu_mem_gb"], given as f64 / (1_u64 << 30) as f64);
    // What four requests write, and not what the tier might come to hold.
    let resident = ours["cost"]["peak_rss_bytes"].as_u64().unwrap();
    assert!(resident < given / 2 || given < 4 << 30, "{resident} of {given}");
    ended_well(in_a_gib(&scratch, &["--cpu-mem-gb", "1000", "--max-requests", "4"]));
}
