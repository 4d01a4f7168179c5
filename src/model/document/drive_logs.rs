//! `ringfall.device.drive_logs`: what each drive below the data files said of itself.

use ringfall_core::units::gib;

use super::figure::Fact;
use crate::RunResult;
use crate::facts::{DriveAccount, DriveAnswer, DriveOutcome, metrics_by_drive};
use crate::figures::given::row;

const DAY_S: f64 = 86_400.0;

row! {
/// A drive's own account of the run, from its logs before the load and after the last I/O: of all
/// that the drive did in between, the warm-up and what others did there included.
pub struct DriveLogReport of run: DriveInRun<'_> {
    /// Name of the drive under `/sys/block`.
    pub device: Fact<String> = run.account.device.clone(),
    /// Why the drive told nothing; null where it did.
    pub not_told: Option<String> = run.account.answer.as_ref().err().cloned(),
    /// Time between the drive's two answers, s.
    pub seconds: Option<f64> = run.told(|answer| Some(answer.seconds)),
    /// Model of the drive.
    pub model: Option<String> = run.told(|answer| answer.after.controller.model.clone()),
    /// Revision of the drive's firmware.
    pub firmware: Option<String> = run.told(|answer| answer.after.controller.firmware.clone()),
    /// Nominal rotation rate of the drive's media, rpm; null where they do not rotate, and for NVMe
    /// drives.
    pub rotation_rpm: Option<u32> = run.told(|answer| answer.after.controller.rotation_rpm),
    /// Capacity of the whole drive, all of its namespaces together, bytes.
    pub capacity_bytes: Option<u64> = run.told(DriveAnswer::capacity_bytes),
    /// Most that one command moves, bytes; null where the drive sets no limit.
    pub command_bytes_max: Option<u64> =
        run.told(|answer| answer.after.controller.command_bytes_max),
    /// Bytes that the host read, by the drive's count, which with NVMe is in units of 512,000
    /// bytes; null where the drive does not count them.
    pub host_read_bytes: Option<u64> = run.told(DriveAnswer::host_read_bytes),
    /// Bytes that the host wrote, by the drive's count; null where the drive does not count them.
    pub host_write_bytes: Option<u64> = run.told(DriveAnswer::host_write_bytes),
    /// Bytes read by the kernel's count over the same time; null where the kernel counts none, as
    /// with NVMe passthrough.
    pub kernel_read_bytes: Option<u64> =
        run.told(|answer| Some(answer.kernel.as_ref()?.read_bytes)),
    /// Bytes written by the kernel's count over the same time; null where the kernel counts none.
    pub kernel_write_bytes: Option<u64> =
        run.told(|answer| Some(answer.kernel.as_ref()?.write_bytes)),
    /// Number of read commands that the drive completed.
    pub host_reads: Option<u64> = run.told(|answer| answer.grown(|log| log.read_commands)),
    /// Number of write commands that the drive completed.
    pub host_writes: Option<u64> = run.told(|answer| answer.grown(|log| log.write_commands)),
    /// Time with an I/O command outstanding, by the drive's count of whole minutes.
    pub busy_minutes: Option<u64> = run.told(|answer| answer.grown(|log| log.busy_minutes)),
    /// Bytes that the drive read from its media; null for a drive without OCP's extended log (C0h),
    /// such as every SATA drive.
    pub media_read_bytes: Option<u64> =
        run.told(|answer| answer.media_grown(|log| log.read_bytes)),
    /// Bytes that the drive wrote to its media, its own among them; null for a drive without OCP's
    /// extended log (C0h), such as every SATA drive.
    pub media_write_bytes: Option<u64> =
        run.told(|answer| answer.media_grown(|log| log.written_bytes)),
    /// Write amplification: `media_write_bytes` divided by `host_write_bytes`. Null where the drive
    /// does not count both, and where the host wrote less than 51.2 MB.
    pub write_amplification: Option<f64> = run.told(DriveAnswer::write_amplification),
    /// Why `write_amplification` is null; null where it is a number, and where the drive told
    /// nothing at all.
    pub write_amplification_not_told: Option<String> =
        run.told(|answer| answer.amplification_not_told().map(str::to_owned)),
    /// Drive writes a day at the rate of the measurement window: bytes written to the drive per
    /// second, times 86,400, divided by `capacity_bytes`. Null where either is not known.
    pub writes_per_day: Option<f64> = run.writes_per_day(),
    /// Conditions that the drive warned of after the last I/O, as the bits of NVMe's critical
    /// warning: 1 too few spare blocks, 2 temperature, 4 reliability, 8 media that can only be
    /// read, 16 backup of volatile memory, 32 persistent memory; 0 for none.
    pub critical_warning: Option<u32> =
        run.told(|answer| answer.after.health.critical_warning.map(u32::from)),
    /// Time that the drive has been powered on since it was made, h.
    pub power_on_hours: Option<u64> =
        run.told(|answer| u64::try_from(answer.after.health.power_on_hours?).ok()),
    /// Composite temperature of the drive before the load, °C.
    pub temperature_before_c: Option<i32> = run.told(|answer| answer.before.health.temperature_c),
    /// Composite temperature of the drive after the last I/O, °C. The drive is not asked while the
    /// load runs, so it may have been hotter in between.
    pub temperature_after_c: Option<i32> = run.told(|answer| answer.after.health.temperature_c),
    /// Temperature from which the drive warns, °C; null where it names none.
    pub warning_temperature_c: Option<i32> =
        run.told(|answer| answer.after.controller.warning_temperature_c),
    /// Temperature from which the drive may lose data or turn itself off, °C; null where it names
    /// none.
    pub critical_temperature_c: Option<i32> =
        run.told(|answer| answer.after.controller.critical_temperature_c),
    /// Time at the warning temperature or above it, but below the critical one, in whole minutes.
    pub warm_minutes: Option<u64> = run.told(|answer| answer.grown(|log| log.warm_minutes)),
    /// Time at the critical temperature or above it, in whole minutes.
    pub critical_minutes: Option<u64> =
        run.told(|answer| answer.grown(|log| log.critical_minutes)),
    /// Number of times that the drive slowed down because it reached the lower of the temperatures
    /// at which the host has it do so; 0 also where the drive does not count them.
    pub light_throttles: Option<u64> =
        run.told(|answer| answer.grown(|log| log.light_throttles)),
    /// Number of times that the drive slowed down because it reached the higher one.
    pub heavy_throttles: Option<u64> =
        run.told(|answer| answer.grown(|log| log.heavy_throttles)),
    /// Time for which the drive was slowed down at the lower temperature, s.
    pub light_throttle_s: Option<u64> =
        run.told(|answer| answer.grown(|log| log.light_throttle_s)),
    /// Time for which the drive was slowed down at the higher temperature, s.
    pub heavy_throttle_s: Option<u64> =
        run.told(|answer| answer.grown(|log| log.heavy_throttle_s)),
    /// Number of times that the drive slowed down against heat, by OCP's extended log (C0h), whose
    /// count stays at 255; null for a drive without that log.
    pub throttle_events: Option<u64> =
        run.told(|answer| answer.media_grown(|log| log.throttle_events.into())),
    /// Level to which the drive was slowed down after the last I/O, from 0 (not at all) to 3; null
    /// for a drive without OCP's extended log (C0h).
    pub throttle_level: Option<u32> =
        run.told(|answer| Some(u32::from(answer.after.media.as_ref()?.throttle_level))),
    /// Number of errors of data or media that the drive could not correct.
    pub media_errors: Option<u64> = run.told(|answer| answer.grown(|log| log.media_errors)),
    /// Spare blocks that the drive has left, % of those that it had.
    pub spare_percent: Option<u32> = run.told(|answer| answer.after.health.spare_percent),
    /// Share of spare blocks below which the drive warns, %.
    pub spare_threshold_percent: Option<u32> =
        run.told(|answer| answer.after.health.spare_threshold_percent),
    /// Estimate by the drive's maker of the endurance used since it was made, %; may exceed 100.
    pub used_percent: Option<u32> = run.told(|answer| answer.after.health.used_percent),
}
}

/// A drive's account, and what the load of the window wrote to it.
pub(crate) struct DriveInRun<'a> {
    account: &'a DriveAccount,
    /// Rate in the window; none where it is not known.
    write_bytes_per_s: Option<f64>,
}

impl DriveInRun<'_> {
    /// A figure of the drive's answers; none where it gave none.
    fn told<T>(&self, pick: impl FnOnce(&DriveAnswer) -> Option<T>) -> Option<T> {
        pick(self.account.answer.as_ref().ok()?)
    }

    fn writes_per_day(&self) -> Option<f64> {
        let capacity_bytes = self.told(DriveAnswer::capacity_bytes).filter(|bytes| *bytes > 0)?;
        Some(self.write_bytes_per_s? * DAY_S / capacity_bytes as f64)
    }
}

impl DriveLogReport {
    /// A row for each drive below the data files.
    pub(super) fn all(result: &RunResult) -> Vec<DriveLogReport> {
        let row = |account: &DriveAccount| {
            let write_bytes_per_s = write_bytes_per_s(result, &account.device);
            DriveLogReport::of(&DriveInRun { account, write_bytes_per_s })
        };
        result.drive_accounts.iter().map(row).collect()
    }

    /// Account of the drive for a person, without a full stop: its figures, or why there are none.
    pub fn told(&self) -> String {
        if let Some(why) = &self.not_told {
            return format!("{}: not told by this drive ({why})", self.device);
        }
        let parts = [
            self.moved_told(),
            self.media_told(),
            self.writes_per_day.map(|writes| format!("{writes:.2} drive writes a day")),
            self.heat_told(),
            self.wear_told(),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("{}: {}", self.device, parts.join("; "))
    }

    fn moved_told(&self) -> Option<String> {
        let (read, written) = (gib(self.host_read_bytes?), gib(self.host_write_bytes?));
        let kernel = self.kernel_read_bytes.zip(self.kernel_write_bytes);
        let kernel = kernel.map_or(String::new(), |(read, written)| {
            format!(" (kernel {:.2} and {:.2})", gib(read), gib(written))
        });
        let seconds = self.seconds?;
        Some(format!(
            "counted {read:.2} GiB read and {written:.2} GiB written{kernel} in {seconds:.0} s, \
             from before the load to after it"
        ))
    }

    fn media_told(&self) -> Option<String> {
        let written = self.media_write_bytes.map(gib);
        let written = written.map(|gib| format!("{gib:.2} GiB written to its media"));
        let why_not = self.write_amplification_not_told.as_ref();
        let why_not = why_not.map(|why| format!("no write amplification, as {why}"));
        let times = self.write_amplification;
        let times = times.map(|times| format!("a write amplification of {times:.2}"));
        let parts: Vec<String> = [written, times, why_not].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn heat_told(&self) -> Option<String> {
        let (before, after) = (self.temperature_before_c?, self.temperature_after_c?);
        let warning = self.warning_temperature_c;
        let warning = warning.map_or(String::new(), |from| format!(" (it warns from {from} °C)"));
        Some(format!("{before} °C before the load and {after} °C after it{warning}"))
    }

    fn wear_told(&self) -> Option<String> {
        let used = self.used_percent.map(|used| format!("{used} % of its endurance used"));
        let spare = self.spare_percent.map(|spare| format!("{spare} % of its spare blocks left"));
        let parts: Vec<String> = [used, spare].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Bytes a second that the load wrote to a drive in the window: the kernel's count, or where it has
/// none, the engine's on the drive that this one is.
fn write_bytes_per_s(result: &RunResult, device: &str) -> Option<f64> {
    let seconds = Some(result.window.seconds).filter(|seconds| *seconds > 0.0)?;
    let kernel = result.kernel_chain.iter().find(|delta| delta.device == device);
    let engine = || {
        let named =
            |drive: &DriveOutcome| drive.device.as_ref().is_some_and(|known| known.name == device);
        let index = result.drives.iter().position(named)?;
        let metrics = metrics_by_drive(&result.engine, result.drives.len());
        Some(metrics.get(index)?.write.bytes)
    };
    let bytes = kernel.map(|delta| delta.write_bytes).or_else(engine)?;
    Some(bytes as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::GIB;
    use ringfall_host::{BlockDelta, DriveLook, HealthLog, LogKind};

    use super::*;
    use crate::testing::{busy, drive_answer};

    fn rows(result: &RunResult) -> Vec<DriveLogReport> {
        DriveLogReport::all(result)
    }

    fn told() -> RunResult {
        let mut result = busy();
        let device = "nvme0n1".to_owned();
        result.drive_accounts = vec![DriveAccount { device, answer: Ok(drive_answer()) }];
        result
    }

    #[test]
    fn a_drive_that_tells_nothing_says_why_and_has_no_figures() {
        let mut result = busy();
        let why = "it is not an NVMe drive".to_owned();
        result.drive_accounts = vec![DriveAccount { device: "vda".to_owned(), answer: Err(why) }];
        let row = &rows(&result)[0];
        assert_eq!(row.told(), "vda: not told by this drive (it is not an NVMe drive)");
        let json = serde_json::to_value(row).unwrap();
        let figures = json.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
        let known: Vec<&String> = figures.map(|(key, _)| key).collect();
        assert_eq!(known, ["device", "not_told"]);
    }

    #[test]
    fn the_account_has_the_drives_count_beside_the_kernels() {
        let mut result = told();
        result.window.seconds = 10.0;
        let kernel = result.kernel.clone().unwrap();
        result.kernel_chain = vec![BlockDelta { write_bytes: 10 * GIB, ..kernel }];
        let row = &rows(&result)[0];
        // 1 GiB/s on 1,024 GiB.
        assert_eq!(row.writes_per_day, Some(86_400.0 / 1_024.0));
        assert_eq!((row.light_throttles, row.media_errors), (Some(2), Some(1)));
        assert_eq!(
            row.told(),
            "nvme0n1: counted 2.38 GiB read and 4.77 GiB written (kernel 1.00 and 2.00) in 12 s, \
             from before the load to after it; 5.96 GiB written to its media, a write \
             amplification of 1.25; 84.38 drive writes a day; 41 °C before the load and 63 °C \
             after it (it warns from 80 °C); 3 % of its endurance used, 100 % of its spare blocks \
             left"
        );
    }

    #[test]
    fn too_few_writes_are_said_in_place_of_a_write_amplification() {
        let mut result = told();
        if let Ok(answer) = &mut result.drive_accounts[0].answer {
            let before = answer.before.health.written_bytes;
            answer.after.health.written_bytes = before.map(|bytes| bytes + 99 * 512_000);
        }
        let row = &rows(&result)[0];
        assert_eq!(row.write_amplification, None);
        let told = "no write amplification, as the host wrote less than 51.2 MB";
        assert!(row.told().contains(told), "{}", row.told());
    }

    #[test]
    fn a_sata_drive_has_null_in_place_of_what_it_does_not_count() {
        let mut result = told();
        let look = |sectors: u128, temperature_c| DriveLook {
            kind: LogKind::Ata,
            health: HealthLog {
                temperature_c: Some(temperature_c),
                used_percent: Some(3),
                read_bytes: Some(512),
                written_bytes: Some(512 * sectors),
                ..HealthLog::default()
            },
            ..DriveLook::default()
        };
        if let Ok(answer) = &mut result.drive_accounts[0].answer {
            (answer.before, answer.after) = (look(1, 30), look(1 + (1 << 21), 34));
        }
        let row = &rows(&result)[0];
        assert_eq!((row.host_read_bytes, row.host_write_bytes), (Some(0), Some(GIB)));
        assert_eq!((row.spare_percent, row.light_throttles), (None, None));
        assert_eq!((row.media_write_bytes, row.write_amplification), (None, None));
        let told = row.told();
        for part in [
            "and 1.00 GiB written (kernel",
            "; no write amplification, as a SATA drive's statistics do not count what is written",
            "30 °C before the load and 34 °C after it; 3 % of its endurance used",
        ] {
            assert!(told.contains(part), "{part} in {told}");
        }
        assert!(told.ends_with("endurance used"), "{told}");
    }

    #[test]
    fn commands_that_the_kernel_does_not_count_are_those_of_the_engine() {
        let mut result = told();
        result.kernel_chain = Vec::new();
        assert_eq!(rows(&result)[0].writes_per_day, None, "no drive of that name");
        result.drives = vec![DriveOutcome {
            device: Some(ringfall_host::DeviceFacts {
                name: "nvme0n1".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        }];
        result.engine.io_write.bytes = 10 * GIB;
        assert_eq!(rows(&result)[0].writes_per_day, Some(86_400.0 / 1_024.0));
    }
}
