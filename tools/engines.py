"""Storage code of inference engines, driven without the rest of them: no GPU, no model, and torch
only as far as that code looks at it. `beside-engine` runs this file in a process for each engine,
by the Python of its virtual environment:

  engines.py NAME FOLDER-OF-ITS-PACKAGE DIRECTORY JSON
"""

import ctypes
import hashlib
import json
import mmap
import os
import pathlib
import queue
import random
import select
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import MagicMock

GIB = 1 << 30
MODEL = "llama3.1-8b"
# Pages that HiCache's controller has its storage move at a time.
PAGES_AT_A_TIME = 128


# An engine begins to move a prefix (`begin`) from or to a slot of the memory, and gives the slots
# whose prefixes were moved since it was last asked (`ended`). A load looks its objects up first.


class Shape:
    """Objects of a prefix, and memory with a slot for each prefix that is moved at a time."""

    def __init__(self, place, objects, object_bytes, requests, shared):
        self.place, self.objects, self.object_bytes = place, objects, object_bytes
        self.rows, self.is_checked = shared or requests * objects, shared == 0
        memory = mmap.mmap(-1, self.rows * object_bytes,
                           flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # As our buffers are: the cost of pages is no matter of the layout.
        memory.madvise(mmap.MADV_HUGEPAGE)
        self.memory = memoryview(memory)
        content = os.urandom(object_bytes)
        for row in range(self.rows):
            self.view(0, row)[:] = content
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def row(self, slot, unit):
        return (slot * self.objects + unit) % self.rows

    def view(self, slot, unit):
        at = self.row(slot, unit) * self.object_bytes
        return self.memory[at:at + self.object_bytes]

    def digests(self, prefix):
        return [hashlib.sha256(b"%d %d" % (prefix, unit)) for unit in range(self.objects)]

    def mark(self, slot, prefix, is_right):
        """Begins and ends each object with a number of its own, or with 0."""
        for unit in range(self.objects):
            number = prefix * self.objects + unit + 1 if is_right else 0
            view = self.view(slot, unit)
            view[:8] = view[-8:] = number.to_bytes(8, "little")

    def check(self, slot, prefix):
        for unit in range(self.objects):
            view = self.view(slot, unit)
            number = (prefix * self.objects + unit + 1).to_bytes(8, "little")
            is_right = view[:8] == view[-8:] == number
            assert is_right or not self.is_checked, "other bytes came back"


def stand_in(*names):
    for name in names:
        sys.modules[name] = MagicMock()


def package(folder, *names):
    """Has these packages found without what they import when they begin."""
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = module


class Lmcache:
    def __init__(self, folder, shape):
        sys.path.insert(0, str(folder / "lmcache"))
        from lmcache_fs import LMCacheFSClient
        self.shape, self.moves = shape, {}
        # As `fs_native` makes it: 4 workers, no directory for temporary files, no O_DIRECT.
        self.client = LMCacheFSClient(str(shape.place), 4, "", False, 0)

    def keys(self, prefix):
        return [f"{MODEL}@01000100@0@{one.hexdigest()}" for one in self.shape.digests(prefix)]

    def submit(self, what, slot, prefix):
        keys = self.keys(prefix)
        views = [self.shape.view(slot, unit) for unit in range(len(keys))]
        match what:
            case "store": number = self.client.submit_batch_set(keys, views)
            case "look": number = self.client.submit_batch_exists(keys)
            case "load": number = self.client.submit_batch_get(keys, views)
        self.moves[number] = (what, slot, prefix)

    def begin(self, work, slot, prefix):
        self.submit("store" if work == "store" else "look", slot, prefix)

    def ended(self):
        select.select([self.client.event_fd()], [], [], 1)
        for number, is_done, error, found in self.client.drain_completions():
            what, slot, prefix = self.moves.pop(number)
            assert is_done and all(found or [True]), error
            if what == "look":
                self.submit("load", slot, prefix)
            else:
                yield slot

    def end(self):
        self.client.close()


class Holder:
    """Object of the engine's memory, as far as its storage code looks at it."""

    def __init__(self, view):
        self.byte_array, self.metadata = view, MagicMock()
        self.data_ptr = ctypes.addressof(ctypes.c_char.from_buffer(view))


class LmcacheRaw:
    def __init__(self, folder, shape):
        stand_in("torch", "lmcache.logging", "lmcache.utils", "lmcache.v1.memory_management",
                 "lmcache.v1.distributed.api")
        sys.modules["lmcache.utils"].DiskCacheMetadata = types.SimpleNamespace
        of_lmcache = next(folder.parent.glob("lmcache-[0-9]*"))
        package(of_lmcache, "lmcache", "lmcache.v1", "lmcache.v1.storage_backend")
        sys.path.insert(0, str(folder))
        from lmcache.v1.storage_backend import raw_block
        self.raw_block, self.shape, self.done = raw_block, shape, queue.Queue()
        file = shape.place / "raw_block.slots"
        file.touch()
        os.truncate(file, 16 * GIB)
        config = raw_block.RawBlockCoreConfig(
            device_path=str(file), capacity_bytes=0, block_align=4096, header_bytes=4096,
            slot_bytes=shape.object_bytes + 4096, use_odirect=True, enable_zero_copy=True,
            meta_total_bytes=256 << 20, meta_magic=b"LMCIDX01", meta_version=1,
            meta_checkpoint_interval_sec=60, meta_idle_quiet_ms=100, meta_enable_periodic=True,
            meta_verify_on_load=True)
        self.core = raw_block.RawBlockCore(config, key_namespace="object")
        self.pools = {what: ThreadPoolExecutor(count)
                      for what, count in (("store", 2), ("look", 1), ("load", 4))}

    def move(self, what, slot, prefix):
        try:
            self.move_now(what, slot, prefix)
        except Exception as error:  # It would be lost with the thread, and waited for.
            self.done.put(f"{what}: {error!r}:")

    def move_now(self, what, slot, prefix):
        keys = [self.raw_block.RawBlockKeySpec(one.hexdigest(), unit)
                for unit, one in enumerate(self.shape.digests(prefix))]
        names = [key.encoded for key in keys]
        holders = [Holder(self.shape.view(slot, unit)) for unit in range(len(keys))]
        match what:
            case "store": good = all(self.core.put_many(keys, holders).results)
            case "look": good = all(self.core.exists_many(names, lock=False))
            case "load": good = all(self.core.load_many_into(names, holders))
        if good and what == "look":
            self.pools["load"].submit(self.move, "load", slot, prefix)
        else:
            self.done.put(slot if good else what)

    def begin(self, work, slot, prefix):
        what = "store" if work == "store" else "look"
        self.pools[what].submit(self.move, what, slot, prefix)

    def ended(self):
        slot = self.done.get()
        assert not isinstance(slot, str), f"{slot} failed"
        return [slot]

    def end(self):
        self.core.close()


class Vllm:
    def __init__(self, folder, shape):
        import numpy
        package(folder, "vllm", "vllm.v1")
        stand_in("torch", "vllm.logger", "vllm.distributed.kv_transfer.kv_connector.v1.offloading"
                 ".canonical_mapping")
        sys.path.insert(0, str(folder))
        from vllm.v1.kv_offload import base
        from vllm.v1.kv_offload.tiering.base import TransferJob
        from vllm.v1.kv_offload.tiering.fs.manager import FileSystemTierManager
        self.base, self.job, self.shape, self.moves, self.asked = base, TransferJob, shape, {}, {}
        self.numpy, self.numbers = numpy, iter(range(1 << 40))
        parallel = types.SimpleNamespace(tp_size=1, pp_size=1, pcp_size=1, dcp_size=1, rank=0,
                                         is_parallelism_agnostic=True)
        config = types.SimpleNamespace(
            groups=[], parallel=parallel, canonical_layout=False, replicated_layout=False,
            model=types.SimpleNamespace(name=MODEL, dtype="bfloat16"),
            cache=types.SimpleNamespace(tokens_per_hash=16))
        spec = types.SimpleNamespace(config=config, blocks_per_chunk=1)
        rows = shape.memory.cast("B", (shape.rows, shape.object_bytes))
        self.tier = FileSystemTierManager(spec, rows, "fs", root_dir=str(shape.place))

    def submit(self, work, slot, prefix, context):
        units = self.numpy.array([self.shape.row(slot, unit) for unit in range(self.shape.objects)])
        job = self.job(next(self.numbers), self.keys(prefix), units, work != "store", context)
        self.moves[job.job_id] = slot
        (self.tier.submit_store if work == "store" else self.tier.submit_load)(job)

    def keys(self, prefix):
        digests = [one.digest() for one in self.shape.digests(prefix)]
        return [self.base.make_offload_key(digest, 0) for digest in digests]

    def begin(self, work, slot, prefix):
        context = self.base.ReqContext(req_id=str(next(self.numbers)))
        if work == "store":
            self.submit(work, slot, prefix, context)
        else:
            self.asked[slot] = (prefix, context)

    def ended(self):
        # A step of the scheduler, which no computation makes longer.
        for slot, (prefix, context) in list(self.asked.items()):
            found = [self.tier.lookup(key, context).name for key in self.keys(prefix)]
            assert "MISS" not in found, "a stored prefix is not found"
            if "RETRY" not in found:
                del self.asked[slot]
                self.submit("load", slot, prefix, context)
                self.tier.on_request_finished(context)
        self.tier.on_schedule_end(None)
        time.sleep(0.0005)
        for result in self.tier.get_finished_jobs():
            assert result.success, "a job failed"
            yield self.moves.pop(result.job_id)

    def end(self):
        self.tier.shutdown()


class Hicache:
    def __init__(self, folder, shape):
        import numpy

        class Tensor:
            """The part of torch's that the storage code uses, over numpy."""
            def __init__(self, array): self.array = array
            def numel(self): return self.array.size
            def element_size(self): return self.array.itemsize
            def contiguous(self): return self
            def view(self, dtype): return self
            def numpy(self): return self.array

        stand_in("torch", "sglang.srt.utils.common")
        package(folder, "sglang", "sglang.srt", "sglang.srt.utils", "sglang.srt.mem_cache",
                "sglang.srt.mem_cache.storage")
        from sglang.srt.mem_cache.hicache_storage import HiCacheFile, HiCacheStorageConfig
        config = HiCacheStorageConfig(
            tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
            is_mla_model=False, enable_storage_metrics=False, is_page_first_layout=True,
            model_name=MODEL)
        self.shape, self.storage = shape, HiCacheFile(config, str(shape.place))
        tensors = [Tensor(numpy.frombuffer(shape.view(0, row), dtype=numpy.uint8))
                   for row in range(shape.rows)]
        self.pages = lambda slot: [tensors[shape.row(slot, unit)] for unit in range(shape.objects)]
        # A thread that backs up, one that looks up and one that reads, as in its controller.
        self.done, self.queues = queue.Queue(), {}
        for what in ("store", "look", "load"):
            self.queues[what] = queue.Queue()
            threading.Thread(target=self.work, args=(what,), daemon=True).start()

    def work(self, what):
        try:
            self.work_for_ever(what)
        except Exception as error:  # It would be lost with the thread, and waited for.
            self.done.put(f"{what}: {error!r}:")

    def work_for_ever(self, what):
        while True:
            slot, prefix = self.queues[what].get()
            keys = [one.hexdigest() for one in self.shape.digests(prefix)]
            pages = self.pages(slot)
            for at in range(0, len(keys), PAGES_AT_A_TIME):
                some = slice(at, at + PAGES_AT_A_TIME)
                match what:
                    case "store": good = self.storage.batch_set(keys[some], pages[some])
                    case "look": good = self.storage.batch_exists(keys[some]) == len(keys[some])
                    case "load": good = all(self.storage.batch_get(keys[some], pages[some]))
                self.done.put(None if good else what)
            (self.queues["load"] if what == "look" else self.done).put((slot, prefix))

    def begin(self, work, slot, prefix):
        self.queues["store" if work == "store" else "look"].put((slot, prefix))

    def ended(self):
        while True:
            told = self.done.get()
            assert not isinstance(told, str), f"{told} failed"
            if told is not None:
                return [told[0]]

    def end(self):
        pass


class Nixl:
    def __init__(self, folder, shape):
        os.environ["NIXL_PLUGIN_DIR"] = str(folder / ".nixl_cu12.mesonpy.libs/plugins")
        sys.path.insert(0, str(folder))
        from nixl_cu12._api import nixl_agent, nixl_agent_config
        self.shape, self.moves = shape, {}
        self.agent = nixl_agent("one", nixl_agent_config(backends=["POSIX"]))
        self.file = os.open(shape.place / "nixlbench_POSIX_test_file_0_0",
                            os.O_RDWR | os.O_CREAT, 0o744)
        whole = [(shape.address, len(shape.memory), 0, "")]
        assert self.agent.register_memory(whole, "DRAM") is not None
        assert self.agent.register_memory([(0, 1 << 40, self.file, "")], "FILE") is not None

    def begin(self, work, slot, prefix):
        length, count = self.shape.object_bytes, self.shape.objects
        memory = [(self.shape.address + self.shape.row(slot, unit) * length, length, 0)
                  for unit in range(count)]
        file = [((prefix * count + unit) * length, length, self.file) for unit in range(count)]
        handle = self.agent.initialize_xfer(
            "WRITE" if work == "store" else "READ", self.agent.get_xfer_descs(memory, "DRAM"),
            self.agent.get_xfer_descs(file, "FILE"), "one")
        assert self.agent.transfer(handle) != "ERR"
        self.moves[slot] = handle

    def ended(self):
        for slot, handle in list(self.moves.items()):
            state = self.agent.check_xfer_state(handle)
            assert state != "ERR", "a transfer failed"
            if state == "DONE":
                self.agent.release_xfer_handle(self.moves.pop(slot))
                yield slot

    def end(self):
        os.close(self.file)


ENGINES = {"lmcache": Lmcache, "lmcache-raw": LmcacheRaw, "vllm": Vllm, "hicache": Hicache,
           "nixl": Nixl}


def moved(engine, shape, work, prefixes, requests):
    """Moves these prefixes, so many at a time; the time that takes, in seconds."""
    free, at_work, waiting = list(range(requests)), {}, list(reversed(prefixes))
    began = time.perf_counter()
    while waiting or at_work:
        while waiting and free:
            slot, prefix = free.pop(), waiting.pop()
            shape.mark(slot, prefix, work == "store")
            at_work[slot] = prefix
            engine.begin(work, slot, prefix)
        for slot in list(engine.ended()):
            shape.check(slot, at_work.pop(slot))
            free.append(slot)
    return time.perf_counter() - began


def forget(place):
    for path in place.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def settle(place):
    """Seconds until the file system has written to the drive what it holds."""
    began = time.perf_counter()
    directory = os.open(place, os.O_RDONLY)
    assert ctypes.CDLL(None).syncfs(directory) == 0
    os.close(directory)
    return time.perf_counter() - began


def drive(name, folder, place, told):
    told = json.loads(told)
    place, requests = pathlib.Path(place), told["requests"]
    shape = Shape(place, told["objects"], told["object_bytes"], requests, told["shared"])
    engine = ENGINES[name](pathlib.Path(folder), shape)
    prefixes = list(range(told["prefixes"]))
    prefix_gib = shape.objects * shape.object_bytes / GIB
    store_s = moved(engine, shape, "store", prefixes, requests) + settle(place)
    fetch_s, fetched = 0.0, 0
    while fetched == 0 or fetch_s < told["seconds"]:
        forget(place)
        random.shuffle(prefixes)
        fetch_s += moved(engine, shape, "load", prefixes, requests)
        fetched += len(prefixes)
    engine.end()
    print(json.dumps({"store": len(prefixes) * prefix_gib / store_s,
                      "fetch": fetched * prefix_gib / fetch_s}))


if __name__ == "__main__":
    drive(*sys.argv[1:])
