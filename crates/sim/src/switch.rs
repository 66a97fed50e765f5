//! A learning switch: frames go where their destination was last seen, or everywhere else.

use std::collections::BTreeMap;

use wire::ethernet::EthernetHeader;
use wire::frame::MacAddr;

/// Addresses that a switch remembers.
const MAX_LEARNT: usize = 1024;

/// See the module. A port is named by the index of the pipe that leads out of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switch {
    ports: Vec<usize>,
    learnt: BTreeMap<MacAddr, usize>,
}

impl Switch {
    pub fn add_port(&mut self, out: usize) {
        self.ports.push(out);
    }

    /// The pipes that a frame leaves by, which came in at the port whose way out is `from`.
    pub fn forward(&mut self, from: usize, frame: &[u8]) -> Vec<usize> {
        let Ok((header, _)) = EthernetHeader::parse(frame) else {
            return Vec::new();
        };
        let known = self.learnt.contains_key(&header.src) || self.learnt.len() < MAX_LEARNT;
        if known && !header.src.is_multicast() {
            self.learnt.insert(header.src, from);
        }
        match self.learnt.get(&header.dst) {
            Some(&out) if out == from => Vec::new(),
            Some(&out) => vec![out],
            None => self
                .ports
                .iter()
                .copied()
                .filter(|out| *out != from)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::ethernet;
    use wire::ethernet::EtherType;

    #[test]
    fn it_floods_then_learns() {
        let mut switch = Switch::default();
        for port in [3, 5, 7] {
            switch.add_port(port);
        }
        let mac = |n| MacAddr([2, 0, 0, 0, 0, n]);
        let frame = |from, to| ethernet(from, to, EtherType::IPV4);
        assert_eq!(switch.forward(3, &frame(mac(1), mac(2))), [5, 7]);
        assert_eq!(switch.forward(5, &frame(mac(2), mac(1))), [3]);
        assert_eq!(switch.forward(3, &frame(mac(1), mac(2))), [5]);
        assert_eq!(
            switch.forward(3, &frame(mac(1), MacAddr::BROADCAST)),
            [5, 7]
        );
        assert!(switch.forward(3, &[0; 5]).is_empty());
    }
}
