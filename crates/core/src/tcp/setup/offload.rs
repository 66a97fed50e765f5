//! SYNs that the link answers where they arrive ([`wire::syn_offload`]): what it is told, and what
//! is done with a SYN that it has answered.

use std::net::SocketAddr;

use wire::syn_offload::SynOffload;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::flow::Digest;
use crate::ip::Path;
use crate::tcp::segment::Segment;
use crate::tcp::setup::half_open::HalfOpen;
use crate::tcp::setup::part::SetupPart;
use crate::tcp::setup::syn_offload::Answers;

impl SetupPart<'_> {
    /// From now on `link` answers SYNs. False, and it does not: this stack cannot have that.
    pub fn offload_syns(&mut self, mut link: Box<dyn SynOffload>) -> bool {
        let config = &self.sh.config;
        let Some(answers) = Answers::new(config).filter(|_| self.flows.count() == 0) else {
            return false;
        };
        link.start(&answers.rules(config, self.flows.key_state()));
        self.flows.watch(link);
        self.state.answers = Some(answers);
        true
    }

    /// A SYN for a listener that the link has answered. Its ACK may be the next segment: there has
    /// to be a record of it, even where the backlog has no room now.
    pub fn open_answered(
        &mut self,
        now: Instant,
        listener: u32,
        seg: &Segment<'_>,
    ) -> Result<(), DropReason> {
        let answers = self.state.answers.as_ref().ok_or(DropReason::TcpState)?;
        let (hash, origin) = (seg.hash, seg.origin);
        let iss = answers.iss(Digest { hash, origin }, seg.seq);
        let path = self.sh.net.way_back(seg.key);
        let &Path { port, .. } = path.map_err(|_| DropReason::ReplyNoRoute)?;
        let record = self.half_open_record(listener, seg, iss, port);
        self.remember(now, &record, seg.hash)?;
        self.sh.counters.syns_answered_by_link += 1;
        Ok(())
    }

    /// Whether it was the link that sent the first SYN-ACK.
    #[inline]
    pub fn was_answered_by_link(&self, record: &HalfOpen) -> bool {
        let iss = |answers: &Answers| answers.iss(self.flows.digest(&record.key), record.irs);
        self.state.answers.as_ref().map(iss) == Some(record.iss)
    }

    /// Tells the link whether to answer SYNs to where this one went, as long as there is much room
    /// for those that it answers before we hear of it.
    pub fn offer(&mut self, listener: u32, syn: &Segment<'_>) {
        let (Some(answers), Some(entry)) = (&self.state.answers, self.state.listeners.at(listener))
        else {
            return;
        };
        let slots = &self.state.half_open.slots;
        let has_room = entry.is_half_empty() && slots.len() < slots.capacity() / 2;
        // The link does not know for which of several a SYN is.
        let answered = has_room
            && self.state.listeners.is_alone(listener)
            && answers.suits(&self.sh.config, entry);
        if let (Some(link), SocketAddr::V4(local)) = (self.flows.watcher(), syn.key.local()) {
            link.offer(local, answered);
        }
    }

    /// Tells the link to leave SYNs to us that are for the port of a listener which is about to
    /// change or to go.
    pub fn withdraw(&mut self, listener: u32) {
        if let (Some(link), Some(entry)) = (self.flows.watcher(), self.state.listeners.at(listener))
        {
            link.withdraw(entry.local.port());
        }
    }
}
