//! Short help of a run: the flags that most runs are made with, a line each.

/// Keys of settings, each with its line; the long help has all others too.
pub(super) const FIRST_PAGE: [(&str, &str); 24] = [
    ("model", "Model whose KV cache is simulated"),
    ("num_users", "Number of simulated users"),
    ("duration", "Length of the measurement, such as 60s or 5m"),
    ("warmup", "Load before the measurement, such as 10s"),
    ("arrival", "Pacing of requests"),
    ("generation_mode", "Time per token (TPOT)"),
    ("seed", "Random seed; `random` draws one"),
    ("enable_autoscaling", "Search for the number of users that can be served"),
    ("gpu_mem_gb", "Size of the GPU tier"),
    ("cpu_mem_gb", "Size of the CPU tier"),
    ("cache_dir", "Directory, with the reference's defaults"),
    ("storage_capacity_gb", "Size of the storage tier, such as 40GiB"),
    ("shards", "Number of shards (worker threads)"),
    ("io_size", "Size of the largest single I/O (block size)"),
    ("queue_depth", "I/Os in flight per shard and drive (iodepth)"),
    ("preallocate", "When files get their space"),
    ("trials", "Number of times to repeat the run"),
    ("roofline", "File with the drive's limits, or `fresh` to measure them"),
    ("output", "File for the results in JSON"),
    ("xlsx_output", "File for the results as a workbook or CSV"),
    ("html_output", "File for the results as an HTML page"),
    ("json", "Print the JSON results on standard output"),
    ("details", "Print the whole summary"),
    ("quiet", "Print no banner, no progress and no summary"),
];
