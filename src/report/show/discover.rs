//! Output of `discover --details`, for an 80-column terminal.

use std::fmt::Write as _;

use ringfall_core::units::MIB;
use ringfall_host::escape::terminal;
use ringfall_host::survey::{Disk, FileSystem, Gpu, NumaNode, PciLink, PciPath, Survey};
use ringfall_host::{counted, escape, human};
use ringfall_model::distinct;

use super::prose::{WIDTH, wrapped};
use crate::suite::{Discovery, Flag, Invocation, IoUring};

/// Mount options that tell nothing of speed or safety, which nearly all file systems have.
const USUAL_OPTIONS: [&str; 5] = ["rw", "relatime", "nosuid", "nodev", "noexec"];

/// The whole report of `ringfall discover` as text for a terminal.
pub fn discovery_details(found: &Discovery) -> String {
    let mut page = String::new();
    let machine = &found.machine;
    let name = machine.host.as_deref().unwrap_or("this machine");
    let kernel = machine.kernel.as_deref().unwrap_or("of an unknown release");
    wrapped(&mut page, "", &format!("{name}, Linux {kernel}"));
    page.push('\n');
    processors(&mut page, machine);
    memory(&mut page, machine);
    nodes(&mut page, &machine.numa_nodes);
    gpus(&mut page, machine);
    limits(&mut page, found);
    drives(&mut page, machine);
    file_systems(&mut page, machine);
    place(&mut page, found);
    advice(&mut page, found);
    workloads(&mut page, found);
    page
}

/// A size, if it is known.
pub(super) fn size(bytes: Option<u64>) -> String {
    bytes.map_or("–".to_owned(), human)
}

/// A head of the left column.
fn row(page: &mut String, name: &str, text: &str) {
    wrapped(page, &format!("{name:<13}"), text);
}

fn processors(page: &mut String, machine: &Survey) {
    let own = &machine.processor;
    let model = own.model.as_deref().unwrap_or("of an unknown model");
    let kind = match (own.is_virtual, &own.product) {
        (Some(true), Some(product)) => format!("; a virtual machine ({product})"),
        (Some(true), None) => "; a virtual machine".to_owned(),
        (_, Some(product)) => format!("; {product}"),
        (_, None) => String::new(),
    };
    row(page, "Processors", &format!("{model}{kind}"));
    let usable = own.threads_allowed.filter(|usable| *usable != own.threads);
    let usable = usable.map(|usable| format!(" ({usable} usable)")).unwrap_or_default();
    let counts = [
        counted(own.sockets.into(), "socket"),
        counted(own.cores.into(), "core"),
        counted(own.threads.into(), "thread"),
    ];
    let mut facts = vec![format!("{}{usable}", counts.join(", "))];
    facts.extend(own.frequency_max_mhz.map(|mhz| format!("up to {mhz} MHz")));
    facts.extend(own.governors.keys().map(|name| format!("governor {name}")));
    row(page, "", &facts.join("; "));
    let caches: Vec<String> = own
        .caches
        .iter()
        .filter(|cache| cache.kind != "Instruction")
        .map(|cache| {
            let threads = counted(cache.threads.into(), "thread");
            format!("L{} {} for {threads}", cache.level, human(cache.bytes))
        })
        .collect();
    let vector = own.vector_instructions.join(" ");
    let facts = [caches.join(", "), vector].into_iter().filter(|text| !text.is_empty());
    row(page, "", &facts.collect::<Vec<_>>().join("; "));
}

fn memory(page: &mut String, machine: &Survey) {
    let own = &machine.memory;
    let mut facts =
        vec![format!("{}, {} available", size(own.total_bytes), size(own.available_bytes))];
    if let (Some(room), Some(source)) = (own.room_bytes, &own.room_source)
        && source != "MemAvailable"
    {
        facts.push(format!("{} for this process ({source})", human(room)));
    }
    let swap = own.swap_bytes.filter(|bytes| *bytes > 0);
    facts.extend(swap.map(|swap| format!("swap {}", human(swap))));
    let pages = own.transparent_huge_pages.as_deref().unwrap_or("not there");
    facts.push(format!("transparent huge pages {pages}"));
    facts.extend(own.huge_pages.iter().filter(|pages| pages.count > 0).map(|pages| {
        let (count, size, free) = (pages.count, human(pages.page_bytes), pages.free);
        format!("{count} reserved huge pages of {size}, {free} free")
    }));
    row(page, "Memory", &facts.join("; "));
}

fn nodes(page: &mut String, nodes: &[NumaNode]) {
    for (place, node) in nodes.iter().enumerate() {
        let size = size(node.memory_total_bytes);
        let distances: Vec<String> = node.distances.iter().map(u32::to_string).collect();
        let text = format!(
            "node {}: threads {}, {size}, distances {}",
            node.id,
            if node.threads.is_empty() { "none" } else { &node.threads },
            distances.join(" ")
        );
        row(page, if place == 0 { "NUMA" } else { "" }, &text);
    }
}

fn gpus(page: &mut String, machine: &Survey) {
    if machine.gpus.is_empty() {
        row(page, "GPUs", "none");
    }
    for (place, gpu) in machine.gpus.iter().enumerate() {
        row(page, if place == 0 { "GPUs" } else { "" }, &gpu_text(machine, gpu));
    }
}

fn gpu_text(machine: &Survey, gpu: &Gpu) -> String {
    let model = gpu.model.as_deref().unwrap_or("unknown model");
    let mut facts = vec![format!("{}: {} {model}", gpu.address, gpu.vendor)];
    facts.push(match (&gpu.driver, &gpu.driver_version) {
        (Some(name), Some(version)) => format!("driver {name} {version}"),
        (Some(name), None) => format!("driver {name}"),
        (None, _) => "no driver".to_owned(),
    });
    facts.extend(gpu.memory_bytes.map(human));
    facts.extend(gpu.numa_node.map(|node| format!("node {node}")));
    facts.extend(gpu.pci.as_ref().map(pci_text));
    let is_near = |disk: &&Disk| {
        let paths = gpu.pci.as_ref().zip(disk.pci.as_ref());
        paths.is_some_and(|(path, other)| path.bridges_shared(other) > 1)
    };
    let near = machine.disks.iter().filter(is_near).map(|disk| disk.facts.name.as_str());
    let near: Vec<&str> = near.collect();
    if !near.is_empty() {
        facts.push(format!("below one PCIe switch with {}", near.join(", ")));
    }
    facts.join(", ")
}

/// `Gen4 x4 (7.88 GB/s)`, with the best of the device where it has less.
pub(super) fn pci_text(path: &PciPath) -> String {
    let Some(device) = path.device() else { return "–".to_owned() };
    let mut text = PciLink::told(device.speed_gt_per_s, device.lanes);
    if let Some(bytes) = path.bandwidth_bytes_per_s {
        let _infallible = write!(text, " ({:.2} GB/s)", bytes as f64 / 1e9);
    }
    if device.bandwidth_bytes_per_s() < device.bandwidth_max_bytes_per_s() {
        let most = PciLink::told(device.speed_max_gt_per_s, device.lanes_max);
        let _infallible = write!(text, " of {most}");
    }
    let narrowest = path.narrowest.as_deref().filter(|narrowest| *narrowest != device.address);
    let is_less = |own: u64| path.bandwidth_bytes_per_s.is_some_and(|least| least < own);
    if let Some(narrowest) = narrowest
        && device.bandwidth_bytes_per_s().is_some_and(is_less)
    {
        let _infallible = write!(text, ", limited by {narrowest}");
    }
    text
}

fn limits(page: &mut String, found: &Discovery) {
    let own = &found.machine.limits;
    let any = |limit: Option<u64>| limit.map_or("any number".to_owned(), |limit| limit.to_string());
    let locked = match (own.locked_memory_bytes, own.may_lock_memory) {
        (_, Some(true)) | (None, _) => "any amount".to_owned(),
        (Some(bytes), _) => human(bytes),
    };
    let text = format!(
        "open files {}, processes {}, locked memory {locked}",
        any(own.open_files),
        any(own.processes)
    );
    row(page, "Limits", &text);
    let text = match &found.io_uring.error {
        Some(error) => format!("does not work: {error}"),
        None => ring_text(&found.io_uring),
    };
    row(page, "io_uring", &text);
}

/// An io_uring that works, in words.
pub(super) fn ring_text(ring: &IoUring) -> String {
    format!(
        "works ({}); {} MiB of buffers {}",
        ring.completions.unwrap_or("plain"),
        ring.buffer_bytes / MIB,
        match ring.buffers_registered {
            Some(true) => "registered",
            _ => "could not be registered",
        }
    )
}

fn drives(page: &mut String, machine: &Survey) {
    let _infallible = writeln!(
        page,
        "\n{:<13}{:<9}{:>10}  {:<12}{:>10}{:>9}  write cache",
        "Disks", "kind", "size", "scheduler", "requests", "largest"
    );
    for disk in &machine.disks {
        disk_rows(page, machine, disk);
    }
}

fn disk_rows(page: &mut String, machine: &Survey, disk: &Disk) {
    let own = &disk.facts;
    let requests = match (disk.requests_per_queue, own.queues) {
        (Some(requests), Some(queues)) => format!("{requests} × {queues}"),
        (Some(requests), None) => requests.to_string(),
        (None, _) => "–".to_owned(),
    };
    let name = terminal(&own.name);
    if name.chars().count() > 10 {
        let _infallible = writeln!(page, "  {name}");
    }
    let _infallible = writeln!(
        page,
        "  {:<11}{:<9}{:>10}  {:<12}{requests:>10}{:>9}  {}",
        if name.chars().count() > 10 { "" } else { &name },
        disk.kind,
        size(own.size_bytes),
        terminal(own.scheduler.as_deref().unwrap_or("–")),
        size(own.request_bytes_max),
        terminal(own.write_cache.as_deref().unwrap_or("–")),
    );
    let mut facts: Vec<String> = Vec::new();
    facts.extend(own.model.clone());
    facts.extend(own.firmware.as_ref().map(|firmware| format!("firmware {firmware}")));
    facts.extend(own.transport.as_ref().map(|transport| format!("over {transport}")));
    facts.extend(own.namespace.map(|number| format!("namespace {number}")));
    if !disk.sibling_namespaces.is_empty() {
        facts.push(format!("same drive as {}", disk.sibling_namespaces.join(", ")));
    }
    // Without links that say what they carry there is nothing to tell (virtual machines).
    let path = disk.pci.as_ref().filter(|path| path.bandwidth_bytes_per_s.is_some());
    facts.extend(path.map(|path| format!("PCIe {}", pci_text(path))));
    let node = own.numa_node.filter(|_| machine.numa_nodes.len() > 1);
    facts.extend(node.map(|node| format!("NUMA node {node}")));
    let queues = own.poll_queues.filter(|queues| *queues > 0);
    facts.extend(queues.map(|queues| format!("{queues} queues to poll")));
    facts.extend(own.temperature_c.map(|degrees| format!("{degrees:.0} °C")));
    let told = [
        (own.rotational == Some(true), "rotating, according to the kernel"),
        (disk.read_only, "read-only"),
        (disk.is_encrypted, "encrypted"),
    ];
    facts.extend(told.into_iter().filter(|(is, _)| *is).map(|(_, what)| what.to_owned()));
    if !disk.members.is_empty() {
        facts.push(format!("on {}", disk.members.join(", ")));
    }
    facts.extend(disk.backing_file.as_ref().map(|file| format!("shows {file}")));
    if !facts.is_empty() {
        row(page, "", &facts.join("; "));
    }
}

fn file_systems(page: &mut String, machine: &Survey) {
    let _infallible =
        writeln!(page, "\n{:<24}{:<9}{:<14}{:>10}  options", "File systems", "type", "on", "free");
    for system in &machine.file_systems {
        file_system_row(page, system);
    }
}

fn file_system_row(page: &mut String, system: &FileSystem) {
    let point = terminal(&system.mount_point);
    let on = match (system.drives.as_slice(), &system.disk) {
        ([], None) if system.is_in_memory() => "memory".to_owned(),
        ([], None) => "–".to_owned(),
        ([], Some(disk)) => disk.clone(),
        (drives, _) => drives.join(","),
    };
    let on = terminal(&on);
    let is_wide = point.chars().count() > 21 || on.chars().count() > 13;
    if is_wide {
        let _infallible = writeln!(page, "  {point} on {on}");
    }
    let (point, on) = if is_wide { (String::new(), String::new()) } else { (point, on) };
    let options = system.options.iter().map(String::as_str);
    let mut options: Vec<&str> = options.filter(|option| !USUAL_OPTIONS.contains(option)).collect();
    if !system.is_writable && !system.has("ro") {
        options.push("(not writable here)");
    }
    let head = format!(
        "  {point:<22}{:<9}{on:<14}{:>10}  ",
        terminal(&system.kind),
        size(system.free_bytes)
    );
    // Long lists of options go below, where there is room for them.
    let told = options.join(",");
    if head.chars().count() + told.chars().count() <= WIDTH {
        let _infallible = writeln!(page, "{}", format!("{head}{}", terminal(&told)).trim_end());
    } else {
        let _infallible = writeln!(page, "{}", head.trim_end());
        wrapped(page, &" ".repeat(24), &options.join(", "));
    }
}

fn place(page: &mut String, found: &Discovery) {
    page.push('\n');
    let place = &found.place;
    row(page, "Data", &format!("{}: {}", place.directory.display(), place.reason));
    let direct = match found.takes_direct_io {
        Some(true) => "files there take O_DIRECT",
        Some(false) => "files there do not take O_DIRECT",
        None => "whether files there take O_DIRECT could not be tried",
    };
    row(page, "", direct);
}

fn advice(page: &mut String, found: &Discovery) {
    if found.advice.is_empty() {
        return;
    }
    let count = found.advice.len();
    let _infallible =
        writeln!(page, "\nWhat should be changed ({count}, the most important first)");
    for (place, advice) in found.advice.iter().enumerate() {
        let head = format!("{:>3}. {:<8}", place + 1, advice.weight.name());
        wrapped(page, &head, &format!("{}.", advice.what));
        if let Some(command) = &advice.command {
            let _infallible = writeln!(page, "{}{}", " ".repeat(head.len()), terminal(command));
        }
    }
}

fn workloads(page: &mut String, found: &Discovery) {
    let _infallible = writeln!(page, "\nWorkloads, with flags for this machine");
    for invocation in &found.workloads {
        workload(page, invocation);
    }
    let _infallible = writeln!(page, "\nWhy these flags");
    let told = distinct(found.workloads.iter().flat_map(|invocation| &invocation.flags));
    // Those of one name beside each other, in the order in which they first came.
    let mut sorted = told.clone();
    sorted.sort_by_key(|flag| told.iter().position(|first| first.flag == flag.flag));
    for flag in sorted {
        let mut head = format!("  {}  ", words(flag).join(" "));
        if head.chars().count() > 40 {
            let _infallible = writeln!(page, "{}", terminal(head.trim_end()));
            head.clear();
        }
        wrapped(page, &format!("{:<40}", terminal(&head)), &flag.reason);
    }
}

fn workload(page: &mut String, invocation: &Invocation) {
    wrapped(page, "  ", &format!("{}: {}", invocation.name, invocation.title));
    if let Some(why) = &invocation.impossible {
        wrapped(page, "      ", &format!("not possible here: {why}"));
        return;
    }
    if let Some(why) = &invocation.left_out {
        wrapped(page, "      ", &format!("note: {why}"));
    }
    let flags = invocation.flags.iter().map(|flag| words(flag).join(" "));
    command(page, "      ringfall run", flags);
}

/// A command as it can be copied: each line but the last ends with a backslash.
pub(super) fn command(page: &mut String, head: &str, flags: impl Iterator<Item = String>) {
    let below = head.chars().take_while(|letter| *letter == ' ').count() + 2;
    let mut line = head.to_owned();
    for flag in flags {
        let words = terminal(&flag);
        if line.chars().count() + words.chars().count() + 3 > WIDTH {
            let _infallible = writeln!(page, "{line} \\");
            line = format!("{:below$}{words}", "");
        } else {
            let _infallible = write!(line, " {words}");
        }
    }
    let _infallible = writeln!(page, "{line}");
}

fn words(flag: &Flag) -> Vec<String> {
    let value = flag.value.as_deref().map(escape::shell);
    std::iter::once(flag.flag.clone()).chain(value).collect()
}

#[cfg(test)]
mod tests {
    use ringfall_host::DeviceFacts;

    use super::*;

    #[test]
    fn the_widest_row_of_a_disk_fits_a_terminal() {
        let facts = DeviceFacts {
            name: "nvme10n1".to_owned(),
            size_bytes: Some(768 * MIB),
            scheduler: Some("mq-deadline".to_owned()),
            queues: Some(128),
            request_bytes_max: Some(124 << 10),
            write_cache: Some("write through".to_owned()),
            ..DeviceFacts::default()
        };
        let kind = "virtio".to_owned();
        let disk = Disk { facts, kind, requests_per_queue: Some(1023), ..Disk::default() };
        let machine = Survey { disks: vec![disk], ..Survey::default() };
        let mut page = String::new();
        drives(&mut page, &machine);
        let widest = page.lines().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(80), "{page}");
    }
}
