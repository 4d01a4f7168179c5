//! Varied settings, their values and all combinations of them.

use ringfall_config::nearest::nearest;
use ringfall_config::{InputError, Options, PRESETS, Preset, SETTINGS, Setting};
use ringfall_model::distinct;

use crate::cli::{SweepSpace, flag};

/// Combinations that a sweep may have, before trials and drives.
const POINTS_MAX: usize = 20_000;

/// A setting and its values, as typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// As in YAML: `num_users`.
    pub(super) key: &'static str,
    /// At least one; none twice.
    pub(super) values: Vec<String>,
}

/// One combination: what each setting that is varied is set to, in the order of the axes.
pub(super) type Point = Vec<(&'static str, String)>;

/// The study's own combinations: every value of an axis with every value of the others, for each
/// group of models. Values as in the names of its 1,411 results (tests/data/discovery_fast.xlsx),
/// which are these 1,596 but for those that were not run.
const DISCOVERY: &[&[(&str, &[&str])]] = &[
    &[
        ("model", &["llama2-7b", "llama3.1-8b", "mistral-7b"]),
        ("cpu_mem_gb", CPU_MEMORY_GIB),
        ("num_users", &["50", "100", "150", "200"]),
        ("max_concurrent_allocs", ALLOCS),
        ("generation_mode", MODES),
    ],
    &[
        ("model", &["llama3.1-70b-instruct"]),
        ("cpu_mem_gb", CPU_MEMORY_GIB),
        ("num_users", &["10", "20", "30", "40", "50", "60", "70"]),
        ("max_concurrent_allocs", ALLOCS),
        ("generation_mode", MODES),
    ],
];
const CPU_MEMORY_GIB: &[&str] = &["0", "4", "8", "16", "32", "64"];
const ALLOCS: &[&str] = &["0", "2", "4", "8", "16", "32", "64"];
const MODES: &[&str] = &["none", "realistic"];

/// Settings that are the same for all runs of a sweep.
const SAME: [&str; 5] = ["trials", "details", "quiet", "metrics_listen", "metrics_file"];
/// Settings that make no sense in a sweep, and why.
const REFUSED: [(&str, &str); 8] = [
    ("output", "every run of a sweep has a result of its own: give --results DIR"),
    ("xlsx_output", "`ringfall report DIR --output all.csv` makes a table of all results"),
    ("html_output", "`ringfall report FILE --output page.html` makes a page of a result"),
    ("fio_output", "`ringfall report FILE --output run.fio` makes a job of a result"),
    ("io_trace_log", "all runs would write to the same file"),
    ("fail_on_health", "a run that fails is not a result that a sweep keeps"),
    ("json", "the results are in the files of --results"),
    ("start_at", "only one of the runs can begin at that time"),
];

/// Reads `num-users=50,100`.
pub(super) fn axis(typed: &str) -> Result<Axis, InputError> {
    let Some((name, values)) = typed.split_once('=') else {
        refuse!(
            "--vary {typed:?} has no values: write it as FLAG=VALUE,VALUE, for example --vary \
             num-users=50,100"
        );
    };
    let setting = setting(name)?;
    let key = setting.key;
    check_allowed(key)?;
    if SAME.contains(&key) {
        refuse!("--vary {name}: {} is the same for the whole sweep", setting.flag());
    }
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        refuse!("--vary {typed:?}: a value is missing before or after a comma");
    }
    if let Some(twice) = (1..values.len()).find(|&at| values[..at].contains(&values[at])) {
        refuse!("--vary {name}: the value {} is given twice", values[twice]);
    }
    Ok(Axis { key, values })
}

/// Says why a setting makes no sense in a sweep.
pub(super) fn check_allowed(key: &str) -> Result<(), InputError> {
    match REFUSED.iter().find(|(refused, _)| *refused == key) {
        Some((_, why)) => refuse!("{} can't be used in a sweep: {why}", flag(key)),
        None => Ok(()),
    }
}

/// The setting of that name, as typed after `--` or in YAML.
fn setting(name: &str) -> Result<&'static Setting, InputError> {
    let key = name.trim().trim_start_matches('-').replace('-', "_");
    let is_it = |setting: &&Setting| setting.key == key || setting.alias == Some(&*key);
    if let Some(setting) = SETTINGS.iter().find(is_it) {
        return Ok(setting);
    }
    let flags = SETTINGS.iter().map(|setting| setting.key);
    let near = nearest(&key, flags).map(|near| format!("did you mean {}?", near.replace('_', "-")));
    let only_in_files = Options::KEYS.contains(&&*key);
    let advice = match near.filter(|_| !only_in_files) {
        Some(near) => near,
        None if only_in_files => "it can be set in a configuration file only".to_owned(),
        None => "`ringfall run --help` lists all flags".to_owned(),
    };
    refuse!("--vary {name}: this is not a flag of `ringfall run`; {advice}")
}

/// All combinations, the last axis running fastest.
pub(super) fn points(space: Option<SweepSpace>, axes: &[Axis]) -> Result<Vec<Point>, InputError> {
    if let Some(twice) =
        (1..axes.len()).find(|&at| axes[..at].iter().any(|axis| axis.key == axes[at].key))
    {
        let flag = axes[twice].key.replace('_', "-");
        refuse!("--vary {flag} is given twice: put all values into one");
    }
    let groups = match space {
        Some(space) => narrowed(&groups_of(space), axes)?,
        None if axes.is_empty() => {
            refuse!("nothing is varied: give --vary FLAG=VALUES, or --space discovery or presets");
        }
        None => vec![axes.to_vec()],
    };
    let count = |group: &Vec<Axis>| {
        group.iter().fold(1, |count: usize, axis| count.saturating_mul(axis.values.len()))
    };
    let all: usize = groups.iter().map(count).fold(0, usize::saturating_add);
    if all > POINTS_MAX {
        refuse!("{all} combinations, and at most {POINTS_MAX} are run: give fewer");
    }
    Ok(groups.iter().flat_map(|group| product(group)).collect())
}

/// The combinations of a space: every value of an axis with every value of the others of its group.
fn groups_of(space: SweepSpace) -> Vec<Vec<Axis>> {
    let axis = |&(key, values): &(&'static str, &[&str])| Axis {
        key,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    match space {
        SweepSpace::Discovery => {
            DISCOVERY.iter().map(|group| group.iter().map(axis).collect()).collect()
        }
        SweepSpace::Presets => {
            let of_a_model = PRESETS.iter().filter(|preset| preset.is_of_a_model());
            let group = |preset: &Preset| {
                let settings = [
                    ("model", preset.model.to_owned()),
                    ("cpu_mem_gb", preset.cpu_memory_gib.to_string()),
                    ("num_users", preset.users.to_string()),
                    ("max_concurrent_allocs", preset.max_concurrent_allocs.to_string()),
                    ("generation_mode", "none".to_owned()),
                ];
                settings.map(|(key, value)| Axis { key, values: vec![value] }).into()
            };
            of_a_model.map(group).collect()
        }
    }
}

/// The groups of a space with only the values that the axes leave, and the other axes added.
fn narrowed(space: &[Vec<Axis>], axes: &[Axis]) -> Result<Vec<Vec<Axis>>, InputError> {
    let is_of_space = |key: &str| space.iter().flatten().any(|of| of.key == key);
    for axis in axes.iter().filter(|axis| is_of_space(axis.key)) {
        let of_space = space.iter().flatten().filter(|of| of.key == axis.key);
        let known = distinct(of_space.flat_map(|of| &of.values).map(String::as_str));
        if let Some(strange) = axis.values.iter().find(|value| !known.contains(&value.as_str())) {
            let flag = axis.key.replace('_', "-");
            refuse!(
                "--vary {flag}: {strange} is not in the space, which has {}; leave --space out to \
                 try others",
                known.join(", ")
            );
        }
    }
    let mut groups = Vec::new();
    for group in space {
        let of_space = group.iter().map(|Axis { key, values }| {
            let chosen = axes.iter().find(|axis| axis.key == *key);
            let is_left = |value: &&String| chosen.is_none_or(|axis| axis.values.contains(value));
            Axis { key, values: values.iter().filter(is_left).cloned().collect() }
        });
        let added = axes.iter().filter(|axis| !is_of_space(axis.key)).cloned();
        let group: Vec<Axis> = of_space.chain(added).collect();
        if group.iter().all(|axis| !axis.values.is_empty()) {
            groups.push(group);
        }
    }
    match groups.is_empty() {
        true => Err(InputError::new(
            "no combination of the space has all of these values: its models have their own \
             numbers of users",
        )),
        false => Ok(groups),
    }
}

fn product(axes: &[Axis]) -> Vec<Point> {
    let mut points = vec![Point::new()];
    for axis in axes {
        let longer = |point: &Point| {
            let point = point.clone();
            axis.values.iter().map(move |value| {
                point.iter().cloned().chain([(axis.key, value.clone())]).collect::<Point>()
            })
        };
        points = points.iter().flat_map(longer).collect();
    }
    points
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use ringfall_report::analysis::collection::Collection;

    use super::*;

    fn told(result: Result<impl std::fmt::Debug, InputError>) -> String {
        result.map_or_else(|error| error.to_string(), |value| format!("{value:?}"))
    }

    #[test]
    fn any_flag_can_be_varied_under_any_of_its_names() {
        let axis = |typed| axis(typed).unwrap();
        assert_eq!(axis("num-users=50, 100").values, ["50", "100"]);
        for name in ["--num-users=5", "users=5", "num_users=5"] {
            assert_eq!(axis(name).key, "num_users");
        }
        assert_eq!(axis("io-size=64KiB,1MiB").key, "io_size");
    }

    #[test]
    fn what_can_not_be_varied_says_why() {
        for (typed, why) in [
            ("num-users", "has no values"),
            ("nun-users=5", "did you mean num-users?"),
            ("zebra=1", "`ringfall run --help` lists all flags"),
            ("models=a", "configuration file only"),
            ("users=5,,6", "a value is missing"),
            ("users=", "a value is missing"),
            ("users=5,6,5", "the value 5 is given twice"),
            ("output=a.json", "give --results DIR"),
            ("trials=1,2", "the same for the whole sweep"),
        ] {
            let text = told(axis(typed));
            assert!(text.contains(why), "{typed}: {text}");
        }
        let users = axis("users=5").unwrap();
        assert!(told(points(None, &[users.clone(), users])).contains("is given twice"));
        assert!(told(points(None, &[])).contains("nothing is varied"));
        let many = |key: &str| {
            let values: Vec<String> = (0..200).map(|n| n.to_string()).collect();
            axis(&format!("{key}={}", values.join(","))).unwrap()
        };
        let all = points(None, &[many("users"), many("seed"), many("shards")]);
        assert!(told(all).contains("8000000 combinations, and at most 20000"));
    }

    #[test]
    fn every_value_of_one_meets_every_value_of_the_others() {
        let axes = [axis("users=5,6").unwrap(), axis("cpu-mem-gb=0,4").unwrap()];
        let all = points(None, &axes).unwrap();
        let texts: Vec<String> = all
            .iter()
            .map(|point| {
                point.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(texts, ["5 0", "5 4", "6 0", "6 4"]);
    }

    #[test]
    fn the_study_has_its_combinations_and_can_be_narrowed() {
        let of = |axes: &[&str]| {
            let axes: Vec<Axis> = axes.iter().map(|typed| axis(typed).unwrap()).collect();
            points(Some(SweepSpace::Discovery), &axes)
        };
        assert_eq!(of(&[]).unwrap().len(), (3 * 4 + 7) * 6 * 7 * 2);
        assert_eq!(of(&["cpu-mem-gb=0,4", "generation-mode=none"]).unwrap().len(), 19 * 2 * 7);
        // Only the large model was run with 10 users.
        assert_eq!(of(&["users=10"]).unwrap().len(), 6 * 7 * 2);
        assert_eq!(of(&["users=10", "queue-depth=8,16"]).unwrap().len(), 6 * 7 * 2 * 2);
        assert!(told(of(&["users=11"])).contains("11 is not in the space, which has 50, 100"));
        assert!(told(of(&["users=10", "model=llama2-7b"])).contains("no combination"));
    }

    #[test]
    fn the_six_presets_by_model_are_one_space() {
        let all = points(Some(SweepSpace::Presets), &[]).unwrap();
        assert_eq!(all.len(), 6);
        for point in &all {
            let of = |key: &str| &point.iter().find(|(name, _)| *name == key).unwrap().1;
            let is_it = |preset: &&Preset| {
                preset.model == of("model")
                    && preset.cpu_memory_gib.to_string() == *of("cpu_mem_gb")
                    && preset.users.to_string() == *of("num_users")
                    && preset.max_concurrent_allocs.to_string() == *of("max_concurrent_allocs")
            };
            assert!(PRESETS.iter().any(|preset| is_it(&preset)), "{point:?}");
        }
        let stress = points(Some(SweepSpace::Presets), &[axis("cpu-mem-gb=0").unwrap()]).unwrap();
        assert_eq!(stress.len(), 3);
    }

    #[test]
    fn the_study_has_every_configuration_of_its_published_results() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/discovery_fast.xlsx");
        let runs = Collection::read(Path::new(path)).unwrap().runs;
        assert_eq!(runs.len(), 1411);
        let all = points(Some(SweepSpace::Discovery), &[]).unwrap();
        let name = |point: &Point| {
            let of = |key: &str| &point.iter().find(|(name, _)| *name == key).unwrap().1;
            let (model, cpu) = (of("model"), of("cpu_mem_gb"));
            let (allocs, mode) = (of("max_concurrent_allocs"), of("generation_mode"));
            format!("{model} cpu{cpu}GB qd{allocs} gen{mode} users{}", of("num_users"))
        };
        let known: BTreeSet<String> = all.iter().map(name).collect();
        for run in runs {
            let name = run.configuration.unwrap().to_string();
            assert!(known.contains(&name), "{name}");
        }
    }
}
