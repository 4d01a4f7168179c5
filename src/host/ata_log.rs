//! Parser of the pages in which a SATA drive describes itself: IDENTIFY DEVICE data and the Device
//! Statistics log, as ACS-4 (T13/BSR INCITS 529 revision 14) has them. The engine reads them.

use crate::drive_log::{ControllerFacts, DriveLook, HealthLog, LogKind, Page};

/// Bytes of each page.
const PAGE_BYTES: usize = 512;
/// Bits of a statistic (9.5.2): the drive has it, and its value is valid.
const SUPPORTED: u64 = 1 << 63;
const VALID: u64 = 1 << 62;

/// A statistic: the page that it is on, the place of its 8 bytes there, and the bits of its value.
struct Statistic {
    page: u8,
    at: usize,
    bits: u32,
}

/// General Statistics (log page 01h; 9.5.4, table 222).
const POWER_ON_HOURS: Statistic = Statistic { page: 1, at: 16, bits: 32 };
const SECTORS_WRITTEN: Statistic = Statistic { page: 1, at: 24, bits: 48 };
const WRITE_COMMANDS: Statistic = Statistic { page: 1, at: 32, bits: 48 };
const SECTORS_READ: Statistic = Statistic { page: 1, at: 40, bits: 48 };
const READ_COMMANDS: Statistic = Statistic { page: 1, at: 48, bits: 48 };
/// Reported Uncorrectable Errors, of General Errors Statistics (log page 04h).
const UNCORRECTABLE_ERRORS: Statistic = Statistic { page: 4, at: 8, bits: 32 };
/// Current Temperature, signed, °C, of Temperature Statistics (log page 05h).
const TEMPERATURE_C: Statistic = Statistic { page: 5, at: 8, bits: 8 };
/// Percentage Used Endurance Indicator, of Solid State Device Statistics (log page 07h).
const USED_PERCENT: Statistic = Statistic { page: 7, at: 8, bits: 8 };

impl DriveLook {
    /// Understands what a SATA drive with logical sectors of that size answered: IDENTIFY DEVICE
    /// data, and the pages of the Device Statistics log that it has, in any order. None where the
    /// first is cut short.
    pub fn parse_ata<P: AsRef<[u8]>>(
        identity: &[u8],
        statistics: &[P],
        sector_bytes: u64,
    ) -> Option<DriveLook> {
        let identity = Page::whole(identity, PAGE_BYTES)?;
        let value = |statistic: Statistic| statistic.of(statistics);
        let count = |statistic| value(statistic).map(u128::from);
        let bytes = |sectors| count(sectors)?.checked_mul(sector_bytes.into());
        let health = HealthLog {
            temperature_c: value(TEMPERATURE_C).map(signed),
            used_percent: value(USED_PERCENT).and_then(|percent| percent.try_into().ok()),
            read_bytes: bytes(SECTORS_READ),
            written_bytes: bytes(SECTORS_WRITTEN),
            read_commands: count(READ_COMMANDS),
            write_commands: count(WRITE_COMMANDS),
            power_on_hours: count(POWER_ON_HOURS),
            media_errors: count(UNCORRECTABLE_ERRORS),
            ..HealthLog::default()
        };
        // Word 217: 1 stands for media that do not rotate, 0 for no answer; 0401h to FFFEh is a
        // rate.
        let rate = identity.u16(2 * 217);
        let controller = ControllerFacts {
            model: swapped(identity, 27, 20),
            firmware: swapped(identity, 23, 4),
            rotation_rpm: (0x401..0xffff).contains(&rate).then(|| rate.into()),
            ..ControllerFacts::default()
        };
        Some(DriveLook { kind: LogKind::Ata, controller, health, media: None })
    }
}

impl Statistic {
    /// Its value; none where its page is missing, or the drive does not have or know it.
    fn of<P: AsRef<[u8]>>(&self, pages: &[P]) -> Option<u64> {
        let mut pages = pages.iter().filter_map(|page| Page::whole(page.as_ref(), PAGE_BYTES));
        // The header: a revision, which is 0 for a page that the drive lacks, and the number.
        let page = pages.find(|page| page.u16(0) > 0 && page.u8(2) == self.page)?;
        let whole = page.u64(self.at);
        let is_known = whole & SUPPORTED > 0 && whole & VALID > 0;
        is_known.then_some(whole & ((1 << self.bits) - 1))
    }
}

/// The number that a byte stands for as a signed one.
fn signed(byte: u64) -> i32 {
    i8::from_le_bytes([byte.to_le_bytes()[0]]).into()
}

/// Text in so many words from one on, each with its two characters swapped.
fn swapped(identity: Page, first_word: usize, words: usize) -> Option<String> {
    let numbers = first_word..first_word + words;
    let swap = |word: usize| identity.u16(2 * word).to_be_bytes();
    let bytes: Vec<u8> = numbers.flat_map(swap).collect();
    Page::whole(&bytes, 2 * words)?.text(0, 2 * words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: u64 = SUPPORTED | VALID;

    fn identity() -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        for (at, text) in [(20, "SECRET SERIAL NUMBER"), (46, "FW 1.2  "), (54, "DRIVE 9000  ")] {
            text.bytes().enumerate().for_each(|(index, byte)| page[(at + index) ^ 1] = byte);
        }
        page[2 * 217..2 * 218].copy_from_slice(&7_200_u16.to_le_bytes());
        page
    }

    /// A page of statistics with these at their places.
    fn statistics(number: u8, values: &[(usize, u64)]) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        (page[0], page[2]) = (1, number);
        for (at, value) in values {
            page[*at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        page
    }

    fn look(pages: &[Vec<u8>]) -> DriveLook {
        DriveLook::parse_ata(&identity(), pages, 4096).unwrap()
    }

    #[test]
    fn statistics_are_read_at_the_places_of_the_standard() {
        let most: u64 = (1 << 48) - 1;
        let general = [(16, 1), (24, most), (32, 3), (40, 4), (48, 5)];
        let found = look(&[
            // Flags beside the two, as that of a normalised value, are no part of it.
            statistics(7, &[(8, KNOWN | 1 << 61 | 130)]),
            statistics(1, &general.map(|(at, value)| (at, KNOWN | value))),
            statistics(5, &[(8, KNOWN | 0xfb)]),
            statistics(4, &[(8, KNOWN | 6)]),
        ]);
        let expected = HealthLog {
            temperature_c: Some(-5),
            used_percent: Some(130),
            power_on_hours: Some(1),
            written_bytes: Some(u128::from(most) * 4096),
            write_commands: Some(3),
            read_bytes: Some(4 * 4096),
            read_commands: Some(5),
            media_errors: Some(6),
            ..HealthLog::default()
        };
        assert_eq!(found.health, expected);
        let ControllerFacts { model, firmware, rotation_rpm, .. } = &found.controller;
        assert_eq!((model.as_deref(), firmware.as_deref()), (Some("DRIVE 9000"), Some("FW 1.2")));
        assert_eq!((*rotation_rpm, found.kind, found.media), (Some(7_200), LogKind::Ata, None));
    }

    #[test]
    fn what_a_drive_does_not_have_or_know_is_unknown() {
        let values = |flags: u64| [8, 16, 24, 32, 40, 48].map(|at| (at, flags | 40));
        let pages = |flags| [1, 4, 5, 7].map(|number| statistics(number, &values(flags)));
        for flags in [0, SUPPORTED, VALID, 1 << 61 | 1 << 60] {
            assert_eq!(look(&pages(flags)).health, HealthLog::default(), "{flags:#x}");
        }
        let [good, ..] = pages(KNOWN);
        assert_eq!(look(std::slice::from_ref(&good)).health.power_on_hours, Some(40));
        let (mut without_revision, short) = (good.clone(), good[..511].to_vec());
        without_revision[0] = 0;
        let garbage = vec![0xff; PAGE_BYTES];
        for page in [short, Vec::new(), statistics(6, &values(KNOWN)), without_revision, garbage] {
            assert_eq!(look(&[page]).health, HealthLog::default());
        }
        assert_eq!(look(&[]).health, HealthLog::default());
        let found = DriveLook::parse_ata(&[0xff; PAGE_BYTES], &[good], u64::MAX).unwrap();
        assert_eq!(found.controller.rotation_rpm, None);
        assert_eq!(DriveLook::parse_ata(&identity()[..511], &[[0_u8; 512]], 512), None);
    }
}
