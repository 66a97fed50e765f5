//! The connections of a capture.

use std::collections::HashMap;
use std::net::SocketAddr;

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;

use super::conversation::{Conversation, Shared, begins_a_request};
use super::segment::Segment;
use super::stream::{Piece, Stream};

/// A connection: its client, its server.
type Key = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct Flow {
    /// What the client says, and what the server says.
    requests: Stream,
    responses: Stream,
    conversation: Conversation,
    /// When its last segment was captured.
    last_us: u64,
    has_data: bool,
    /// Whether the client, and whether the server, sent a FIN.
    fins: [bool; 2],
}

/// Connections that have not ended.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: HashMap<Key, Flow>,
    numbers: u64,
}

impl Flows {
    /// Takes a segment.
    pub(super) fn segment(&mut self, segment: &Segment<'_>, time_us: u64, shared: &mut Shared) {
        let syn = segment.flags.contains(TcpFlags::SYN);
        let Some((key, from_client)) = self.key(segment, syn, time_us, shared) else {
            return;
        };
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        flow.last_us = time_us;
        if !segment.payload.is_empty() && !std::mem::replace(&mut flow.has_data, true) {
            shared.report.connections += 1;
        }
        let has_ended = flow.take(segment, from_client, shared);
        let is_over = segment.flags.contains(TcpFlags::RST) || has_ended;
        if is_over && let Some(flow) = self.flows.remove(&key) {
            flow.finish(shared);
        }
    }

    /// The connection of a segment, and whether its client sent it. A new one begins with a SYN, or
    /// with a request where the capture has no SYN.
    fn key(
        &mut self,
        segment: &Segment<'_>,
        syn: bool,
        time_us: u64,
        shared: &mut Shared,
    ) -> Option<(Key, bool)> {
        let (sent, received) = ((segment.from, segment.to), (segment.to, segment.from));
        let opens = syn && segment.ack.is_none();
        if opens {
            // The endpoints of an old one, used again; a SYN that is sent again changes nothing.
            let old = self.flows.get(&sent).is_some_and(|flow| flow.has_data);
            if old && let Some(flow) = self.flows.remove(&sent) {
                flow.finish(shared);
            }
        }
        if self.flows.contains_key(&sent) {
            return Some((sent, true));
        }
        if self.flows.contains_key(&received) {
            return Some((received, false));
        }
        if !opens && !begins_a_request(segment.payload) {
            shared.report.beginless += u64::from(!segment.payload.is_empty());
            return None;
        }
        self.numbers += 1;
        let conversation = Conversation::new(self.numbers, segment.from.ip());
        let flow = Flow {
            requests: Stream::default(),
            responses: Stream::default(),
            conversation,
            last_us: time_us,
            has_data: false,
            fins: [false; 2],
        };
        self.flows.insert(sent, flow);
        Some((sent, true))
    }

    /// The capture ends.
    pub(super) fn finish(&mut self, shared: &mut Shared) {
        let mut flows: Vec<Flow> = self.flows.drain().map(|(_, flow)| flow).collect();
        flows.sort_by_key(|flow| flow.last_us);
        for flow in flows {
            flow.finish(shared);
        }
    }
}

impl Flow {
    /// Takes a segment; whether the connection has ended.
    fn take(&mut self, segment: &Segment<'_>, from_client: bool, shared: &mut Shared) -> bool {
        let syn = segment.flags.contains(TcpFlags::SYN);
        let fin = segment.flags.contains(TcpFlags::FIN);
        self.fins[usize::from(!from_client)] |= fin;
        if self.conversation.is_over() {
            // What waits for more has nobody to go to.
            (self.requests, self.responses) = Default::default();
            return self.fins == [true; 2];
        }
        let first = if syn { segment.seq + 1 } else { segment.seq };
        let (own, other) = if from_client {
            (&mut self.requests, &mut self.responses)
        } else {
            (&mut self.responses, &mut self.requests)
        };
        if !own.has_begun() {
            own.begin(first);
        }
        if let Some(ack) = segment.ack {
            if !other.has_begun() {
                other.begin(ack);
            }
            other.acknowledge(ack);
        }
        self.data(first, segment, fin, from_client, shared);
        self.requests.has_ended() && self.responses.has_ended()
    }

    fn data(
        &mut self,
        first: SeqNumber,
        segment: &Segment<'_>,
        fin: bool,
        from_client: bool,
        shared: &mut Shared,
    ) {
        let (conversation, time_us) = (&mut self.conversation, self.last_us);
        let mut asked = |piece: Piece<'_>, shared: &mut Shared| match piece {
            Piece::Bytes(bytes) => conversation.request(bytes, time_us, shared),
            Piece::Lost(lost) => conversation.request_lost(lost, shared),
        };
        if from_client {
            let sink = &mut |piece: Piece<'_>| asked(piece, shared);
            self.requests.segment(first, segment.payload, fin, sink);
        }
        self.requests.turn(&mut |piece| asked(piece, shared));
        let mut answered = |piece: Piece<'_>, shared: &mut Shared| match piece {
            Piece::Bytes(bytes) => conversation.response(bytes, time_us, shared),
            Piece::Lost(lost) => conversation.response_lost(lost, time_us, shared),
        };
        if !from_client {
            let sink = &mut |piece: Piece<'_>| answered(piece, shared);
            self.responses.segment(first, segment.payload, fin, sink);
        }
        self.responses.turn(&mut |piece| answered(piece, shared));
    }

    fn finish(mut self, shared: &mut Shared) {
        let (conversation, time_us) = (&mut self.conversation, self.last_us);
        self.requests.finish(&mut |piece| match piece {
            Piece::Bytes(bytes) => conversation.request(bytes, time_us, shared),
            Piece::Lost(lost) => conversation.request_lost(lost, shared),
        });
        self.responses.finish(&mut |piece| match piece {
            Piece::Bytes(bytes) => conversation.response(bytes, time_us, shared),
            Piece::Lost(lost) => conversation.response_lost(lost, time_us, shared),
        });
        conversation.end(time_us, shared);
    }
}
