//! Frames as nearly all are, in one go: IPv4, options of the usual layouts, on a link that finishes
//! checksums. All headers lie at places that are known, so one look at the length of the frame is
//! enough. Whatever is written here, [`frame`](super::frame) writes as well.

use std::net::{IpAddr, Ipv4Addr};

use ring::stream::Pieces;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::ip::Protocol;
use wire::ipv4::Ipv4Header;
use wire::tcp::{TcpHeader, fill_partial_checksum};

use crate::ip::Net;
use crate::tcp::target::Target;

/// Bytes in front of a segment.
pub(crate) const START: usize = EthernetHeader::LEN + Ipv4Header::LEN;

/// From whom to whom.
type Ends = (Ipv4Addr, Ipv4Addr);

/// Writes a frame and says how long it is. `None`: it is not of this kind, or there is no room.
#[inline(always)]
pub(crate) fn write_usual(
    frame: &mut [u8],
    net: &Net,
    target: &Target<'_>,
    header: &TcpHeader,
    payload: Pieces<'_>,
) -> Option<usize> {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (target.path.src, target.dst) else {
        return None;
    };
    let ends = (src, dst);
    if !target.partial {
        return None;
    }
    match header.options.lone_stamps() {
        Some(options) => write(frame, net, target, ends, header, options, payload),
        None => write_syn(frame, net, target, ends, header, payload),
    }
}

/// Not part of its caller, which most of the time has something else to write.
#[inline(never)]
fn write_syn(
    frame: &mut [u8],
    net: &Net,
    target: &Target<'_>,
    ends: Ends,
    header: &TcpHeader,
    payload: Pieces<'_>,
) -> Option<usize> {
    let options = header.options.usual_syn()?;
    write(frame, net, target, ends, header, options, payload)
}

#[inline(always)]
fn write<const OPTIONS: usize>(
    frame: &mut [u8],
    net: &Net,
    target: &Target<'_>,
    (src, dst): Ends,
    header: &TcpHeader,
    options: [u8; OPTIONS],
    payload: Pieces<'_>,
) -> Option<usize> {
    let path = target.path;
    let headers_len = TcpHeader::MIN_LEN + OPTIONS;
    let (headers, body) = frame.split_at_mut_checked(START + headers_len)?;
    let (ethernet, rest) = headers.split_first_chunk_mut::<{ EthernetHeader::LEN }>()?;
    let (ip, tcp) = rest.split_first_chunk_mut::<{ Ipv4Header::LEN }>()?;
    EthernetHeader {
        dst: target.mac,
        src: net.links.addresses().link(path.port)?.mac,
        ether_type: EtherType::IPV4,
        vlan: None,
    }
    .emit(ethernet);
    let segment_len = headers_len + payload.len();
    Ipv4Header {
        ttl: path.hop_limit,
        tos: path.class & !3 | target.ecn.bits(),
        ..Ipv4Header::new(src, dst, Protocol::TCP, segment_len)
    }
    .emit(ip);
    let (fixed, rest) = tcp.split_first_chunk_mut::<{ TcpHeader::MIN_LEN }>()?;
    *fixed = header.fixed(OPTIONS);
    *rest.first_chunk_mut()? = options;
    fill_partial_checksum(src.into(), dst.into(), fixed, segment_len);
    payload.copy_to(body)?;
    Some(START + segment_len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::frame::{MacAddr, TxChecksum, TxMeta};
    use wire::ip::Ecn;
    use wire::seq::SeqNumber;
    use wire::tcp::{TcpFlags, TcpOptions, Timestamps};

    use super::*;
    use crate::id::PortId;
    use crate::ip::Path;
    use crate::ip::testing::{config, interface};
    use crate::tcp::frame::{write_any, write_frame};

    prop_compose! {
        fn options()(
            mss in any::<Option<u16>>(),
            window_scale in any::<Option<u8>>(),
            sack_permitted in any::<bool>(),
            stamps in any::<Option<(u32, u32)>>(),
            sack in any::<Option<(u32, u32)>>(),
            is_plain in any::<bool>(),
            is_syn in any::<bool>(),
        ) -> TcpOptions {
            let timestamps = stamps.map(|(tsval, tsecr)| Timestamps { tsval, tsecr });
            let mut options = TcpOptions { timestamps, ..TcpOptions::default() };
            if is_syn {
                options.mss = mss.or(Some(1460));
                options.window_scale = window_scale.or(Some(7));
                options.sack_permitted = true;
            } else if !is_plain {
                (options.mss, options.window_scale) = (mss, window_scale);
                options.sack_permitted = sack_permitted;
                if let Some((left, right)) = sack {
                    options.sack.push(SeqNumber(left), SeqNumber(right));
                }
            }
            options
        }
    }

    prop_compose! {
        fn header()(
            (src_port, dst_port, window, urgent) in any::<(u16, u16, u16, u16)>(),
            (seq, ack) in any::<(u32, u32)>(),
            flags in (0u16..512).prop_map(TcpFlags::from_bits_truncate),
            options in options(),
        ) -> TcpHeader {
            let (seq, ack) = (SeqNumber(seq), SeqNumber(ack));
            TcpHeader { src_port, dst_port, seq, ack, flags, window, urgent, options }
        }
    }

    proptest! {
        /// In frames of any length, too.
        #[test]
        fn what_is_written_in_one_go_is_what_is_written_step_by_step(
            header in header(),
            (src, dst, mac) in any::<([u8; 4], [u8; 4], [u8; 6])>(),
            (class, hop_limit, ecn, partial) in any::<(u8, u8, u8, bool)>(),
            (first, second) in any::<(Vec<u8>, Vec<u8>)>(),
            room in 0usize..400,
        ) {
            let net = Net::new(&config(vec![interface(0, &["10.0.0.1/24"])])).unwrap();
            let path = Path { port: PortId(0), src: src.into(), class, hop_limit, ..Path::NOWHERE };
            let (dst, ecn) = (dst.into(), Ecn::from_tos(ecn));
            let target = Target { path: &path, mac: MacAddr(mac), dst, ecn, partial };
            let payload = Pieces::of(&first, &second);
            let (mut ours, mut known) = (vec![0xee; room], vec![0xee; room]);
            let meta = write_frame(&mut ours, &net, &target, &header, payload);
            prop_assert_eq!(meta, write_any(&mut known, &net, &target, &header, payload));
            prop_assert_eq!(&ours[..meta.len], &known[..meta.len]);
            prop_assert!(ours[meta.len..].iter().all(|&byte| byte == 0xee) || meta.len == 0);
        }
    }

    #[test]
    fn other_frames_are_left_to_others() {
        let net = Net::new(&config(vec![interface(0, &["10.0.0.1/24"])])).unwrap();
        let path = Path {
            src: [10, 0, 0, 1].into(),
            ..Path::NOWHERE
        };
        let target = Target {
            path: &path,
            mac: MacAddr::default(),
            dst: [10, 0, 0, 2].into(),
            ecn: Ecn::NotEct,
            partial: true,
        };
        let mut header = TcpHeader::default();
        let write = |header: &TcpHeader, target: &Target<'_>| {
            let payload = Pieces::of(b"ab", b"c");
            write_usual(&mut [0; 1500], &net, target, header, payload)
        };
        assert_eq!(write(&header, &target), None);
        header.options.timestamps = Some(Timestamps::default());
        assert_eq!(write(&header, &target), Some(69));
        assert_eq!(
            write(
                &header,
                &Target {
                    partial: false,
                    ..target
                }
            ),
            None
        );
        let v6 = Target {
            dst: "2001:db8::1".parse().unwrap(),
            ..target
        };
        assert_eq!(write(&header, &v6), None);
        header.options.mss = Some(1460);
        assert_eq!(write(&header, &target), None);
        header.options.window_scale = Some(7);
        header.options.sack_permitted = true;
        assert_eq!(write(&header, &target), Some(77));
        let partial = TxChecksum::Partial {
            start: 34,
            offset: 16,
        };
        let expected = TxMeta {
            len: 77,
            checksum: partial,
            segment: 0,
        };
        let payload = Pieces::of(b"abc", &[]);
        assert_eq!(
            write_frame(&mut [0; 1500], &net, &target, &header, payload),
            expected
        );
    }
}
