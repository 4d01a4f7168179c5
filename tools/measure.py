"""Shared parts of the tools that hold ringfall against fio: both sides are run on one file, in
rounds whose order alternates, and reported as the median ratio with its spread."""

import json, os, re, shutil, statistics, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GIB = 1 << 30
HUGE_PAGES = "/proc/sys/vm/nr_hugepages"


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            sys.exit(f"{program} is needed: apt-get install {program}")


def run(command, **more):
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if done.returncode:
        sys.exit(f"status {done.returncode} of: {' '.join(command)}\n{done.stderr.strip()}")
    return done.stdout


def commit_of(root):
    return run(["git", "-C", root, "describe", "--always", "--dirty"]).strip()


def executable(root, bench):
    """Path of a release bench, built where it is old."""
    lines = run(["cargo", "bench", "-p", "ringfall-engine", "--bench", bench, "--no-run",
                 "--message-format=json"], cwd=root).splitlines()
    found = [m["executable"] for m in map(json.loads, lines) if m.get("executable")
             and m["target"]["name"] == bench]
    return found[-1]


class HugePages:
    """Reserves the huge pages that fio's buffers need; root only. `memory` is for fio's iomem."""

    def __init__(self, count=160):
        self.before, self.memory = None, "malloc"
        if not os.access(HUGE_PAGES, os.W_OK):
            return
        with open(HUGE_PAGES) as file:
            self.before = int(file.read())
        self.set(self.before + count)
        with open(HUGE_PAGES) as file:
            if int(file.read()) >= count:
                self.memory = "mmaphuge"

    def set(self, count):
        with open(HUGE_PAGES, "w") as file:
            file.write(str(count))

    def give_back(self):
        if self.before is not None:
            self.set(self.before)


def fio(file, way, block_bytes, depth, *more, memory="malloc", cpu=None):
    """GiB a second and CPU seconds a GiB (none of a short job) of one fio job."""
    command = ["fio", "--name=f", f"--filename={file}", f"--rw={way}", f"--bs={block_bytes}",
               f"--iodepth={depth}", "--direct=1", "--ioengine=io_uring", "--fixedbufs",
               "--registerfiles", f"--iomem={memory}", "--group_reporting", "--thread",
               "--output-format=json", *more]
    if cpu is not None:
        command = ["taskset", "-c", str(cpu), *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cost = cpu_s_per_gib(process)
    out, errors = process.communicate()
    if process.returncode:
        sys.exit(f"status {process.returncode} of: {' '.join(command)}\n{errors.strip()}")
    job = json.loads(out)["jobs"][0]
    return (job["read"]["bw_bytes"] + job["write"]["bw_bytes"]) / GIB, cost


def cpu_s_per_gib(process, settle_s=0.3):
    """CPU seconds a GiB of all threads of a process, as a run's result counts its own: from
    `settle_s` after its last thread began until one of them ends; none where that is at once."""
    first = last = None
    grew_s, threads = 0, []
    while process.poll() is None:
        time.sleep(0.02)
        now = usage_of(process.pid)
        if now is None or first is not None and not set(threads) <= set(now[0]):
            break
        if now[0] != threads:
            grew_s, threads, first = time.monotonic(), now[0], None
        if len(threads) > 1 and time.monotonic() >= grew_s + settle_s:
            first, last = first or now, now
    if first is None or last[2] == first[2]:
        return None
    return (last[1] - first[1]) / 1e9 / ((last[2] - first[2]) / GIB)


def usage_of(pid):
    """Threads, their CPU nanoseconds and the bytes moved; none once the process ends."""
    try:
        threads = sorted(os.listdir(f"/proc/{pid}/task"))
        cpu_ns = 0
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                cpu_ns += int(file.read().split()[0])
        return threads, cpu_ns, bytes_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None


def fill(file, size_mib):
    """Every block is written once, so that neither side pays for first touches."""
    fio(file, "write", "1m", 16, f"--size={size_mib}m")


def calls_of(command, block_bytes, settle_s=1.0, watch_s=1.0):
    """`io_uring_enter` calls and voluntary context switches an I/O of a running process, over a
    second in the middle of its work; none where perf is missing, and where it ended before."""
    if shutil.which("perf") is None:
        return None
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(settle_s)
        if process.poll() is not None:
            return None
        before = bytes_of(process.pid), switches_of(process.pid)
        counted = subprocess.run(
            ["perf", "stat", "-x,", "-e", "syscalls:sys_enter_io_uring_enter", "-p",
             str(process.pid), "--", "sleep", str(watch_s)],
            stderr=subprocess.PIPE, text=True).stderr
        ios = (bytes_of(process.pid) - before[0]) / block_bytes
        sleeps = switches_of(process.pid) - before[1]
        enters = re.search(r"^(\d+),", counted, re.M)
        if enters is None or ios <= 0 or process.poll() is not None:
            return None
        return int(enters.group(1)) / ios, sleeps / ios
    finally:
        process.wait()


def bytes_of(pid):
    with open(f"/proc/{pid}/io") as file:
        fields = dict(line.split(": ") for line in file.read().splitlines())
    return int(fields["read_bytes"]) + int(fields["write_bytes"])


def switches_of(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.M).group(1))
    return total


def median_and_spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"


def result_of(program, options, directory):
    """A run's result, and its wall time in seconds."""
    result = os.path.join(directory, "result.json")
    # Bytes written before must not be written back meanwhile: whichever went first was slower.
    os.sync()
    began = time.monotonic()
    run([program, *options, "--output", result, "--quiet"])
    with open(result) as file:
        return json.load(file), time.monotonic() - began


# Enough users that thinking between requests leaves no gap. A token of tiny-1b is 24 KiB.
USERS, TOKEN_BYTES = 64, 24_576
ENTRIES = """workload:
  decode_only_entries_per_user: 1
  decode_only_entry_tokens: {tokens}
"""


def run_options(way, block_bytes, depth, seconds, mib, directory):
    """Options of a run on storage alone, whose one shard keeps `depth` I/Os in flight."""
    options = ["run", "--model", "tiny-1b", "--users", str(USERS), "--arrival", "closed",
               "--cpu-mem-gb", "0", "--generation-mode", "none", "--shards", "1",
               "--io-size", str(block_bytes), "--queue-depth", str(depth), "--verify", "off",
               "--durability", "none", "--seed", "1", "--warmup", "1", "--duration", str(seconds),
               "--cache-dir", os.path.join(directory, "store")]
    if way == "write":
        return [*options, "--prefill-only", "--disable-multi-turn", "--disable-prefix-caching",
                "--storage-capacity-gb", "1", "--preallocate", "write"]
    config = os.path.join(directory, "config.yaml")
    with open(config, "w") as file:
        file.write(ENTRIES.format(tokens=(mib << 20) // USERS // TOKEN_BYTES))
    return [*options, "--decode-only", "--config", config,
            "--storage-capacity-gb", str(2 * max(mib, 512) / 1024)]
