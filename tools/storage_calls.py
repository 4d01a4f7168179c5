"""Calls of a program on the objects of its storage, as strace shows them: what `beside-engine` and
`beside-vllm` compare."""

import collections
import glob
import itertools
import pathlib
import re
import tempfile

from measure import run

TRACED = ("open,openat,creat,stat,lstat,newfstatat,statx,access,faccessat,faccessat2,mkdir,mkdirat,"
          "write,writev,pwrite64,pwritev,read,readv,pread64,preadv,fsync,fdatasync,fallocate,"
          "ftruncate,close,rename,renameat,renameat2,unlink,unlinkat,fadvise64,lseek,ioctl,fcntl,"
          "dup,io_submit")
# Calls that do the same.
KINDS = {
    "look": "stat lstat newfstatat statx access faccessat faccessat2",
    "open": "open openat creat",
    "mkdir": "mkdirat",
    "write": "writev pwrite64 pwritev",
    "read": "readv pread64 preadv",
    "sync": "fsync fdatasync",
    "rename": "renameat renameat2",
    "unlink": "unlinkat",
}
KIND_OF = {call: kind for kind, calls in KINDS.items() for call in calls.split()}
COMPARED = ["look", "open", "write", "read", "sync", "fallocate", "ftruncate", "close", "rename"]
BY_PATH = ["look", "open", "mkdir", "rename", "unlink"]
IS_OBJECT = re.compile(r"\.(data|bin)$")
IS_OF_THE_ENGINE_ITSELF = re.compile(r"probe|config\.json|ringfall\.lock")
# Parts of names that tell one file from another.
PARTS = [
    (r"[0-9a-f]{32,}", lambda found: f"<{len(found[0])} hex>"),
    (r"(?<=_)[0-9a-f]{12}(?=_r)", "<12 hex>"),
    (r"[0-9a-f]{3}/[0-9a-f]{2}(?=_g)", "<3 hex>/<2 hex>"),
    (r"(?<![x0-9])\d{5,}", "<digits>"),
]

Call = collections.namedtuple("Call", "begin end kind told paths")


def pattern(path):
    for part, instead in PARTS:
        path = re.sub(part, instead, path)
    return path


def call_of(line, place):
    """A call on a file below the place; none where the line has another."""
    found = re.match(r"([\d.]+) (\w+)\((.*)\) += (-?\w+)(?:<\S+>)?.* <([\d.]+)>$", line)
    if not found or place not in line:
        return None
    begin, name, given, result, took = found.groups()
    kind, told = KIND_OF.get(name, name), ""
    if name == "io_submit":
        kind = "write" if "PWRITE" in given else "read"
        told = f" {result} objects by libaio"
    elif kind == "open":
        flags = [flag for flag in re.findall(r"O_(\w+)", given)
                 if flag not in ("CLOEXEC", "NOFOLLOW", "LARGEFILE")]
        told = " " + "|".join(flags)
    elif kind in ("read", "write"):
        told = f" {result}"
    elif kind == "look" and result.startswith("-"):
        told = " none"
    # strace shows the path beside a descriptor.
    paths = re.findall(r'"([^"]*)"' if kind in BY_PATH else r"<(/[^>]*)>", given)
    paths = [path.split(f"{place}/")[-1] for path in paths]
    if not paths or paths[0].startswith("/"):
        return None
    return Call(float(begin), float(begin) + float(took), kind, kind + told, paths)


def objects_of(trace, place):
    """Calls of a thread, in a list for each object."""
    objects = [[]]
    for call in filter(None, (call_of(line, place) for line in trace.splitlines())):
        last = objects[-1]
        moved = [one.told for one in last if one.kind in ("read", "write")]
        is_next = (
            (call.kind == "look" and IS_OBJECT.search(call.paths[0]))
            # In a file that stays open the next object begins as the one before it did.
            or moved[:1] == [call.told]
            or (call.kind == "open" and not (
                "CREAT" in call.told and all(one.kind in ("look", "mkdir") for one in last))))
        if is_next:
            objects.append([])
        objects[-1].append(call)
    return objects


def work_of(calls):
    """Kind of work that the calls do; none where they prepare or end it."""
    kinds = [call.kind for call in calls]
    names = " ".join(path for call in calls for path in call.paths)
    if "fadvise64" in kinds or "unlink" in kinds or IS_OF_THE_ENGINE_ITSELF.search(names):
        return None
    if "write" in kinds or "read" in kinds:
        return "store" if "write" in kinds else "load"
    return "look" if any(IS_OBJECT.search(call.paths[0]) for call in calls) else None


def most_at_a_time(objects):
    edges = sorted([(calls[0].begin, 1) for calls in objects]
                   + [(max(call.end for call in calls), -1) for calls in objects])
    return max(itertools.accumulate(step for _, step in edges))


def told_of(objects):
    """Calls on an object in their order, the most frequent orders first; names that are made;
    objects at work at a time; all calls on an object."""
    orders, names = collections.Counter(), set()
    for calls in objects:
        told = [call.told for call in calls if call.kind in COMPARED and not (
            call.kind == "look" and not IS_OBJECT.search(call.paths[0]))]
        # A descriptor that was duplicated is closed twice.
        orders[" · ".join(one for one, _ in itertools.groupby(told))] += 1
        names.update(pattern(path) for call in calls for path in call.paths
                     if call.kind == "rename" or "CREAT" in call.told)
    return {"calls": "; or ".join(order for order, _ in orders.most_common(2)),
            "names": ", ".join(sorted(names)), "at a time": most_at_a_time(objects),
            "in all": round(sum(map(len, objects)) / len(objects), 1)}


def strace(folder):
    """The beginning of a command under strace, which writes a file for each thread there."""
    return ["strace", "-ff", "--seccomp-bpf", "-y", "-ttt", "-T", "-e", f"trace={TRACED}", "-o",
            f"{folder}/t"]


def objects_by_work(folder, place):
    """What the traced threads did with objects below the place, a pattern, by kind of work."""
    texts = [pathlib.Path(path).read_text(errors="replace") for path in glob.glob(f"{folder}/t.*")]
    place, found = re.search(place, "".join(texts))[0], collections.defaultdict(list)
    for text in texts:
        for calls in objects_of(text, place):
            found[work_of(calls)].append(calls)
    return found


def traced(command, work, place):
    """What the command does with objects below the place, a pattern, by kind of work."""
    folder = tempfile.mkdtemp(dir=work)
    run([*strace(folder), *command])
    found = objects_by_work(folder, place)
    return {work: told_of(found[work]) for work in ("store", "look", "load") if work in found}
