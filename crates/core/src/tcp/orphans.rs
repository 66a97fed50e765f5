//! Connections whose process is gone, and with it their application: as after CLOSE, what was
//! written is sent, and sent again until it is acknowledged, and then the FIN (RFC 9293 §3.10.4).
//! What was known of the path is not: congestion control begins anew.

use wire::time::Instant;

use crate::AppStreams;
use crate::command::Options;
use crate::estate::Orphan;
use crate::flow::{self, FlowHash, FlowKey, FlowTable};
use crate::id::Token;
use crate::info::State;
use crate::tcp::buffers::limits;
use crate::tcp::conn::Conn;
use crate::tcp::conns::Conns;
use crate::tcp::establish::establish;
use crate::tcp::flags::Flags;
use crate::tcp::open::{self, Opening, synchronize};
use crate::tcp::setup::isn::Start;
use crate::tcp::shared::Shared;

/// What taking up a connection needs, borrowed for one step.
#[derive(Debug)]
pub(crate) struct Adoption<'a> {
    pub conns: &'a mut Conns,
    pub flows: &'a mut FlowTable,
    pub sh: &'a mut Shared,
}

impl Adoption<'_> {
    /// Goes on with a connection that nothing here has the endpoints of: in which slot. `None`: it
    /// cannot be done, and nothing is.
    pub fn adopt(
        &mut self,
        now: Instant,
        key: FlowKey,
        orphan: &Orphan,
        app: &mut AppStreams,
    ) -> Option<u32> {
        let hash = self.flows.digest(&key).hash;
        if !self.sh.net.is_local(key.local().ip()) {
            return None;
        }
        let slot = self.conns.slots.alloc()?;
        if !self.flows.enter(&key) {
            self.conns.free(slot);
            return None;
        }
        if !self.write_again(slot, orphan, app) || !self.place_orphan(now, slot, key, hash, orphan)
        {
            self.flows.leave(&key);
            self.sh.streams.close(slot);
            self.conns.free(slot);
            return None;
        }
        self.flows.insert(hash, flow::id(flow::CONNECTION, slot));
        if let Some(mut conn) = self.conns.view(slot, self.sh) {
            go_on(&mut conn, now, orphan);
        }
        self.sh.counters.orphans_adopted += 1;
        Some(slot)
    }

    /// What an application would do that writes all of it at once, and closes.
    fn write_again(&mut self, slot: u32, orphan: &Orphan, app: &mut AppStreams) -> bool {
        let len = u32::try_from(orphan.bytes.len()).unwrap_or(u32::MAX);
        let mut limits = limits(&self.sh.config, &Options::default());
        limits.send = limits.send.max(len);
        if self.sh.streams.open(slot, limits).is_err() {
            return false;
        }
        let written = app.write(slot, &orphan.bytes);
        app.release(slot);
        written == orphan.bytes.len()
    }

    fn place_orphan(
        &mut self,
        now: Instant,
        slot: u32,
        key: FlowKey,
        hash: FlowHash,
        orphan: &Orphan,
    ) -> bool {
        let Ok(&path) = self.sh.net.way_back(&key) else {
            return false;
        };
        let options = Options::default();
        let opening = Opening {
            key: &key,
            path: &path,
            options: self.sh.options.take(&options),
            start: Start {
                iss: orphan.snd_una - 1,
                ts_offset: orphan.ts_offset,
            },
            token: Token::NONE,
        };
        let config = &self.sh.config;
        let queues = &mut self.sh.queues;
        let Some((hot, cold)) = self.conns.place(slot, &key, hash, queues) else {
            self.sh.options.release(opening.options);
            return false;
        };
        *hot = open::hot(config, self.sh.loss.rto_bounds, &opening, &options, now);
        open::renew(
            cold,
            config,
            &opening,
            &options,
            now,
            &mut self.sh.loss.models,
        );
        let (irs, agreed) = (orphan.rcv_nxt - 1, &orphan.agreed);
        synchronize(config, hot, cold, &options, irs, agreed, key.is_ipv4());
        true
    }
}

fn go_on(conn: &mut Conn<'_>, now: Instant, orphan: &Orphan) {
    let hot = &mut *conn.hot;
    hot.snd.una = orphan.snd_una;
    hot.snd.nxt = orphan.snd_nxt;
    hot.snd.wnd = orphan.snd_wnd;
    hot.snd.max_wnd = orphan.max_snd_wnd;
    // Any segment that follows is newer.
    hot.snd.wl1 = orphan.rcv_nxt - 1;
    hot.snd.wl2 = orphan.snd_una;
    hot.rcv.adv = orphan.rcv_adv;
    hot.rcv.last_ack_sent = orphan.last_ack_sent;
    hot.ts_recent = orphan.ts_recent;
    let fin_acked = u32::from(orphan.state == State::FinWait2);
    hot.snd.fin_seq = orphan.snd_una + orphan.bytes.len() as u32 - fin_acked;
    hot.insert(Flags::APP_CLOSED | Flags::FIN_QUEUED);
    conn.cold.loss.recover = orphan.snd_una;
    establish(conn, now);
    conn.hot.state = orphan.state;
    if orphan.state == State::FinWait2 {
        conn.start_fin_wait_2(now);
    } else if conn.hot.flight() > 0 {
        conn.cold.loss.flight_at = now.as_micros() as u32;
        conn.start_rtx_timer(now);
    }
    // It may be owed, for what this stack cannot know.
    conn.mark_ack();
    let len = orphan.bytes.len() as u32;
    if conn.hot.flight() > 0 || conn.hot.snd.wnd < len {
        // What the peer has said since, of what it has and has room for, nobody has heard: this
        // has it say it again.
        conn.set(Flags::KEEPALIVE_DUE);
    }
}
