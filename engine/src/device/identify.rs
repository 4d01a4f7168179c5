//! The two Identify commands, of an NVMe drive and of a namespace, and their answers as far as I/O
//! depends on them.

use std::fs::File;

use super::admin::Question;
use crate::error::PassthroughFault;
use crate::units::BLOCK_BYTES;

/// Bytes of the answer to Identify.
pub(super) const IDENTIFY_BYTES: usize = 4096;
/// Structure that it returns (CNS): the namespace's, or its controller's.
const OF_NAMESPACE: u32 = 0;
const OF_CONTROLLER: u32 = 1;

pub(super) fn identify(file: &File, namespace: u32) -> Result<Identity, PassthroughFault> {
    let of_namespace = Question::identify(OF_NAMESPACE, namespace).ask(file)?;
    Ok(Identity::parse(&of_namespace, &identify_controller(file)?))
}

pub(super) fn identify_controller(file: &File) -> Result<[u8; IDENTIFY_BYTES], PassthroughFault> {
    // No namespace is named where the controller is asked for.
    Question::identify(OF_CONTROLLER, 0).ask(file)
}

/// Properties of a namespace that I/O depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    blocks: u64,
    /// Size of one as a power of two, bytes.
    block_shift: u8,
    /// Bytes beside each.
    metadata_bytes: u16,
    /// Most that one command moves, bytes; none where the drive sets no limit.
    pub(super) command_bytes_max: Option<u64>,
}

impl Identity {
    /// From both answers: NVM Command Set Specification 1.0, figure 97, and NVM Express Base
    /// Specification 2.0, figure 275.
    fn parse(namespace: &[u8; IDENTIFY_BYTES], controller: &[u8; IDENTIFY_BYTES]) -> Identity {
        let mut blocks = [0; 8];
        blocks.copy_from_slice(&namespace[..8]);
        // FLBAS: the format in use, the two upper bits of its number apart.
        let in_use = namespace[26];
        let format = usize::from((in_use & 0xf) | (in_use >> 5 & 3) << 4);
        let format = &namespace[128 + 4 * format..][..4];
        // MDTS: a power of two of the controller's smallest page, which is at least 4 KiB.
        let command_bytes_max = match controller[77] {
            0 => None,
            power => Some(BLOCK_BYTES << power.min(32)),
        };
        Identity {
            blocks: u64::from_le_bytes(blocks),
            block_shift: format[2],
            metadata_bytes: u16::from_le_bytes([format[0], format[1]]),
            command_bytes_max,
        }
    }

    /// Size of a block as a power of two, where the namespace is as I/O needs it.
    pub(super) fn block_shift(&self) -> Result<u32, PassthroughFault> {
        if self.metadata_bytes > 0 {
            return Err(PassthroughFault::Metadata { bytes: self.metadata_bytes });
        }
        match self.block_shift {
            9..=12 => Ok(self.block_shift.into()),
            log2_bytes => Err(PassthroughFault::BlockSize { log2_bytes }),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.blocks.checked_shl(self.block_shift.into()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_at_the_places_of_the_specification() {
        let (mut namespace, mut controller) = ([0; IDENTIFY_BYTES], [0; IDENTIFY_BYTES]);
        namespace[..8].copy_from_slice(&0x1_0000_0007_u64.to_le_bytes());
        // Format 18: the lower bits 2, the upper 1; bit 4 is of the metadata.
        namespace[26] = 2 | 1 << 4 | 1 << 5;
        namespace[128 + 4 * 18..][..4].copy_from_slice(&[0, 0, 12, 0]);
        namespace[128 + 4 * 2..][..4].copy_from_slice(&[8, 0, 9, 0]);
        controller[77] = 5;
        let identity = Identity::parse(&namespace, &controller);
        assert_eq!(identity.block_shift(), Ok(12));
        assert_eq!(identity.bytes(), 0x1000_0000_7000);
        assert_eq!(identity.command_bytes_max, Some(128 << 10));
        namespace[26] = 2;
        let identity = Identity::parse(&namespace, &controller);
        assert_eq!(identity.block_shift(), Err(PassthroughFault::Metadata { bytes: 8 }));
        for (shift, is_good) in [(8, false), (9, true), (12, true), (13, false), (255, false)] {
            namespace[136..140].copy_from_slice(&[0, 0, shift, 0]);
            let identity = Identity::parse(&namespace, &controller);
            assert_eq!(identity.block_shift().is_ok(), is_good, "2^{shift}");
        }
        assert_eq!(Identity::parse(&namespace, &controller).bytes(), 0, "no shift overflows");
        controller[77] = 0;
        assert_eq!(Identity::parse(&namespace, &controller).command_bytes_max, None);
    }

    #[test]
    fn a_file_that_is_no_namespace_refuses_its_commands() {
        let file = File::open("/dev/null").unwrap();
        let fault = identify(&file, 1).unwrap_err();
        assert!(matches!(fault, PassthroughFault::Command { name: "Identify", .. }), "{fault:?}");
    }
}
