//! Output of `discover` in short: what a person needs to begin, on one screen of 80 columns.

use std::fmt::Write as _;

use ringfall_core::units::gib;
use ringfall_host::escape::terminal;
use ringfall_host::survey::Disk;
use ringfall_host::{counted, escape};

use super::discover::{command, pci_text, ring_text, size};
use super::prose::wrapped;
use crate::suite::{Advice, Discovery};

/// Lines of the page at most: a screen.
const LINES_MAX: usize = 25;
/// Drives below the data that are described; there may be dozens below a RAID.
const DRIVES_SHOWN: usize = 2;
/// Users of the run to try where there is space for them, as of the workloads with a moderate load.
const USERS_MAX: u64 = 50;

/// The report of `ringfall discover` in short.
pub fn discovery_page(found: &Discovery) -> String {
    let (mut page, mut end) = (String::new(), String::new());
    machine(&mut page, found);
    drives(&mut page, found);
    place(&mut page, found);
    kv_size(&mut end, found);
    commands(&mut end, found);
    row(&mut end, "more", "ringfall discover --details # disks, limits, flags of named workloads");
    let taken = page.lines().count() + end.lines().count();
    fixes(&mut page, &found.advice, LINES_MAX.saturating_sub(taken));
    page + &end
}

fn row(page: &mut String, head: &str, text: &str) {
    wrapped(page, &format!("{head:<9}"), text);
}

fn machine(page: &mut String, found: &Discovery) {
    let machine = &found.machine;
    let (own, memory) = (&machine.processor, &machine.memory);
    let mut facts = vec![own.model.clone().unwrap_or_else(|| "an unknown processor".to_owned())];
    facts.extend((own.is_virtual == Some(true)).then(|| "a virtual machine".to_owned()));
    facts.push(counted(own.cores.into(), "core"));
    let [all, available] = [memory.total_bytes, memory.available_bytes].map(size);
    facts.push(format!("{all} of memory ({available} available)"));
    facts.push(match machine.gpus.len() {
        0 => "no GPU".to_owned(),
        count => counted(count as u64, "GPU"),
    });
    facts.push(format!("Linux {}", machine.kernel.as_deref().unwrap_or("of an unknown release")));
    row(page, "machine", &facts.join(", "));
}

fn drives(page: &mut String, found: &Discovery) {
    let drives = found.place.drives(&found.machine);
    if drives.is_empty() {
        row(page, "drive", "not known: no drive is named for the file system of the place below");
    }
    for (at, drive) in drives.iter().take(DRIVES_SHOWN).enumerate() {
        row(page, if at == 0 { "drive" } else { "" }, &drive_text(drive));
    }
    let left = drives.len().saturating_sub(DRIVES_SHOWN);
    if left > 0 {
        row(page, "", &format!("and {} more", counted(left as u64, "drive")));
    }
}

fn drive_text(drive: &Disk) -> String {
    let own = &drive.facts;
    let mut facts = vec![drive.kind.clone()];
    facts.extend(own.model.clone());
    facts.push(size(own.size_bytes));
    facts.extend(own.scheduler.as_ref().map(|scheduler| format!("scheduler {scheduler}")));
    facts.extend(own.write_cache.as_ref().map(|cache| format!("write cache: {cache}")));
    let path = drive.pci.as_ref().filter(|path| path.bandwidth_bytes_per_s.is_some());
    facts.extend(path.map(|path| format!("PCIe {}", pci_text(path))));
    format!("{}: {}", own.name, facts.join(", "))
}

/// Where the data would go, and what I/O it takes.
fn place(page: &mut String, found: &Discovery) {
    let place = &found.place;
    let direct = match found.takes_direct_io {
        Some(true) => "takes O_DIRECT",
        Some(false) => "does not take O_DIRECT",
        None => "O_DIRECT could not be tried",
    };
    let free = size(place.free_bytes);
    row(page, "place", &format!("{}: {free} free, {direct}", place.directory.display()));
    if !place.is_given {
        row(page, "", &place.reason);
    }
    let ring = match found.io_uring.works {
        true => ring_text(&found.io_uring),
        false => "does not work".to_owned(),
    };
    let shards = counted(found.engine.shards.into(), "shard");
    row(page, "engine", &format!("io_uring {ring}; {shards}"));
}

/// Writes what should be changed, the most important first, as far as `room` lines hold it.
fn fixes(page: &mut String, all: &[Advice], room: usize) {
    if all.is_empty() {
        row(page, "fix", "nothing was found that keeps a run from measuring the drive");
    }
    let mut left = room;
    for (at, advice) in all.iter().enumerate() {
        let head = format!("{:<9}{} ", if at == 0 { "fix" } else { "" }, at + 1);
        let mut lines = String::new();
        wrapped(&mut lines, &head, &format!("{}.", advice.what));
        if let Some(command) = &advice.command {
            let _infallible = writeln!(lines, "{:11}{}", "", terminal(command));
        }
        let (count, is_last) = (lines.lines().count(), at + 1 == all.len());
        // A line is left for the number of those that are not shown.
        if count + usize::from(!is_last) > left {
            let head = if at == 0 { "fix" } else { "" };
            row(page, head, &format!("{} more with --details", all.len() - at));
            return;
        }
        left -= count;
        page.push_str(&lines);
    }
}

fn kv_size(page: &mut String, found: &Discovery) {
    let kv = &found.kv;
    let mut text = format!(
        "{}: {} of KV cache a token, {:.2} GiB a user's turn on average",
        kv.model,
        ringfall_host::human(kv.token_bytes),
        gib(kv.turn_bytes)
    );
    if let Some(bytes) = found.place.free_bytes {
        let users = counted(kv.users_in(bytes), "user");
        let _infallible = write!(text, "; {:.1} GiB free hold one turn of {users}", gib(bytes));
    }
    row(page, "size", &text);
}

/// The first commands to try: an answer in one to three minutes, and a run of its own.
fn commands(page: &mut String, found: &Discovery) {
    let kv = &found.kv;
    let Some(place) = found.place_to_try() else { return };
    let directory = escape::shell(&place.directory.display().to_string());
    let _infallible = writeln!(page, "{:<9}ringfall quick {}", "try", terminal(&directory));
    // Not to the last byte: file systems that are nearly full have no long extents left.
    let space_bytes = place.free_bytes.map(|bytes| bytes / 10 * 9);
    let users = space_bytes.map_or(USERS_MAX, |bytes| kv.users_in(bytes).min(USERS_MAX));
    if users == 0 {
        return;
    }
    let flags = [
        format!("--model {}", escape::shell(&kv.model)),
        format!("--cache-dir {directory}"),
        format!("--users {users}"),
        "--cpu-mem-gb 0".to_owned(),
        format!(
            "--storage-capacity-gb {:.1}GiB",
            gib(kv.turn_bytes.saturating_mul(users)).max(0.1)
        ),
        "--preallocate write".to_owned(),
        "--arrival closed".to_owned(),
        "--seed 42".to_owned(),
    ];
    command(page, "         ringfall run", flags.into_iter());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ringfall_core::facts::RingFeatures;
    use ringfall_core::units::{GIB, MIB};
    use ringfall_host::DeviceFacts;
    use ringfall_host::survey::{FileSystem, Survey};

    use super::*;
    use crate::suite::{Asked, Engine, IoUring, KvSize, Machine, Weight};

    fn found(free_gib: u64) -> Discovery {
        found_at("/mnt/kv", Survey::default(), free_gib)
    }

    fn found_at(directory: &str, survey: Survey, free_gib: u64) -> Discovery {
        let mut machine = Machine::of(&survey, Some(Path::new(directory)));
        machine.place.free_bytes = Some(free_gib * GIB);
        let engine = Engine { shards: 2, queue_depth: 64, io_bytes: MIB, buffer_bytes: 128 * MIB };
        let tried = (IoUring::works(RingFeatures::default(), true, 128 * MIB), Some(true));
        let model = "llama3.1-8b".to_owned();
        let kv = KvSize { model, token_bytes: 128 << 10, turn_bytes: 700 * MIB };
        Discovery::of(survey, &Asked::default(), &machine, engine, tried, kv)
    }

    /// "nothing was found that keeps a run from measuring the drive", and "try quick /dev/shm".
    #[test]
    fn a_place_in_memory_is_called_that_and_another_one_is_to_be_tried() {
        let of = |mount_point: &str, kind: &str| FileSystem {
            mount_point: mount_point.to_owned(),
            kind: kind.to_owned(),
            ..FileSystem::default()
        };
        let drive = FileSystem {
            disk: Some("sda".to_owned()),
            free_bytes: Some(50 * GIB),
            is_writable: true,
            ..of("/data", "xfs")
        };
        let disks = vec![Disk {
            facts: DeviceFacts { name: "sda".to_owned(), ..DeviceFacts::default() },
            ..Disk::default()
        }];
        let memory = of("/dev/shm", "tmpfs");
        let file_systems = vec![memory.clone(), drive];
        let survey = Survey { disks, file_systems, ..Survey::default() };
        let page = discovery_page(&found_at("/dev/shm/kv", survey, 20));
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let told = "/dev/shm/kv is in memory (tmpfs), so that no run measures a drive there; name \
                    another place, such as /data/ringfall-kv";
        assert!(words.contains(told), "{page}");
        assert!(page.contains("try      ringfall quick /data/ringfall-kv\n"), "{page}");
        let alone = Survey { file_systems: vec![memory], ..Survey::default() };
        let page = discovery_page(&found_at("/dev/shm", alone, 20));
        assert!(!page.contains("ringfall quick"), "{page}");
    }

    #[test]
    fn a_page_sizes_the_free_space_and_names_the_commands_to_try() {
        let page = discovery_page(&found(50));
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "/mnt/kv: 50.0 GiB free, takes O_DIRECT",
            "io_uring works (plain); 128 MiB of buffers registered; 2 shards",
            "fix nothing was found",
            "llama3.1-8b: 128 KiB of KV cache a token, 0.68 GiB a user's turn on average",
            "50.0 GiB free hold one turn of 73 users",
            "ringfall quick /mnt/kv",
            "--cpu-mem-gb 0 --storage-capacity-gb 34.2GiB --preallocate write",
            "ringfall discover --details",
        ] {
            assert!(words.contains(part), "{part} is not in:\n{page}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        let full = discovery_page(&found(0));
        assert!(full.contains("one turn of 0 users") && !full.contains("ringfall run"), "{full}");
    }

    #[test]
    fn however_much_is_to_be_changed_the_page_fits_a_screen() {
        let mut found = found(50);
        let what = "a setting that is not as it should be, with the reason for it ".repeat(3);
        let command = Some("echo none | sudo tee /sys/block/vda/queue/scheduler".to_owned());
        found.advice = vec![Advice { weight: Weight::Matters, what, command }; 9];
        let page = discovery_page(&found);
        assert!(page.lines().count() <= 25, "{page}");
        assert!(page.contains("fix      1 a setting") && page.contains("more with --details"));
        found.advice.truncate(1);
        assert!(!discovery_page(&found).contains("more with --details"));
    }
}
