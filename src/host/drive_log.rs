//! Parser of the pages in which an NVMe drive describes itself: Identify Controller, the SMART /
//! Health log and OCP's extension of that. The engine reads them.

/// Bytes in a unit in which a drive counts what its host reads and writes: 1,000 times 512 (NVM
/// Express Base Specification 2.0, figure 207), rounded up.
pub const DATA_UNIT_BYTES: u64 = 512_000;

/// Bytes of Identify Controller, and of either log.
const CONTROLLER_BYTES: usize = 4096;
const LOG_BYTES: usize = 512;
/// Smallest unit of memory of a controller, by which its largest transfer is counted
/// (`CAP.MPSMIN`), bytes.
const PAGE_BYTES: u64 = 4096;
/// Identifier at the end of OCP's log, AFD514C9-7C6F-4F9C-A4F2-BFEA2810AFC5 (OCP Datacenter NVMe
/// SSD Specification 2.0, 4.8.6, SMART-24), its lowest byte first.
const EXTENDED_GUID: u128 = 0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5;
/// Conditions that a critical warning (NVM Express Base Specification 2.0, figure 207) has a bit
/// for each, from the lowest on: the rest of a sentence about the drive.
const CRITICAL: [&str; 6] = [
    "it has too few spare blocks left",
    "its temperature is outside its limits",
    "it has become less reliable, through errors of its media or of its own",
    "its media can only be read",
    "the backup of its volatile memory has failed",
    "its persistent memory can only be read or is unreliable",
];
/// 0 °C in the whole kelvins in which drives count.
const ZERO_CELSIUS_K: i32 = 273;

/// Kind of the logs that a drive keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogKind {
    /// Logs of an NVMe drive.
    #[default]
    Nvme,
    /// Device Statistics log of a SATA drive.
    Ata,
}

/// A drive's description of itself, and its counters since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveLook {
    /// Kind of the logs that this is from.
    pub kind: LogKind,
    /// Properties that stay as they are.
    pub controller: ControllerFacts,
    /// SMART / Health log.
    pub health: HealthLog,
    /// Counters of the media; none of a drive without OCP's log.
    pub media: Option<MediaLog>,
}

/// Properties of a drive, with NVMe those of its controller (NVM Express Base Specification 2.0,
/// figure 275).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerFacts {
    /// Model number, without the spaces around it.
    pub model: Option<String>,
    /// Revision of the firmware.
    pub firmware: Option<String>,
    /// Capacity of the whole drive, all of its namespaces together, bytes.
    pub capacity_bytes: Option<u64>,
    /// Most that one command moves, bytes; none where the drive sets no limit.
    pub command_bytes_max: Option<u64>,
    /// Nominal rotation rate of its media, rpm; none where they do not rotate.
    pub rotation_rpm: Option<u32>,
    /// Temperature from which the drive warns, °C.
    pub warning_temperature_c: Option<i32>,
    /// Temperature from which it may lose data or turn itself off, °C.
    pub critical_temperature_c: Option<i32>,
}

/// SMART / Health log (the same, figure 207), or what another drive tells in its place: each figure
/// none where the drive does not tell it. Counts go on from the drive's first day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthLog {
    /// Conditions that the drive warns of, one bit each.
    pub critical_warning: Option<u8>,
    /// Temperature, °C: of NVMe drives the composite one, none where that is 0 K.
    pub temperature_c: Option<i32>,
    /// Spare blocks that are left, % of those that the drive had; none where that and the threshold
    /// are 0, as of a drive that counts none.
    pub spare_percent: Option<u32>,
    /// Share below which the drive warns of too few of them, %.
    pub spare_threshold_percent: Option<u32>,
    /// Maker's estimate of the endurance used, %; may exceed 100.
    pub used_percent: Option<u32>,
    /// Bytes that the host has read, of NVMe drives in units of [`DATA_UNIT_BYTES`]; 0 where such a
    /// drive doesn't count.
    pub read_bytes: Option<u128>,
    /// Bytes that the host has written; likewise.
    pub written_bytes: Option<u128>,
    /// Read commands that the drive has completed.
    pub read_commands: Option<u128>,
    /// Write commands that the drive has completed.
    pub write_commands: Option<u128>,
    /// Time with an I/O command outstanding, min.
    pub busy_minutes: Option<u128>,
    /// Time that the drive has been powered on, h.
    pub power_on_hours: Option<u128>,
    /// Errors of data or media that the drive could not correct.
    pub media_errors: Option<u128>,
    /// Time at the warning temperature or above it, but below the critical one, min.
    pub warm_minutes: Option<u128>,
    /// Time at the critical temperature or above it, min.
    pub critical_minutes: Option<u128>,
    /// Times that the drive slowed down against heat at the lower of the host's two temperatures.
    pub light_throttles: Option<u128>,
    /// Times that it slowed down at the higher one.
    pub heavy_throttles: Option<u128>,
    /// Time that it was slowed down at the lower one, s.
    pub light_throttle_s: Option<u128>,
    /// Time that it was slowed down at the higher one, s.
    pub heavy_throttle_s: Option<u128>,
}

/// Part of OCP's extended log (OCP Datacenter NVMe SSD Specification 2.0, 4.8.6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaLog {
    /// Bytes written to the media, the drive's own among them (SMART-1).
    pub written_bytes: u128,
    /// Bytes read from the media (SMART-2).
    pub read_bytes: u128,
    /// Times that the drive slowed down against heat (SMART-12); stays at 255 from there on.
    pub throttle_events: u8,
    /// Level to which it is slowed down now: 0 is not at all, 3 the most.
    pub throttle_level: u8,
}

impl DriveLook {
    /// Understands the pages; none where one of the first two is too short. The third may be
    /// another maker's page, or missing.
    pub fn parse(controller: &[u8], health: &[u8], extended: Option<&[u8]>) -> Option<DriveLook> {
        Some(DriveLook {
            kind: LogKind::Nvme,
            controller: ControllerFacts::parse(controller)?,
            health: HealthLog::parse(health)?,
            media: extended.and_then(MediaLog::parse),
        })
    }
}

impl ControllerFacts {
    fn parse(page: &[u8]) -> Option<ControllerFacts> {
        let page = Page::whole(page, CONTROLLER_BYTES)?;
        let kelvins = |at| celsius(page.u16(at));
        // MDTS: a power of two of the smallest page.
        let power = u32::from(page.u8(77));
        let command_bytes_max = PAGE_BYTES.checked_shl(power).filter(|bytes| *bytes > 0);
        Some(ControllerFacts {
            model: page.text(24, 40),
            firmware: page.text(64, 8),
            capacity_bytes: u64::try_from(page.u128(280)).ok().filter(|bytes| *bytes > 0),
            command_bytes_max: command_bytes_max.filter(|_| power > 0),
            rotation_rpm: None,
            warning_temperature_c: kelvins(266),
            critical_temperature_c: kelvins(268),
        })
    }
}

impl HealthLog {
    fn parse(page: &[u8]) -> Option<HealthLog> {
        let page = Page::whole(page, LOG_BYTES)?;
        let percent = |at| Some(page.u8(at).into());
        let counts_spares = page.u8(3) > 0 || page.u8(4) > 0;
        let bytes = |at| page.u128(at).checked_mul(DATA_UNIT_BYTES.into());
        let wide = |at| Some(page.u128(at));
        let count = |at| Some(page.u32(at).into());
        Some(HealthLog {
            critical_warning: Some(page.u8(0)),
            temperature_c: celsius(page.u16(1)),
            spare_percent: percent(3).filter(|_| counts_spares),
            spare_threshold_percent: percent(4).filter(|_| counts_spares),
            used_percent: percent(5),
            read_bytes: bytes(32),
            written_bytes: bytes(48),
            read_commands: wide(64),
            write_commands: wide(80),
            busy_minutes: wide(96),
            power_on_hours: wide(128),
            media_errors: wide(160),
            warm_minutes: count(192),
            critical_minutes: count(196),
            light_throttles: count(216),
            heavy_throttles: count(220),
            light_throttle_s: count(224),
            heavy_throttle_s: count(228),
        })
    }

    /// Conditions that the drive warns of, each the rest of a sentence about it.
    pub fn conditions(&self) -> Vec<&'static str> {
        let bits = self.critical_warning.unwrap_or(0);
        let all = CRITICAL.iter().enumerate();
        all.filter(|(bit, _)| bits >> bit & 1 > 0).map(|(_, words)| *words).collect()
    }
}

impl MediaLog {
    /// None of a page that is not OCP's.
    fn parse(page: &[u8]) -> Option<MediaLog> {
        let page = Page::whole(page, LOG_BYTES)?;
        (page.u128(496) == EXTENDED_GUID).then(|| MediaLog {
            written_bytes: page.u128(0),
            read_bytes: page.u128(16),
            throttle_events: page.u8(96),
            throttle_level: page.u8(97),
        })
    }
}

/// Temperature in whole kelvins as °C; none of 0, with which a drive says that it tells none.
fn celsius(kelvins: u16) -> Option<i32> {
    (kelvins > 0).then(|| i32::from(kelvins) - ZERO_CELSIUS_K)
}

/// A page that is known to have all of its bytes; numbers have their lowest byte first.
#[derive(Clone, Copy)]
pub(super) struct Page<'a>(&'a [u8]);

impl<'a> Page<'a> {
    pub(super) fn whole(bytes: &'a [u8], length: usize) -> Option<Page<'a>> {
        (bytes.len() >= length).then_some(Page(bytes))
    }

    fn bytes<const LENGTH: usize>(self, at: usize) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes.copy_from_slice(&self.0[at..at + LENGTH]);
        bytes
    }

    pub(super) fn u8(self, at: usize) -> u8 {
        self.0[at]
    }

    pub(super) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    pub(super) fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    fn u128(self, at: usize) -> u128 {
        u128::from_le_bytes(self.bytes(at))
    }

    /// Text that is filled up with spaces; none where there is nothing else.
    pub(super) fn text(self, at: usize, length: usize) -> Option<String> {
        let text = String::from_utf8_lossy(&self.0[at..at + length]);
        let text = text.trim_matches([' ', '\0']);
        (!text.is_empty()).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The identifier as nvme-cli compares it, byte by byte.
    const GUID: [u8; 16] = [
        0xc5, 0xaf, 0x10, 0x28, 0xea, 0xbf, 0xf2, 0xa4, 0x9c, 0x4f, 0x6f, 0x7c, 0xc9, 0x14, 0xd5,
        0xaf,
    ];

    fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
        page[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn controller() -> Vec<u8> {
        let mut page = vec![0; CONTROLLER_BYTES];
        put(&mut page, 4, b"SECRET SERIAL NUMBER");
        put(&mut page, 24, format!("{:<40}", "DRIVE 9000").as_bytes());
        put(&mut page, 64, b"FW 1.2  ");
        page[77] = 5;
        put(&mut page, 266, &353_u16.to_le_bytes());
        put(&mut page, 268, &358_u16.to_le_bytes());
        put(&mut page, 280, &3_840_755_982_336_u128.to_le_bytes());
        page
    }

    fn extended() -> Vec<u8> {
        let mut page = vec![0; LOG_BYTES];
        put(&mut page, 0, &(1_u128 << 90 | 7).to_le_bytes());
        put(&mut page, 16, &8_u128.to_le_bytes());
        (page[96], page[97]) = (4, 1);
        put(&mut page, 496, &GUID);
        page
    }

    #[test]
    fn a_drive_says_what_it_is_and_its_serial_number_is_left_out() {
        let facts = ControllerFacts::parse(&controller()).unwrap();
        let expected = ControllerFacts {
            model: Some("DRIVE 9000".to_owned()),
            firmware: Some("FW 1.2".to_owned()),
            capacity_bytes: Some(3_840_755_982_336),
            command_bytes_max: Some(128 << 10),
            rotation_rpm: None,
            warning_temperature_c: Some(80),
            critical_temperature_c: Some(85),
        };
        assert_eq!(facts, expected);
        assert!(!format!("{facts:?}").contains("SECRET"));
        let nothing = ControllerFacts::parse(&[0; CONTROLLER_BYTES]).unwrap();
        assert_eq!(nothing, ControllerFacts::default());
        let mut odd = controller();
        odd[77] = 255;
        assert_eq!(ControllerFacts::parse(&odd).unwrap().command_bytes_max, None);
    }

    #[test]
    fn counters_of_a_drive_have_128_bits_and_their_places_in_the_log() {
        let mut page = vec![0; LOG_BYTES];
        put(&mut page, 1, &315_u16.to_le_bytes());
        (page[0], page[3], page[4], page[5]) = (0b1001, 99, 10, 130);
        let counters = [32, 48, 64, 80, 96, 128, 160];
        for (place, number) in counters.into_iter().zip(1_u128..) {
            put(&mut page, place, &(number << 100 | number).to_le_bytes());
        }
        for (place, number) in [192, 196, 216, 220, 224, 228].into_iter().zip(11_u32..) {
            put(&mut page, place, &number.to_le_bytes());
        }
        let log = HealthLog::parse(&page).unwrap();
        assert_eq!(log.temperature_c, Some(42));
        assert_eq!((log.spare_percent, log.spare_threshold_percent), (Some(99), Some(10)));
        assert_eq!(log.used_percent, Some(130));
        let wide = |number: u128| Some(number << 100 | number);
        let bytes = |number: u128| Some((number << 100 | number) * 512_000);
        assert_eq!((log.read_bytes, log.written_bytes), (bytes(1), bytes(2)));
        assert_eq!((log.read_commands, log.write_commands), (wide(3), wide(4)));
        assert_eq!((log.busy_minutes, log.power_on_hours), (wide(5), wide(6)));
        assert_eq!(log.media_errors, wide(7));
        assert_eq!(log.conditions(), [CRITICAL[0], CRITICAL[3]]);
        assert_eq!((log.warm_minutes, log.critical_minutes), (Some(11), Some(12)));
        assert_eq!((log.light_throttles, log.heavy_throttles), (Some(13), Some(14)));
        assert_eq!((log.light_throttle_s, log.heavy_throttle_s), (Some(15), Some(16)));
        put(&mut page, 48, &[0xff; 16]);
        (page[3], page[4]) = (0, 0);
        let odd = HealthLog::parse(&page).unwrap();
        let spares = (odd.spare_percent, odd.spare_threshold_percent);
        assert_eq!((odd.written_bytes, spares), (None, (None, None)));
    }

    #[test]
    fn a_page_with_another_identifier_is_not_believed() {
        let expected = MediaLog {
            written_bytes: 1 << 90 | 7,
            read_bytes: 8,
            throttle_events: 4,
            throttle_level: 1,
        };
        assert_eq!(MediaLog::parse(&extended()), Some(expected));
        for byte in 496..512 {
            let mut other = extended();
            other[byte] ^= 1;
            assert_eq!(MediaLog::parse(&other), None, "byte {byte}");
        }
        let look = DriveLook::parse(&controller(), &[0; LOG_BYTES], Some(&[0; LOG_BYTES])).unwrap();
        assert_eq!((look.media, look.health.temperature_c), (None, None));
    }

    #[test]
    fn a_page_that_is_cut_short_is_none() {
        let (controller, health, extended) = (controller(), [0; LOG_BYTES], extended());
        let parse = DriveLook::parse;
        for length in [0, 1, 511] {
            assert_eq!(parse(&controller, &health[..length], None), None);
            assert_eq!(parse(&controller[..length], &health, None), None);
            let look = parse(&controller, &health, Some(&extended[..length]));
            assert_eq!(look.map(|look| look.media), Some(None));
        }
        assert_eq!(parse(&controller[..4095], &health, None), None);
        assert!(parse(&controller, &health, Some(&extended)).unwrap().media.is_some());
    }
}
