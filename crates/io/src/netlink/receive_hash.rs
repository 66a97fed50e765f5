//! How a device spreads the frames that it receives over its queues, by the ethtool ioctl
//! (`linux/ethtool.h`).

use std::io;

use super::ethtool::request;

const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_GRSSH: u32 = 0x46;
/// Flow types: TCP over IPv4 and IPv6.
const TCP_FLOWS: [u32; 2] = [1, 5];
/// Both addresses and both ports (RXH_IP_SRC, RXH_IP_DST, RXH_L4_B_0_1, RXH_L4_B_2_3), and nothing
/// else.
const FOUR_TUPLE: u64 = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;
/// ETH_RSS_HASH_TOP.
const TOEPLITZ: u8 = 1;
/// No device has longer keys, or more entries in its table.
const MOST: usize = 1 << 16;
const MOST_ENTRIES: usize = MOST / size_of::<u32>() / 2;

/// The hash of frames of TCP is the Toeplitz hash of the addresses and ports, source before
/// destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveHash {
    /// Its key.
    pub key: Vec<u8>,
    /// The queue for each hash, modulo the length of the table.
    pub table: Vec<u32>,
}

/// `struct ethtool_rxfh`, with room behind it.
#[repr(C)]
struct Request {
    command: u32,
    context: u32,
    entries: u32,
    key: u32,
    function: u8,
    /// How the input is changed before, since Linux 6.8.
    transform: u8,
    reserved: [u8; 6],
    /// The table, in words, and the key.
    rest: [u8; MOST],
}

/// That of `interface`. `None`: its driver does not say, or it spreads in another way.
pub fn receive_hash(interface: &str) -> Option<ReceiveHash> {
    TCP_FLOWS
        .into_iter()
        .all(|flow| is_of_all(interface, flow))
        .then_some(())?;
    let sizes = ask(interface, 0, 0).ok()?;
    let (entries, key) = (sizes.entries as usize, sizes.key as usize);
    if entries == 0 || entries > MOST_ENTRIES || key == 0 || key > MOST / 2 {
        return None;
    }
    read(&*ask(interface, sizes.entries, sizes.key).ok()?)
}

/// What was answered.
fn read(answer: &Request) -> Option<ReceiveHash> {
    let plain = answer.function == TOEPLITZ && answer.transform == 0;
    let (entries, key) = (answer.entries as usize, answer.key as usize);
    let (table, rest) = answer
        .rest
        .split_at_checked(entries.checked_mul(size_of::<u32>())?)?;
    let (words, _) = table.as_chunks();
    let hash = ReceiveHash {
        table: words.iter().map(|word| u32::from_ne_bytes(*word)).collect(),
        key: rest.get(..key)?.to_vec(),
    };
    plain.then_some(hash)
}

fn ask(interface: &str, entries: u32, key: u32) -> io::Result<Box<Request>> {
    let mut question = Box::new(Request {
        command: ETHTOOL_GRSSH,
        context: 0,
        entries,
        key,
        function: 0,
        transform: 0,
        reserved: [0; 6],
        rest: [0; MOST],
    });
    // SAFETY: ETHTOOL_GRSSH fills one `struct ethtool_rxfh`, the first 24 bytes of `Request`, and
    // behind it at most the sizes given there, for which there is room.
    unsafe { request(interface, &mut *question) }?;
    Ok(question)
}

/// Whether the hash of frames of this type is of both addresses and both ports.
fn is_of_all(interface: &str, flow: u32) -> bool {
    /// The beginning of `struct ethtool_rxnfc`.
    #[repr(C)]
    struct Fields {
        command: u32,
        flow: u32,
        data: u64,
        /// The rest, which this command leaves alone.
        rest: [u64; 32],
    }
    let mut fields = Fields {
        command: ETHTOOL_GRXFH,
        flow,
        data: 0,
        rest: [0; 32],
    };
    // SAFETY: ETHTOOL_GRXFH reads and fills the first 16 bytes of one `struct ethtool_rxnfc`, which
    // is shorter than `Fields`.
    let asked = unsafe { request(interface, &mut fields) };
    asked.is_ok() && fields.data == FOUR_TUPLE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(entries: u32, key: u32, function: u8) -> Box<Request> {
        let mut rest = [0; MOST];
        rest[..16].copy_from_slice([0u32, 1, 2, 1].map(u32::to_ne_bytes).as_flattened());
        rest[16..20].copy_from_slice(&[9, 8, 7, 6]);
        Box::new(Request {
            command: ETHTOOL_GRSSH,
            context: 0,
            entries,
            key,
            function,
            transform: 0,
            reserved: [0; 6],
            rest,
        })
    }

    #[test]
    fn table_and_key_are_behind_each_other() {
        let read = read(&answer(4, 4, TOEPLITZ)).unwrap();
        assert_eq!(read.table, [0, 1, 2, 1]);
        assert_eq!(read.key, [9, 8, 7, 6]);
    }

    #[test]
    fn other_functions_and_sizes_that_cannot_be_are_none() {
        assert_eq!(read(&answer(4, 4, 2)), None);
        assert_eq!(read(&answer(u32::MAX, 4, TOEPLITZ)), None);
        assert_eq!(read(&answer(4, u32::MAX, TOEPLITZ)), None);
        let mut symmetric = answer(4, 4, TOEPLITZ);
        symmetric.transform = 1;
        assert_eq!(read(&symmetric), None);
    }

    #[test]
    fn interfaces_that_do_not_say_have_none() {
        assert_eq!(receive_hash("lo"), None);
        assert_eq!(receive_hash("no-such-thing"), None);
    }
}
