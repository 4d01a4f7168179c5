"""vLLM's CPU build, serving one prompt after the other as `beside-vllm` asks for them. That starts
this file by the Python of its virtual environment:

  vllm_engine.py make FOLDER JSON-OF-THE-MODEL
  vllm_engine.py serve JSON
"""

import json
import pathlib
import sys
import time

import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec


def make(folder, shape):
    """Writes a model of random weights, so large that answers of other prompts differ."""
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    config = LlamaConfig(
        num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"],
        num_key_value_heads=shape["heads"], head_dim=shape["width"], hidden_size=shape["hidden"],
        intermediate_size=2 * shape["hidden"], vocab_size=1024, max_position_embeddings=1 << 15,
        initializer_range=0.2, tie_word_embeddings=False)
    LlamaForCausalLM(config).save_pretrained(folder)


class CopiesInMemory(OffloadingWorker):
    """Moves blocks between the engine's cache and the tier of memory: a copy where vLLM, which
    refuses to offload without a GPU, has one from device to host."""

    def __init__(self, kv_caches, region):
        self.region, self.done, self.pairs = region, [], []
        for one in kv_caches.tensors:
            cache = one.tensor.view(torch.int8).view(-1, one.page_size_bytes)
            self.pairs.append((cache, region.create_next_worker_view(one.page_size_bytes)))

    def copy(self, job_id, of_cache, of_memory, is_store):
        began = time.monotonic()
        cache_ids, memory_ids = (torch.from_numpy(spec.block_ids.astype("int64"))
                                 for spec in (of_cache, of_memory))
        assert len(cache_ids) == len(memory_ids)
        for cache, memory in self.pairs:
            if is_store:
                memory[memory_ids] = cache[cache_ids]
            else:
                cache[cache_ids] = memory[memory_ids]
        moved = len(cache_ids) * sum(cache.shape[1] for cache, _ in self.pairs)
        self.done.append(TransferResult(job_id, True, moved, time.monotonic() - began))
        return True

    def submit_store(self, job_id, src_spec, dst_spec):
        return self.copy(job_id, src_spec, dst_spec, True)

    def submit_load(self, job_id, src_spec, dst_spec):
        return self.copy(job_id, dst_spec, src_spec, False)

    def get_finished(self):
        done, self.done = self.done, []
        return done

    def wait(self, job_ids):
        """A copy has ended when it was submitted."""

    def shutdown(self):
        self.pairs.clear()
        self.region.cleanup()


class TieringWithoutGpu(TieringOffloadingSpec):
    def get_worker(self, kv_caches):
        if not self._worker:
            self._worker = CopiesInMemory(kv_caches, SharedOffloadRegion(
                engine_id=self._engine_id, num_chunks=self.num_chunks,
                rank=self.config.parallel.rank, kv_bytes_per_chunk=self.kv_bytes_per_chunk,
                cpu_page_size=self.cpu_page_size_per_worker))
        return self._worker


def connector(told):
    match told["kind"]:
        case "alone":
            return {}
        case "vllm":
            connector, more = "OffloadingConnector", {"kv_connector_extra_config": {
                "spec_name": "TieringWithoutGpu", "spec_module_path": "vllm_engine",
                "cpu_bytes_to_use": told["memory_bytes"],
                "secondary_tiers": [{"type": "fs", "root_dir": told["place"]}]}}
        case "lmcache":
            connector, more = "LMCacheMPConnector", {
                "kv_connector_module_path": "lmcache.integration.vllm.lmcache_mp_connector",
                "kv_connector_extra_config": {"lmcache.mp.host": "tcp://127.0.0.1",
                                              "lmcache.mp.port": told["port"]}}
    return {"kv_transfer_config": {"kv_connector": connector, "kv_role": "kv_both", **more}}


def serve(told):
    from prometheus_client import REGISTRY
    from vllm import LLM, SamplingParams
    blocks, block_tokens = told["blocks"], told["block_tokens"]
    engine = LLM(told["model"], skip_tokenizer_init=True, enforce_eager=True, dtype="float32",
                 max_model_len=blocks * block_tokens, block_size=block_tokens,
                 num_gpu_blocks_override=blocks + 1, seed=1, disable_log_stats=False,
                 **connector(told))
    # The time of the first token is that of an answer of one token.
    one_token = SamplingParams(temperature=0, max_tokens=1, detokenize=False)
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.monotonic()
        [answer] = engine.generate({"prompt_token_ids": json.loads(line)}, one_token,
                                   use_tqdm=False)
        first_token_s = time.monotonic() - began
        # LLM.get_metrics() has whole seconds.
        reading_s = sum(sample.value for metric in REGISTRY.collect() for sample in metric.samples
                        if sample.name == "vllm:kv_offload_tiering_read_time_total")
        print("answer " + json.dumps({
            "first_token_s": first_token_s, "found_tokens": answer.num_cached_tokens,
            "token": answer.outputs[0].token_ids[0], "reading_s": reading_s}), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", folder, shape]: make(pathlib.Path(folder), json.loads(shape))
        case ["serve", told]: serve(json.loads(told))
        case _: sys.exit(__doc__)
