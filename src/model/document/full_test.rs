//! A run in which all that a document has a place for was measured, for tests of every figure.

use ringfall_core::clock::MILLISECOND;
use ringfall_core::facts::{DriverUse, GpuDevice, GpuKind, RingFeatures, ShardFacts};
use ringfall_core::key::Tier;
use ringfall_core::metrics::DriveMetrics;
use ringfall_core::placement::SpaceFigures;
use ringfall_core::units::{GIB, MIB};
use ringfall_workloads::autoscale::{
    Act, Answer, CapacityAnswer, Conclusion, Entry, Mode, StepResult, StorageLoad, TimeShares,
    UslFit,
};

use crate::facts::{
    BlockDirection, BlockTraceFigures, Bucket, DepthFigures, DepthReason, DepthStep, DriveAccount,
    DriveOutcome, GpuBacking, GpuOutcome, GpuTransferOutcome, HeatCell, KernelSecond, Looks,
    PreconditionReport, SizeCell,
};

use crate::RunResult;
use crate::testing::{busy, drive_answer, roofline};

/// Everything was measured. The block layer, the GPU, the drives, the search for a queue depth and
/// the autoscaler have a row in each of their lists.
pub(super) fn full() -> RunResult {
    let mut result = busy();
    record_latencies(&mut result);
    (result.cost.cpu_user_s, result.cost.cpu_system_s) = (Some(1.0), Some(2.0));
    (result.cost.cpu_quota_cores, result.cost.cpu_throttled_s) = (Some(4.0), Some(0.0));
    (result.cost.cpu_quota_periods, result.cost.cpu_throttled_periods) = (Some(10), Some(0));
    (result.workload.block_hits, result.workload.block_misses) = (3, 4);
    result.cache.reuse = Looks { found: 3, missed: 1 };
    result.block_trace = Some(Ok(traced()));
    result.gpu = Some(GpuOutcome {
        asked_bytes: 2 * GIB,
        given_bytes: GIB,
        backing: Some(GpuBacking::Real(GpuKind::Cuda)),
        driver: Some("12.4".to_owned()),
        devices: vec![GpuDevice {
            index: 0,
            name: "GPU".to_owned(),
            memory_bytes: 80 * GIB,
            free_bytes: 70 * GIB,
        }],
        why_not: None,
        transfer: Some(GpuTransferOutcome {
            is_direct: false,
            why_not_direct: Some("there is no libcufile.so.0".to_owned()),
            warns: false,
        }),
        taken_bytes: GIB,
        driver_use: vec![Some(DriverUse { used_bytes: 11 * GIB, own_bytes: Some(2 * GIB) })],
    });
    result.roofline = Some(("limits.json".to_owned(), roofline(4e9, 2e9)));
    result.precondition = Some(PreconditionReport::default());
    result.queue_depth = Some(DepthFigures {
        chosen: 16,
        deepest: 64,
        lacks_buffers: false,
        queues: 2,
        ranks: Some(1),
        reason: DepthReason::Knee,
        steps: vec![DepthStep { depth: 16, seconds: 1.0, ios: 7, ..DepthStep::default() }],
        seconds: 3.0,
    });
    result.autoscale = Some(scaled());
    with_devices(&mut result);
    result
}

/// Records one latency of 1 ms for each kind of wait and transfer.
fn record_latencies(result: &mut RunResult) {
    let figures = &mut result.figures;
    let engine = &mut figures.engine;
    for tier in Tier::ALL {
        for direction in
            [&mut engine.tiers[tier.index()].read, &mut engine.tiers[tier.index()].write]
        {
            direction.total.record(MILLISECOND.as_ns());
            direction.device.record(MILLISECOND.as_ns());
            direction.host.record(MILLISECOND.as_ns());
        }
    }
    for row in engine.evictions.iter_mut().chain([&mut engine.evictions_gpu_to_storage]) {
        for histogram in [&mut row.room, &mut row.read, &mut row.write] {
            histogram.record(MILLISECOND.as_ns());
        }
    }
    let waits = &mut engine.waits;
    for histogram in [
        &mut engine.io_write.latency,
        &mut engine.io_flush.latency,
        &mut waits.room,
        &mut waits.growth,
        &mut waits.buffer,
        &mut waits.queue_place,
        &mut figures.allocation_wait,
        &mut figures.requests.queued,
        &mut figures.requests.generation,
    ] {
        histogram.record(MILLISECOND.as_ns());
    }
}

fn traced() -> BlockTraceFigures {
    let buckets = vec![Bucket { low: 64, high: 127, count: 4 }];
    let direction = BlockDirection {
        requests: 4,
        bytes: 4 * 4096,
        latency_mean_us: Some(100.0),
        issue_to_complete_us: buckets.clone(),
        insert_to_issue_us: buckets.clone(),
        sizes: vec![SizeCell { bytes: 4096, count: 4 }],
        depth: buckets,
    };
    BlockTraceFigures {
        device: "nvme0n1".to_owned(),
        seconds: 10.0,
        read: direction.clone(),
        write: direction,
        heat: vec![HeatCell { part: 3, reads: 4, writes: 4 }],
        lost_events: 0,
    }
}

fn scaled() -> Conclusion {
    let step = StepResult {
        users: 8,
        window_s: 5.0,
        end_s: 6.0,
        steady: true,
        patient: true,
        settled: true,
        backlog_before: 0,
        bytes_per_s: GIB as f64,
        uncertainty: 0.01,
        tokens_per_s: 900.0,
        requests_per_s: 3.0,
        read_ns: Some([1, 2, 3].map(|ms| ms * MILLISECOND.as_ns())),
        write_ns: Some([4, 5, 6].map(|ms| ms * MILLISECOND.as_ns())),
        class_p95_ns: [Some(MILLISECOND.as_ns()); 3],
        class_open: [0; 3],
        late: [None; 3],
        storage: StorageLoad::default(),
        saturation: Some(0.5),
        worst: None,
        used_share: Some(0.5),
        time: TimeShares { queue_ns: 1, storage_ns: 2, generation_ns: 3, total_ns: 6 },
        loads: 20,
        load_ns: Some([1, 2].map(|ms| ms * MILLISECOND.as_ns())),
        storage_io_p95_ns: Some(3 * MILLISECOND.as_ns()),
        reuse_share: Some(0.9),
        drive_busy_share: Some(0.5),
    };
    let usl = UslFit {
        lambda_bytes_per_s: 1e9,
        sigma: 0.1,
        kappa: 0.001,
        r_squared: 0.99,
        peak_users: Some(30.0),
    };
    Conclusion {
        mode: Mode::Capacity,
        initial_users: 4,
        conclusive: true,
        reason: "throughput no longer rises".to_owned(),
        answer: Answer::Capacity(Some(CapacityAnswer {
            peak_bytes_per_s: GIB as f64,
            knee_bytes_per_s: 0.98 * GIB as f64,
            peak_tokens_per_s: 900.0,
            peak_users: 8,
            flat_from: None,
            usl: Some(usl),
            confirmed: true,
        })),
        entries: vec![
            Entry { result: step.clone(), act: Act::ScaleUp },
            Entry { result: step, act: Act::Stop },
        ],
    }
}

/// Two drives, the rows of the kernel's counters, and a shard.
fn with_devices(result: &mut RunResult) {
    let kernel = result.kernel.clone().unwrap();
    result.kernel_chain = vec![kernel.clone()];
    result.kernel_seconds =
        vec![KernelSecond { end_s: 1.0, seconds: 1.0, delta: kernel.clone(), in_flight: 1 }];
    let drive = |path: &str| DriveOutcome {
        path: path.to_owned(),
        remote_bytes: Some(MIB),
        capacity_bytes: GIB,
        kernel: Some(kernel.clone()),
        ..DriveOutcome::default()
    };
    result.drives = vec![drive("/a"), drive("/b")];
    let device = kernel.device.clone();
    result.drive_accounts = vec![DriveAccount { device, answer: Ok(drive_answer()) }];
    result.engine.drives = vec![DriveMetrics::default(); 2];
    result.facts = vec![ShardFacts {
        ring: RingFeatures::default(),
        huge_pages: false,
        buffer_bytes: GIB,
        gpu_reaches_buffers: Some(true),
        shortfalls: Vec::new(),
    }];
    result.space = vec![SpaceFigures::default()];
}
