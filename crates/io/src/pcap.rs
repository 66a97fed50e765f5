//! Captures: every frame that passes a port goes into a pcapng file as well
//! (draft-ietf-opsawg-pcapng), which Wireshark and tcpdump open. Frames are written as they would
//! be on a wire: checksums that the link does not need are finished in the copy.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::Block;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};
use wire::frame::{Capabilities, FrameSink, MacAddr, RxChecksum, RxFrame, TxMeta};
use wire::time::Instant;

use crate::port::leave_to_inner;
use crate::{Port, checksum, context};

/// Bytes between the file and us.
const BUFFER: usize = 256 * 1024;
/// `if_tsresol`: timestamps count 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Longest frame a port lends.
const SNAPLEN: u32 = 262_144;
/// Direction bits of `epb_flags`.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A capture file, which the ports of several threads may share: each is an interface of its own in
/// it.
#[derive(Clone, Debug)]
pub struct PcapFile {
    shared: Arc<Mutex<Capture>>,
}

impl PcapFile {
    /// Creates the file for this user alone, or empties it. Links are not followed: where others
    /// may make them, the capture would be written over a file of their choice.
    ///
    /// # Errors
    /// The file cannot be created or written, or its name is that of a link.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let explain = |error| context::error(format_args!("capture {}", path.display()), error);
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(explain)?;
        let section = SectionHeaderBlock {
            endianness: Endianness::native(),
            options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed("mTCP"))],
            ..SectionHeaderBlock::default()
        };
        let buffer = BufWriter::with_capacity(BUFFER, file);
        let writer = PcapNgWriter::with_section_header(buffer, section)
            .map_err(|error| explain(into_io(error)))?;
        let capture = Capture {
            path: path.to_owned(),
            writer: Some(writer),
            interfaces: 0,
            block: Block::EnhancedPacket(EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::ZERO,
                original_len: 0,
                data: Cow::Owned(Vec::new()),
                options: vec![EnhancedPacketOption::Flags(0)],
            }),
        };
        Ok(Self {
            shared: Arc::new(Mutex::new(capture)),
        })
    }

    /// Whether frames are still being written: true until the first write error.
    pub fn is_running(&self) -> bool {
        self.lock().writer.is_some()
    }

    /// A panic elsewhere leaves a capture that can go on, or that has stopped.
    fn lock(&self) -> MutexGuard<'_, Capture> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Capture {
    path: PathBuf,
    /// Gone after the first error.
    writer: Option<PcapNgWriter<BufWriter<File>>>,
    interfaces: u32,
    /// The packet being written, kept so that its memory is.
    block: Block<'static>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("path", &self.path)
            .field("running", &self.writer.is_some())
            .field("interfaces", &self.interfaces)
            .finish_non_exhaustive()
    }
}

impl Capture {
    fn add_interface(&mut self, name: &str, mac: MacAddr) -> u32 {
        let options = vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(name.to_owned())),
            InterfaceDescriptionOption::IfMacAddr(Cow::Owned(mac.0.to_vec())),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: SNAPLEN,
            options,
        };
        if let Some(writer) = &mut self.writer {
            let result = writer.write_pcapng_block(block).map(drop);
            self.check(result.map_err(into_io));
        }
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Writes one frame, which `finish` first makes what a wire would carry.
    fn write(&mut self, stamp: Stamp, bytes: &[u8], finish: impl FnOnce(&mut [u8])) {
        let (Some(writer), Block::EnhancedPacket(packet)) = (&mut self.writer, &mut self.block)
        else {
            return;
        };
        packet.interface_id = stamp.interface;
        packet.timestamp = stamp.time;
        packet.original_len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let data = packet.data.to_mut();
        data.clear();
        data.extend_from_slice(bytes);
        finish(data);
        packet.options.clear();
        packet
            .options
            .push(EnhancedPacketOption::Flags(stamp.direction));
        let result = writer.write_block(&self.block).map(drop);
        self.check(result.map_err(into_io));
    }

    fn flush(&mut self) {
        if let Some(writer) = &mut self.writer {
            let result = writer.get_mut().flush();
            self.check(result);
        }
    }

    /// The first error ends the capture: a file with holes misleads, and traffic matters more.
    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            log::error!("capture {}: stopped: {error}", self.path.display());
            if let Some(writer) = self.writer.take() {
                // Dropping the buffer would try to write it once more.
                let _ = writer.into_inner().into_parts();
            }
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.flush();
    }
}

fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

/// What is written about a frame beside its bytes.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    interface: u32,
    /// Since 1970.
    time: Duration,
    direction: u32,
}

/// A port whose frames are captured. The file is written when the port waits, and when it goes
/// away; a write error ends the capture, is logged once, and leaves the traffic alone.
#[derive(Debug)]
pub struct Pcap<P> {
    inner: P,
    file: PcapFile,
    interface: u32,
    now: Instant,
    /// The time of day at the origin of the port's clock, since 1970; from the first turn on.
    origin: Option<Duration>,
    dirty: bool,
}

impl<P: Port> Pcap<P> {
    /// Captures what passes `inner` into `file`, as an interface called `name`.
    pub fn new(inner: P, file: &PcapFile, name: &str) -> Self {
        let interface = file.lock().add_interface(name, inner.mac());
        Self {
            inner,
            file: file.clone(),
            interface,
            now: Instant::ZERO,
            origin: None,
            dirty: false,
        }
    }

    /// The captured port.
    pub const fn inner(&self) -> &P {
        &self.inner
    }

    fn stamp(&self, direction: u32) -> Stamp {
        Stamp {
            interface: self.interface,
            time: self.origin.unwrap_or_default() + self.now.since(Instant::ZERO),
            direction,
        }
    }
}

impl<P> Pcap<P> {
    fn write_out(&mut self) {
        if std::mem::take(&mut self.dirty) {
            self.file.lock().flush();
        }
    }
}

impl<P> Drop for Pcap<P> {
    fn drop(&mut self) {
        self.write_out();
    }
}

/// Does what `fill` does, and captures what came of it.
fn captured(
    file: &PcapFile,
    stamp: Stamp,
    dirty: &mut bool,
    fill: impl FnOnce(&mut [u8]) -> TxMeta,
) -> impl FnOnce(&mut [u8]) -> TxMeta {
    move |frame| {
        let meta = fill(frame);
        if let Some(bytes) = frame.get(..meta.len)
            && !bytes.is_empty()
        {
            let finish = |copy: &mut [u8]| checksum::finish(copy, meta.checksum);
            file.lock().write(stamp, bytes, finish);
            *dirty = true;
        }
        meta
    }
}

impl<P: Port> FrameSink for Pcap<P> {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let stamp = self.stamp(OUTBOUND);
        let (file, dirty) = (&self.file, &mut self.dirty);
        self.inner.send(captured(file, stamp, dirty, fill))
    }

    fn send_gso(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let stamp = self.stamp(OUTBOUND);
        let (file, dirty) = (&self.file, &mut self.dirty);
        let fill = captured(file, stamp, dirty, fill);
        self.inner.send_gso(len, fill)
    }
}

impl<P: Port> Port for Pcap<P> {
    leave_to_inner!();

    fn begin(&mut self, now: Instant) {
        self.now = now;
        if self.origin.is_none() {
            let day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let origin = day.unwrap_or_default();
            self.origin = Some(origin.saturating_sub(now.since(Instant::ZERO)));
        }
        self.inner.begin(now);
    }

    // Not inlined: what it lies on would else be taken by the receiving of every other kind of
    // port, too.
    #[inline(never)]
    fn receive(&mut self, each: impl FnOnce(&[RxFrame<'_>])) -> usize {
        let stamp = self.stamp(INBOUND);
        let (file, dirty) = (&self.file, &mut self.dirty);
        self.inner.receive(|frames| {
            let mut capture = file.lock();
            for frame in frames {
                capture.write(stamp, frame.bytes, |copy| {
                    if frame.meta.checksum == RxChecksum::Trusted {
                        checksum::complete(copy);
                    }
                });
            }
            drop(capture);
            *dirty = true;
            each(frames);
        })
    }

    fn is_ready(&mut self) -> bool {
        self.inner.is_ready()
    }

    fn wake_peer(&mut self) {
        self.inner.wake_peer();
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn wait(&mut self, timeout: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.write_out();
        self.inner.wait(timeout, wake)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner.next_deadline()
    }

    fn prepare_wait(&mut self, fds: &mut Vec<RawFd>) -> io::Result<Option<Duration>> {
        self.write_out();
        self.inner.prepare_wait(fds)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn losses(&self) -> (u64, u64) {
        self.inner.losses()
    }
}
