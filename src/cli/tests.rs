use clap::CommandFactory;
use ringfall_config::values::{Auto, Gib, Seconds, Seed};
use ringfall_config::{Defaults, Options, SETTINGS, Setting, Word};
use ringfall_report::quick::{QuickPoint, is_reuse_sure};

use super::*;

fn parsed(line: &str) -> Result<Cli, Stop> {
    parse(line.split_whitespace().map(OsString::from))
}

fn options(line: &str) -> Options {
    match parsed(line) {
        Ok(Cli { command: Command::Run(args) }) => args.settings().options,
        other => panic!("{line}: {other:?}"),
    }
}

fn wrong(line: &str) -> String {
    match parsed(line) {
        Err(Stop::Wrong(text)) => text,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_plain_directory_brings_the_defaults_of_a_run_on_a_drive() {
    let defaults = |line: &str| match parsed(line) {
        Ok(Cli { command: Command::Run(args) }) => args.settings().defaults(),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(defaults("ringfall run /mnt/kv --users 5"), Defaults::Own);
    for line in [
        "ringfall run --cache-dir /mnt/kv",
        "ringfall run /mnt/kv --preset llama3.1-8b-stress",
        "ringfall run /mnt/kv --config c.yaml",
    ] {
        assert_eq!(defaults(line), Defaults::Reference, "{line}");
    }
}

#[test]
fn clap_accepts_the_definition() {
    Cli::command().debug_assert();
}

#[test]
fn every_key_is_a_flag_of_the_same_name() {
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    for key in Options::KEYS.iter().filter(|key| !["workload", "models"].contains(key)) {
        let flag = key.replace('_', "-");
        let found = run.get_arguments().any(|arg| arg.get_long() == Some(&flag));
        assert!(found, "--{flag}");
    }
}

#[test]
fn a_published_invocation_reads_unchanged() {
    let options = options(
        "ringfall run --model llama3.1-8b --cpu-memory-gb 0 --gpu-memory-gb 0 \
         --max-concurrent-allocs 16 --users 200 --duration 300 --generation-mode none \
         --disable-multi-turn --seed 42 --output results/a.json --cache-dir /mnt/nvme",
    );
    assert_eq!(options.num_users, Some(200));
    assert_eq!(options.cpu_mem_gb, Some(Auto::Given(Gib(0.0))));
    assert_eq!(options.disable_multi_turn, Some(true));
    assert_eq!(options.generation_mode, Some(Word(ringfall_config::GenerationMode::None)));
    assert_eq!(options.pin, None);
}

#[test]
fn a_word_that_is_no_flag_is_not_taken_for_the_beginning_of_one() {
    let text = wrong("ringfall sweep g");
    assert!(text.starts_with("\"g\" is neither a flag") && !text.contains("beside"), "{text}");
    let text = wrong("ringfall quick /mnt/a /mnt/b");
    assert!(text.starts_with("\"/mnt/b\" is neither") && text.contains("--beside FILE"), "{text}");
    // Nor is it a directory to make, or the value of a switch.
    for (line, word) in [("num-users", "num-users"), ("--pin false", "false")] {
        let text = wrong(&format!("ringfall run {line}"));
        assert!(text.contains(word) && text.contains("flags begin with --"), "{text}");
        assert!(!text.contains("--num-users"), "{text}");
    }
}

#[test]
fn the_place_of_a_run_is_an_argument_or_a_flag_and_never_both() {
    for place in ["/mnt/kv", ".", "/mnt/a,/mnt/b", "s3://bucket/runs"] {
        let flag = options(&format!("ringfall run --cache-dir {place} --users 4"));
        assert!(flag.cache_dir.is_some());
        assert_eq!(options(&format!("ringfall run {place} --users 4")), flag);
        assert_eq!(options(&format!("ringfall --users 4 {place}")), flag);
    }
    let text = wrong("ringfall run /mnt/kv --cache-dir /mnt/kv");
    assert!(text.contains("--cache-dir") && text.contains("cannot be used with"), "{text}");
    assert!(wrong("ringfall run /mnt/a /mnt/b").contains("\"/mnt/b\" is neither"));
    let Ok(Cli { command: Command::Saturate(args) }) = parsed("ringfall saturate /mnt/kv") else {
        panic!("saturate takes a directory")
    };
    assert_eq!(args.target.as_deref(), Some("/mnt/kv"));
}

#[test]
fn seeds_sizes_and_times_are_read_with_their_words_and_units() {
    let options = options(
        "ringfall run --seed random --duration 5m --warmup 10s --storage-capacity-gb 512MiB \
         --cpu-mem-gb 4GiB --gpu-mem-gb 1.5",
    );
    assert_eq!(options.seed, Some(Seed::Random));
    assert_eq!((options.duration, options.warmup), (Some(Seconds(300)), Some(Seconds(10))));
    assert_eq!(options.storage_capacity_gb, Some(Gib(0.5)));
    assert_eq!(options.cpu_mem_gb, Some(Auto::Given(Gib(4.0))));
    assert_eq!(options.gpu_mem_gb, Some(Gib(1.5)));
    let Ok(Cli { command: Command::Quick(quick) }) = parsed("ringfall quick --seed random") else {
        panic!("quick draws a seed")
    };
    assert_eq!(quick.seed, Seed::Random);
    let Ok(Cli { command: Command::Suite(suite) }) =
        parsed("ringfall suite -t 2m -a 300 --storage-capacity-gb 1TiB")
    else {
        panic!("suite takes units")
    };
    assert_eq!((suite.tier_seconds, suite.autoscale_seconds), (120, 300));
    assert_eq!(suite.storage_capacity_gb, Some(1_024.0));
    assert!(wrong("ringfall suite -t 25h").contains("90000 is not in 1..=86400"));
    // It asked for 15s to 10m, where the help has seconds.
    assert!(wrong("ringfall quick --time 2").contains("give 15 to 600 seconds (15s to 10m)"));
}

#[test]
fn the_help_lists_every_command_once_and_first_those_that_one_starts_with() {
    let Err(Stop::Said(help)) = parsed("ringfall --help") else { panic!("no help") };
    let help = help.to_string();
    let lines = [
        "Start here:",
        "  quick ",
        "  run ",
        "  discover ",
        "Plan:",
        "  simulate ",
        "Other:",
        "  mlperf ",
        "  schema ",
        "Options:",
    ];
    let places = lines.map(|line| help.find(&format!("\n{line}")));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {help}");
    for command in Cli::command().get_subcommands() {
        let begin = format!("  {} ", command.get_name());
        let listed = help.lines().filter(|line| line.starts_with(&begin)).count();
        assert_eq!(listed, usize::from(!command.is_hide_set()), "{begin} {help}");
    }
    // Those that have become part of others are still understood.
    for line in ["ringfall replay t.csv", "ringfall analyze a b", "ringfall merge a b"] {
        assert!(parsed(line).is_ok(), "{line}");
    }
}

#[test]
fn the_short_help_of_a_run_fits_on_a_screen_and_the_long_one_has_every_flag() {
    let command = Cli::command();
    let mut run = command.find_subcommand("run").unwrap().clone().term_width(HELP_COLUMNS_MAX);
    let short = run.render_help().to_string();
    let flags = short.lines().filter(|line| line.trim_start().starts_with('-')).count();
    assert!((15..=30).contains(&flags), "{flags} flags: {short}");
    // Each in one line: none goes on below its beginning.
    assert!(!short.lines().any(|line| line.starts_with("          ")), "{short}");
    let long = run.render_long_help().to_string();
    for flag in SETTINGS.iter().map(Setting::flag) {
        assert!(long.contains(&flag), "{flag}");
    }
}

/// Users whose turns found were just enough were left out, and nothing said by which margin.
#[test]
fn the_help_of_quick_has_the_margin_by_which_it_judges_turns_found() {
    let Err(Stop::Said(help)) = parsed("ringfall quick --help") else { panic!("no help") };
    let help = help.to_string();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("by 5 % of the misses that it allows (71.5 % for 70 %)"), "{help}");
    let is_sure = |users, share| {
        let point = QuickPoint { users, reuse_share: Some(share), ..QuickPoint::default() };
        is_reuse_sure(&point, 0.7)
    };
    assert_eq!((is_sure(2, 0.71), is_sure(2, 0.72), is_sure(1, 0.7)), (false, true, true));
}

#[test]
fn help_of_a_group_has_the_flags_of_that_group_alone() {
    let said = |line: &str| match parsed(line) {
        Err(Stop::Said(help)) => help.to_string(),
        other => panic!("{line}: {other:?}"),
    };
    let named = "workload, traces, autoscaler, tiers, gpu, preconditioning, objects, engine, \
                 results, monitoring, ranks";
    for line in ["ringfall run --help", "ringfall run -h", "ringfall run --help=gpu"] {
        let words = said(line).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.ends_with(&format!("one group of flags alone: {named}")), "{words}");
        // Those of the reference alone were told.
        let plain = "`ringfall run DIR` has others: --num-users 8 --arrival closed";
        assert!(words.contains(plain), "{words}");
    }
    for setting in SETTINGS {
        let group = setting.section.to_lowercase();
        let help = said(&format!("ringfall run --users 4 --help={group}"));
        let lines = help.lines().filter(|line| line.starts_with("      --")).count();
        let all = SETTINGS.iter().filter(|other| other.section == setting.section).count();
        assert!(help.contains(&format!("\n      {}", setting.flag())), "{help}");
        assert_eq!(lines, all, "{help}");
    }
    let shortened = said("ringfall run --help=Precond");
    assert_eq!(shortened, said("kv-cache --help=preconditioning"));
    assert!(said("ringfall simulate --help=engine").contains("--queue-depth"));
    for (line, part) in [
        ("ringfall run --help=r", "groups of `ringfall run`: workload, traces"),
        ("ringfall run --help=nvme", "--help=nvme: give one of the groups"),
        ("ringfall compare --help=gpu", "`ringfall compare` stand in no groups"),
    ] {
        assert!(wrong(line).contains(part), "{line}: {}", wrong(line));
    }
}

/// `ringfall run --num-user 4` began a run, of 56 GiB where the rest was left out.
#[test]
fn the_beginning_of_a_flag_is_answered_with_the_flags_that_begin_so() {
    for (line, meant) in [
        ("run --num-user 4", "--num-user; did you mean --num-users?"),
        ("run --durat=7", "--durat; did you mean --duration?"),
        ("run --dur 7", "--dur; did you mean --duration or --durability?"),
        ("quick --mode tiny-1b", "--mode; did you mean --model?"),
    ] {
        let text = wrong(&format!("ringfall {line}"));
        assert!(text.starts_with(&format!("unknown flag {meant}")), "{text}");
    }
}

/// `run --modle` and `quick --models` were answered with --models, which neither has.
#[test]
fn suggestions_are_flags_of_the_command_that_was_typed() {
    for (line, told) in [
        ("run --modle x", "unknown flag --modle; did you mean --model? (`ringfall run --help`"),
        ("quick --models x", "--models; did you mean --model? (`ringfall quick --help`"),
        ("run --dir x", "unknown flag --dir; did you mean --cache-dir? (`ringfall run --help`"),
        ("--num_usres 4", "--num_usres; did you mean --num-users? (`ringfall run --help`"),
        ("quick --users 4", "--users is a flag of `ringfall run`, and `ringfall quick` does not"),
        ("quick --cache-dir x", "--cache-dir is a flag of `ringfall run`, and `ringfall quick`"),
        ("checkpoint run --vary x", "--vary is a flag of `ringfall sweep`, and `ringfall checkp"),
        ("discover --bogus", "'--bogus'"),
    ] {
        let text = wrong(&format!("ringfall {line}"));
        assert!(text.contains(told), "{line}: {text}");
    }
}

#[test]
fn without_a_subcommand_flags_are_those_of_a_run() {
    for line in ["ringfall --users 4", "/usr/bin/kv-cache --users 4", "kv-cache.py --users 4"] {
        assert_eq!(options(line).num_users, Some(4), "{line}");
    }
    assert_eq!(options("kv-cache"), Options::default());
    assert!(matches!(parsed("ringfall --version"), Err(Stop::Said(_))));
    for (line, expected) in
        [("kv-cache schema", SchemaName::Results), ("kv-cache schema what-if", SchemaName::WhatIf)]
    {
        let Ok(Cli { command: Command::Schema(args) }) = parsed(line) else { panic!("{line}") };
        assert_eq!(args.name, expected);
    }
}

#[test]
fn log_levels_have_the_reference_names_too() {
    use ringfall_config::LogLevel::{Debug, Error, Info, Warn};
    for (name, level) in [
        ("DEBUG", Debug),
        ("INFO", Info),
        ("WARNING", Warn),
        ("ERROR", Error),
        ("CRITICAL", Error),
        ("Warning", Warn),
        ("info", Info),
    ] {
        let options = options(&format!("ringfall run --log-level {name}"));
        assert_eq!(options.log_level, Some(Word(level)), "{name}");
    }
}

#[test]
fn a_switch_can_be_turned_off_again() {
    assert_eq!(options("ringfall run --pin=false").pin, Some(false));
    assert_eq!(options("ringfall run --pin --quiet").pin, Some(true));
}

#[test]
fn of_a_flag_given_twice_the_last_counts() {
    let options = options("ringfall run --users 4 --num-users 5 --pin --pin=false");
    assert_eq!((options.num_users, options.pin), (Some(5), Some(false)));
    for line in [
        "checkpoint write /mnt/kv --seed 1 --seed 2",
        "datagen verify file --size-gib 1 --size-gib 2",
        "trace info file --model tiny-1b --model llama3.1-8b",
        "layouts compare --cache-dir /mnt/kv --seed 1 --seed 2",
    ] {
        assert!(parsed(&format!("ringfall {line}")).is_ok(), "{line}");
    }
}

#[test]
fn a_slip_gets_the_nearest_flag() {
    assert!(wrong("ringfall run --num-usres 4").contains("--num-users"));
    assert!(wrong("ringfall run --cpu-mem-gib 4").contains("--cpu-mem-gb"));
    assert!(wrong("ringfall rum").contains("run"));
    assert!(wrong("ringfall").contains("ringfall quick DIR"));
}

#[test]
fn a_wrong_type_names_flag_and_value() {
    for (line, flag, value) in [
        ("--num-users many", "--num-users", "many"),
        ("--io-size 1.5M", "--io-size", "1.5M"),
        ("--verify some", "--verify", "some"),
        ("--seed x1", "--seed", "x1"),
        ("--cpu-mem-gb lots", "--cpu-mem-gb", "lots"),
    ] {
        let text = wrong(&format!("ringfall run {line}"));
        assert!(text.contains(flag) && text.contains(value), "{text}");
    }
}

#[test]
fn a_negative_value_is_told_as_such_and_not_taken_for_a_flag() {
    for (line, told) in [
        ("run --cpu-mem-gb -1GiB", "--cpu-mem-gb -1GiB: sizes,"),
        ("run --io-size -4096", "--io-size -4096: sizes,"),
        ("run --duration -5m", "--duration -5m: sizes,"),
        ("quick /mnt/kv --space -1GiB --quiet", "--space -1GiB: sizes,"),
        ("quick --time -15", "--time -15: sizes,"),
        ("saturate --size-gb -.5", "--size-gb -.5: sizes,"),
        ("suite -t -2m", "-t -2m: sizes,"),
        ("checkpoint run /mnt/kv --interval -1s", "--interval -1s: sizes,"),
    ] {
        let text = wrong(&format!("ringfall {line}"));
        assert!(text.starts_with(told) && text.contains("can't be negative"), "{text}");
    }
    // A flag that there is not stays one.
    assert!(wrong("ringfall run --pin -x").contains("'-x'"));
}
