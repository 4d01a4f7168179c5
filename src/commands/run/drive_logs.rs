//! The drives' own logs: each drive below the store is asked before the load and after the run,
//! when none of its I/Os can be disturbed by that.

use ringfall_core::clock::{Nanos, monotonic_now};
use ringfall_core::error::PassthroughFault;
use ringfall_engine::device::{AtaPages, DrivePages};
use ringfall_host::{
    BlockCounters, BlockDelta, ChainLink, DeviceFacts, DriveLook, Overdue, lowest_devices,
};
use ringfall_model::facts::{DriveAccount, DriveAnswer};

/// The drives below a store, and what they answered.
#[derive(Default)]
pub(super) struct DriveLogs {
    /// Whether the kernel counts this run's I/O.
    is_counted: bool,
    drives: Vec<Drive>,
}

struct Drive {
    link: ChainLink,
    before: Result<Answer, PassthroughFault>,
    /// None until the run is over.
    after: Option<Result<Answer, PassthroughFault>>,
}

/// A drive's answer at a moment, and what the kernel had counted then.
struct Answer {
    at: Nanos,
    look: DriveLook,
    kernel: Option<BlockCounters>,
}

impl DriveLogs {
    /// Asks the drives that these devices stand on, before any load.
    pub(super) fn begin(links: &[ChainLink], is_counted: bool) -> DriveLogs {
        let drive = |link: &ChainLink| Drive {
            link: link.clone(),
            before: ask(link, is_counted),
            after: None,
        };
        let drives = lowest_devices(links).into_iter().map(drive).collect();
        DriveLogs { is_counted, drives }
    }

    /// Asks again those that have answered, when the run is over.
    pub(super) fn end(&mut self) {
        for drive in self.drives.iter_mut().filter(|drive| drive.before.is_ok()) {
            drive.after = Some(ask(&drive.link, self.is_counted));
        }
    }

    /// Sentence for the user of a process that may not read the logs that there are.
    pub(super) fn notice(&self) -> Option<String> {
        let is_forbidden =
            |drive: &&Drive| matches!(drive.before, Err(PassthroughFault::Forbidden { .. }));
        let drives = self.drives.iter().filter(is_forbidden);
        let names: Vec<&str> = drives.map(|drive| &*drive.link.name).collect();
        (!names.is_empty()).then(|| {
            format!(
                "heat, wear and write amplification of {} stay unknown: to read the drive's log, \
                 run as root, or with CAP_SYS_ADMIN (CAP_SYS_RAWIO for SATA drives) and read \
                 access to the device",
                names.join(", ")
            )
        })
    }

    /// Accounts of the drives; none of one that is still to be asked again.
    pub(super) fn accounts(&self) -> Vec<DriveAccount> {
        self.drives.iter().filter_map(Drive::account).collect()
    }
}

impl Drive {
    fn account(&self) -> Option<DriveAccount> {
        let answers = match (&self.before, &self.after) {
            (Err(fault), _) | (Ok(_), Some(Err(fault))) => Err(fault.to_string()),
            (Ok(before), Some(Ok(after))) => Ok((before, after)),
            (Ok(_), None) => return None,
        };
        let answer = answers.map(|(before, after)| DriveAnswer {
            before: before.look.clone(),
            after: after.look.clone(),
            seconds: after.at.saturating_sub(before.at).as_secs_f64(),
            kernel: before
                .kernel
                .zip(after.kernel)
                .map(|(before, after)| BlockDelta::between(&self.link.name, before, after)),
            size_bytes: DeviceFacts::of(&self.link.numbers).and_then(|facts| facts.size_bytes),
        });
        Some(DriveAccount { device: self.link.name.clone(), answer })
    }
}

fn ask(link: &ChainLink, is_counted: bool) -> Result<Answer, PassthroughFault> {
    let _overdue = Overdue::new(format!("the log of {}", link.name));
    let look = match AtaPages::are_there(&link.numbers) {
        true => look_of_ata(link)?,
        false => look_of_nvme(link)?,
    };
    Ok(Answer {
        at: monotonic_now(),
        look: look.ok_or_else(|| {
            let reason = "the answer is too short".to_owned();
            PassthroughFault::Command { name: "reading the log", reason }
        })?,
        kernel: BlockCounters::read(&link.numbers).filter(|_| is_counted),
    })
}

fn look_of_nvme(link: &ChainLink) -> Result<Option<DriveLook>, PassthroughFault> {
    let pages = DrivePages::read(&link.name, &link.numbers)?;
    let extended = pages.extended.as_ref().map(<[u8; 512]>::as_slice);
    Ok(DriveLook::parse(&pages.controller, &pages.health, extended))
}

fn look_of_ata(link: &ChainLink) -> Result<Option<DriveLook>, PassthroughFault> {
    let pages = AtaPages::read(&link.name, &link.numbers)?;
    let facts = DeviceFacts::of(&link.numbers);
    let sector_bytes = facts.and_then(|facts| facts.logical_block_bytes).unwrap_or(512);
    Ok(DriveLook::parse_ata(&pages.identity, &pages.statistics, sector_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(name: &str, before: Result<Answer, PassthroughFault>) -> Drive {
        let link = ChainLink {
            name: name.to_owned(),
            numbers: "259:0".to_owned(),
            kind: "disk".to_owned(),
            above: None,
        };
        Drive { link, before, after: None }
    }

    fn logs(drives: Vec<Drive>) -> DriveLogs {
        DriveLogs { is_counted: true, drives }
    }

    fn answer(at_s: u64, read_bytes: u64) -> Answer {
        let kernel = Some(BlockCounters { read_bytes, ..BlockCounters::default() });
        Answer { at: Nanos::from_ms(at_s * 1_000), look: DriveLook::default(), kernel }
    }

    #[test]
    fn a_loop_device_is_not_asked_and_nobody_is_told_of_it() {
        let link = ChainLink {
            name: "loop0".to_owned(),
            numbers: "7:0".to_owned(),
            kind: "loop".to_owned(),
            above: None,
        };
        let mut found = DriveLogs::begin(&[link], true);
        found.end();
        assert_eq!(found.notice(), None);
        let answer = Err(PassthroughFault::NoKnownDrive.to_string());
        assert_eq!(found.accounts(), [DriveAccount { device: "loop0".to_owned(), answer }]);
    }

    #[test]
    fn one_notice_says_what_helps_where_logs_may_not_be_read() {
        let forbidden =
            || Err(PassthroughFault::Forbidden { reason: "Permission denied".to_owned() });
        let all = logs(vec![
            drive("nvme0n1", forbidden()),
            drive("vda", Err(PassthroughFault::NoKnownDrive)),
            drive("nvme1n1", forbidden()),
        ]);
        let notice = all.notice().unwrap();
        assert!(notice.contains("of nvme0n1, nvme1n1 stay unknown"), "{notice}");
        assert!(notice.contains("CAP_SYS_ADMIN"), "{notice}");
        assert_eq!(all.accounts().len(), 3);
    }

    #[test]
    fn an_account_is_there_once_both_answers_are() {
        let mut one = drive("nvme0n1", Ok(answer(2, 4_096)));
        assert_eq!(one.account(), None);
        one.after = Some(Ok(answer(9, 12_288)));
        let found = one.account().unwrap().answer.unwrap();
        assert_eq!(found.seconds, 7.0);
        assert_eq!(found.kernel.map(|kernel| kernel.read_bytes), Some(8_192));
        one.after = Some(Err(PassthroughFault::NoKnownDrive));
        assert!(one.account().unwrap().answer.is_err());
    }
}
