//! Machines made of files: a server with NVMe drives and a GPU, a bare container, one that lies.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::Scratch;

fn look(tree: &Scratch) -> Survey {
    Survey::look(&Root::at(tree), None)
}

const BRIDGE: &str = "sys/devices/pci0000:00/0000:00:01.0";
const SWITCH: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";

/// Speed and lanes of a link now, and the speed that it could have with 16 lanes.
fn link<'a>(speed: &'a str, lanes: &'a str, speed_max: &'a str) -> [(&'a str, &'a str); 4] {
    [
        ("current_link_speed", speed),
        ("current_link_width", lanes),
        ("max_link_speed", speed_max),
        ("max_link_width", "16"),
    ]
}

/// A drive with two namespaces behind a switch, whose link is slower than it could be, and a GPU
/// below the same switch.
fn server() -> Scratch {
    let tree = Scratch::new("survey-server");
    tree.files(BRIDGE, &link("32.0 GT/s PCIe", "16", "32.0 GT/s PCIe"));
    tree.files(SWITCH, &link("32.0 GT/s PCIe", "16", "32.0 GT/s PCIe"));
    let drive = format!("{SWITCH}/0000:02:00.0");
    tree.files(&drive, &link("8.0 GT/s PCIe", "4", "16.0 GT/s PCIe"));
    tree.files(&drive, &[("max_link_width", "4"), ("vendor", "0x144d"), ("device", "0xa80a")]);
    let controller = format!("{drive}/nvme/nvme0");
    tree.files(
        &controller,
        &[
            ("model", "Model X   "),
            ("firmware_rev", "F1"),
            ("transport", "pcie"),
            ("numa_node", "1"),
            ("hwmon2/temp1_input", "68850"),
            ("hwmon2/temp1_max", "69850"),
        ],
    );
    for (name, numbers, nsid) in [("nvme0n1", "259:0", "1"), ("nvme0n2", "259:1", "2")] {
        let disk = format!("{controller}/{name}");
        tree.files(
            &disk,
            &[
                ("dev", numbers),
                ("nsid", nsid),
                ("size", "7814037168"),
                ("ro", "0"),
                ("queue/scheduler", "none [mq-deadline] kyber"),
                ("queue/nr_requests", "1023"),
                ("queue/rotational", "0"),
                ("queue/logical_block_size", "512"),
                ("queue/max_sectors_kb", "128"),
                ("queue/max_hw_sectors_kb", "2048"),
                ("queue/write_cache", "write through"),
            ],
        );
        tree.link(&format!("{disk}/device"), &controller);
        tree.directory(&format!("{disk}/mq/0"));
        tree.directory(&format!("{disk}/mq/1"));
        tree.link(&format!("sys/block/{name}"), &disk);
    }
    tree.link("sys/class/nvme/nvme0", &controller);
    tree.files(&format!("{controller}/nvme0n1/nvme0n1p1"), &[("partition", "1"), ("dev", "259:7")]);
    gpu(&tree);
    processors(&tree);
    tree.directory("mnt/a b");
    let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                  23 22 259:7 / /mnt/a\\040b rw,noatime - xfs /dev/nvme0n1p1 rw,noquota\n\
                  24 22 0:5 / /proc rw - proc proc rw\n\
                  25 22 0:9 / /mnt/gone rw - ext4 /dev/sdb rw\n\
                  26 22 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    tree.file("proc/self/mountinfo", mounts);
    tree.file("proc/self/cgroup", "0::/pod\n");
    tree.file("sys/fs/cgroup/pod/io.max", "259:0 rbps=104857600 wbps=max riops=max\n");
    tree
}

/// Below the same switch as the drive.
fn gpu(tree: &Scratch) {
    let gpu = format!("{SWITCH}/0000:03:00.0");
    tree.files(&gpu, &link("16.0 GT/s PCIe", "16", "16.0 GT/s PCIe"));
    tree.files(&gpu, &[("class", "0x030200"), ("vendor", "0x10de"), ("numa_node", "1")]);
    tree.link(&format!("{gpu}/driver"), "sys/bus/pci/drivers/nvidia_dir/nvidia");
    tree.directory("sys/bus/pci/drivers/nvidia_dir/nvidia");
    tree.file("sys/module/nvidia/version", "570.1\n");
    tree.link("sys/bus/pci/devices/0000:03:00.0", &gpu);
    tree.link("sys/bus/pci/devices/0000:02:00.0", &format!("{SWITCH}/0000:02:00.0"));
    let told = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   1\n";
    tree.file("proc/driver/nvidia/gpus/0000:03:00.0/information", told);
}

fn processors(tree: &Scratch) {
    let cpuinfo = "processor : 0\nmodel name : Chip 9\nflags : fpu avx2 avx512f sse\n";
    tree.file("proc/cpuinfo", cpuinfo);
    tree.file("proc/self/status", "Cpus_allowed_list:\t0-2,64-127\nCapEff:\t0000000000004000\n");
    let limits = "Max open files            1024                 4096                 files\n";
    tree.file("proc/self/limits", limits);
    tree.file("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\nSwapTotal: 0 kB\n");
    tree.file("proc/sys/kernel/osrelease", "6.8.0-31-generic\n");
    tree.file("proc/sys/kernel/io_uring_disabled", "1\n");
    tree.file("sys/devices/system/cpu/online", "0-3\n");
    for (cpu, (package, core)) in [(0, 0), (0, 0), (1, 0), (1, 1)].into_iter().enumerate() {
        let cpu = format!("sys/devices/system/cpu/cpu{cpu}");
        let files = [("physical_package_id", package), ("core_id", core)];
        for (name, value) in files {
            tree.file(&format!("{cpu}/topology/{name}"), format!("{value}\n"));
        }
        tree.file(&format!("{cpu}/cpufreq/scaling_governor"), "powersave\n");
    }
    let cache =
        [("level", "2"), ("type", "Unified"), ("size", "2048K"), ("shared_cpu_list", "0-1")];
    tree.files("sys/devices/system/cpu/cpu0/cache/index2", &cache);
    for (number, list) in [(0, "0-1"), (1, "2-3")] {
        let node = format!("sys/devices/system/node/node{number}");
        tree.file(&format!("{node}/cpulist"), format!("{list}\n"));
        tree.file(&format!("{node}/meminfo"), format!("Node {number} MemTotal: 1024 kB\n"));
        tree.file(&format!("{node}/distance"), "10 21\n");
    }
    tree.file("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    let pages = [("nr_hugepages", "8"), ("free_hugepages", "3")];
    tree.files("sys/kernel/mm/hugepages/hugepages-2048kB", &pages);
}

#[test]
fn a_server_is_read_from_its_files() {
    let tree = server();
    let survey = look(&tree);
    let processor = &survey.processor;
    assert_eq!(processor.model.as_deref(), Some("Chip 9"));
    assert_eq!((processor.sockets, processor.cores, processor.threads), (2, 3, 4));
    assert_eq!(processor.threads_allowed, Some(3), "of those that are online");
    assert_eq!(processor.vector_instructions, ["avx2", "avx512f"]);
    assert_eq!((processor.is_virtual, processor.governors["powersave"]), (Some(false), 4));
    assert_eq!((processor.caches[0].bytes, processor.caches[0].threads), (2 << 20, 2));
    let nodes: Vec<_> = survey.numa_nodes.iter().map(|node| node.thread_count).collect();
    assert_eq!((nodes, survey.numa_nodes[0].distances.as_slice()), (vec![2, 2], &[10, 21][..]));
    assert_eq!(survey.numa_nodes[1].memory_total_bytes, Some(1 << 20));
    assert_eq!(survey.memory.total_bytes, Some(1 << 30));
    assert_eq!(survey.memory.transparent_huge_pages.as_deref(), Some("never"));
    assert_eq!((survey.memory.huge_pages[0].count, survey.memory.huge_pages[0].free), (8, 3));
    let limits = &survey.limits;
    assert_eq!((limits.open_files, limits.open_files_hard), (Some(1024), Some(4096)));
    assert_eq!((limits.may_lock_memory, limits.is_admin), (Some(true), Some(false)));
    assert_eq!(
        (limits.io_uring_disabled, limits.throttles[0].limit.as_str()),
        (Some(1), "rbps=104857600")
    );
}

#[test]
fn a_drive_is_found_with_its_way_and_its_other_namespace() {
    let tree = server();
    let survey = look(&tree);
    let disk = survey.disk("nvme0n1").unwrap();
    assert_eq!((disk.kind.as_str(), disk.facts.model.as_deref()), ("nvme", Some("Model X")));
    assert_eq!(
        (disk.controllers.as_slice(), disk.facts.namespace),
        (&["nvme0".to_owned()][..], Some(1))
    );
    assert_eq!(disk.sibling_namespaces, ["nvme0n2"]);
    assert_eq!(disk.facts.scheduler.as_deref(), Some("mq-deadline"));
    assert_eq!(disk.schedulers, ["none", "mq-deadline", "kyber"]);
    assert_eq!((disk.facts.queues, disk.requests_per_queue), (Some(2), Some(1023)));
    assert_eq!(disk.facts.request_bytes_max, Some(128 << 10));
    assert_eq!((disk.facts.temperature_c, disk.temperature_max_c), (Some(68.85), Some(69.85)));
    assert_eq!(disk.partitions, ["nvme0n1p1"]);
    let path = disk.pci.as_ref().unwrap();
    let addresses: Vec<_> = path.links.iter().map(|link| link.address.as_str()).collect();
    assert_eq!(addresses, ["0000:00:01.0", "0000:01:00.0", "0000:02:00.0"]);
    assert_eq!(path.narrowest.as_deref(), Some("0000:02:00.0"));
    assert_eq!(path.bandwidth_bytes_per_s.unwrap() / 1_000_000, 3_938);
    assert_eq!(path.device().unwrap().id.as_deref(), Some("144d:a80a"));
    let gpu = &survey.gpus[0];
    assert_eq!(survey.gpus.len(), 1, "the drive is no GPU");
    assert_eq!(gpu.model.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert_eq!(
        (gpu.driver.as_deref(), gpu.driver_version.as_deref()),
        (Some("nvidia"), Some("570.1"))
    );
    assert!(gpu.computes());
    assert_eq!(gpu.pci.as_ref().unwrap().bridges_shared(path), 2);
    let system = survey.file_system_of(Path::new("/mnt/a b/kv")).unwrap();
    assert_eq!((system.kind.as_str(), system.disk.as_deref()), ("xfs", Some("nvme0n1")));
    assert_eq!((system.drives.as_slice(), system.is_writable), (&["nvme0n1".to_owned()][..], true));
    let points: Vec<_> = survey.file_systems.iter().map(|one| one.mount_point.as_str()).collect();
    assert_eq!(points, ["/", "/mnt/a b"], "what is not there is left out");
}

#[test]
fn a_drive_with_several_controllers_is_found_through_its_subsystem() {
    let tree = Scratch::new("survey-multipath");
    let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
    for (controller, address) in [("nvme0", "0000:11:00.0"), ("nvme1", "0000:12:00.0")] {
        let own = format!("sys/devices/pci0000:00/{address}/nvme/{controller}");
        tree.file(&format!("{own}/address"), "x\n");
        tree.link(&format!("{subsystem}/{controller}"), &own);
        tree.link(&format!("sys/class/nvme/{controller}"), &own);
        let files = [("current_link_speed", "16.0 GT/s PCIe"), ("current_link_width", "2")];
        tree.files(&format!("sys/devices/pci0000:00/{address}"), &files);
    }
    for (name, numbers) in [("nvme0n1", "259:0"), ("nvme0n10", "259:1"), ("nvme0n9", "259:2")] {
        let disk = format!("{subsystem}/{name}");
        tree.files(&disk, &[("dev", numbers), ("size", "8")]);
        tree.link(&format!("sys/block/{name}"), &disk);
    }
    let survey = look(&tree);
    let names: Vec<_> = survey.disks.iter().map(|disk| disk.facts.name.as_str()).collect();
    assert_eq!(names, ["nvme0n1", "nvme0n9", "nvme0n10"]);
    let disk = &survey.disks[0];
    assert_eq!(disk.controllers, ["nvme0", "nvme1"]);
    assert_eq!(disk.sibling_namespaces, ["nvme0n9", "nvme0n10"]);
    assert_eq!(disk.pci.as_ref().unwrap().device().unwrap().address, "0000:11:00.0");
}

#[test]
fn volumes_are_followed_down_to_their_drives() {
    let tree = Scratch::new("survey-volumes");
    let disk = |name: &str, files: &[(&str, &str)]| {
        tree.files(&format!("sys/block/{name}"), files);
    };
    disk("sda", &[("dev", "8:0"), ("size", "8"), ("sda1/partition", "1"), ("sda1/dev", "8:1")]);
    disk("sdb", &[("dev", "8:16"), ("size", "8")]);
    disk("md0", &[("dev", "9:0"), ("size", "8"), ("md/level", "raid0")]);
    tree.directory("sys/block/md0/slaves/sda1");
    tree.directory("sys/block/md0/slaves/sdb");
    disk("dm-0", &[("dev", "253:0"), ("size", "8"), ("dm/uuid", "CRYPT-LUKS2-x")]);
    tree.directory("sys/block/dm-0/slaves/md0");
    disk("loop0", &[("dev", "7:0"), ("size", "0")]);
    tree.directory("data");
    tree.file("proc/self/mountinfo", "1 0 253:0 / /data rw - ext4 /dev/mapper/x rw,data=journal\n");
    let survey = look(&tree);
    assert_eq!(survey.file_systems[0].drives, ["sda", "sdb"]);
    assert_eq!(survey.file_systems[0].disk.as_deref(), Some("dm-0"));
    assert!(survey.disk("dm-0").unwrap().is_encrypted && survey.disk("loop0").is_none());
    assert_eq!(survey.disk("sdb").unwrap().pci, None);
}

#[test]
fn a_machine_that_tells_nothing_is_unknown_and_not_zero() {
    let tree = Scratch::new("survey-bare");
    let survey = look(&tree);
    assert_eq!(survey.processor.model, None);
    assert_eq!(survey.memory.total_bytes, None);
    assert!(survey.disks.is_empty() && survey.gpus.is_empty() && survey.numa_nodes.is_empty());
    assert_eq!((survey.limits.open_files, survey.limits.is_admin), (None, None));
    assert!(serde_json::to_string(&survey).is_ok());
}

#[test]
fn this_machine_is_read() {
    let survey = Survey::look(&Root::machine(), Some(&Room::look()));
    assert!(survey.processor.threads >= 1 && survey.memory.total_bytes > Some(1 << 20));
    assert!(survey.memory.room_bytes.is_some() && survey.kernel.is_some());
    assert!(survey.file_systems.iter().any(|system| system.mount_point == "/"), "{survey:?}");
}

/// Text, numbers of any length, lists.
const TEXT: &str = "[ -~\u{1b}\n:\\[\\],]{0,40}|-?[0-9]{1,25}|[0-9,-]{0,12}";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the files hold, and whatever devices and mount points are called: no panic, and a
    /// page of JSON.
    #[test]
    fn no_content_of_a_file_is_taken_for_what_it_is_not(
        texts in proptest::collection::vec(TEXT, 24),
        name in "[a-z0-9 $';\u{1b}]{1,12}",
    ) {
        let tree = Scratch::new("survey-hostile");
        let places = [
            "proc/cpuinfo", "proc/meminfo", "proc/self/status", "proc/self/limits",
            "proc/self/cgroup", "sys/devices/system/cpu/online",
            "sys/devices/system/cpu/cpu0/cache/index0/size",
            "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
            "sys/devices/system/node/node0/meminfo", "sys/devices/system/node/node0/distance",
            "sys/devices/system/node/node99999999999/cpulist",
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            "sys/kernel/mm/transparent_hugepage/enabled",
            "sys/bus/pci/devices/0000:00:01.0/class", "sys/bus/pci/devices/0000:00:01.0/vendor",
            "sys/bus/pci/devices/0000:00:01.0/current_link_speed",
        ];
        for (place, text) in places.iter().zip(&texts) {
            tree.file(place, text);
        }
        let queue = ["queue/scheduler", "queue/nr_requests", "queue/max_sectors_kb"];
        let files = ["size", "nsid"].into_iter().chain(queue);
        for (file, text) in files.zip(texts.iter().skip(places.len())) {
            tree.file(&format!("sys/block/{name}/{file}"), text);
        }
        tree.file(&format!("sys/block/{name}/dev"), "1:1");
        let mounts = format!("1 0 1:1 / /{name} rw - x /dev/x rw\n{}", texts[23]);
        tree.file("proc/self/mountinfo", mounts);
        tree.directory(&name);
        let survey = look(&tree);
        let json = serde_json::to_value(&survey).unwrap();
        prop_assert!(json["disks"].is_array());
        for disk in &survey.disks {
            prop_assert!(disk.facts.size_bytes > Some(0) && disk.facts.name == name);
        }
    }
}
