//! The nodes of all sets, and balanced search trees of them (treaps): a node has a random priority,
//! and none above it has a smaller one.
//!
//! What a tree looks like depends on the priorities only, and nobody outside knows them: whatever
//! ranges a peer picks, and in whichever order, the depth stays near the logarithm of their number.

use std::io;

use wire::seq::SeqNumber;

use super::range::Range;

/// No node.
pub(super) const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    range: Range,
    /// In the ranges of this node and of those below.
    bytes: u32,
    priority: u32,
    /// The next free one, if this is free.
    left: u32,
    right: u32,
}

/// See the module. Trees are named by their root.
#[derive(Debug)]
pub(super) struct Trees {
    nodes: Vec<Node>,
    free: u32,
    /// Where priorities come from; not 0.
    random: u64,
}

impl Trees {
    /// Address space for `max` nodes is reserved; memory is touched as they are used.
    pub fn new(max: usize, seed: u64) -> io::Result<Self> {
        let mut nodes = Vec::new();
        nodes.try_reserve_exact(max)?;
        Ok(Self {
            nodes,
            free: NIL,
            random: seed | 1,
        })
    }

    /// A tree of one node. The caller counts them.
    pub fn plant(&mut self, range: Range) -> u32 {
        let node = Node {
            range,
            bytes: range.len(),
            priority: self.draw(),
            left: NIL,
            right: NIL,
        };
        if self.free == NIL {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        }
        let at = self.free;
        self.free = self.node(at).left;
        self.nodes[at as usize] = node;
        at
    }

    /// Xorshift.
    fn draw(&mut self) -> u32 {
        let mut x = self.random;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random = x;
        (x >> 32) as u32
    }

    /// Gives all nodes of a tree back. How many they were.
    pub fn fell(&mut self, root: u32) -> u32 {
        if root == NIL {
            return 0;
        }
        let Node { left, right, .. } = *self.node(root);
        let below = self.fell(left) + self.fell(right);
        self.nodes[root as usize].left = self.free;
        self.free = root;
        below + 1
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    /// Bytes in a tree.
    pub fn bytes(&self, root: u32) -> u32 {
        if root == NIL {
            0
        } else {
            self.node(root).bytes
        }
    }

    /// Adds up again what is below `at`.
    fn update(&mut self, at: u32) {
        let Node {
            range, left, right, ..
        } = *self.node(at);
        self.nodes[at as usize].bytes = range.len() + self.bytes(left) + self.bytes(right);
    }

    /// Parts a tree: the first ranges, those for which `first` says so, and the rest.
    pub fn split(&mut self, root: u32, first: impl Fn(Range) -> bool + Copy) -> (u32, u32) {
        if root == NIL {
            return (NIL, NIL);
        }
        let Node {
            range, left, right, ..
        } = *self.node(root);
        if first(range) {
            let (near, far) = self.split(right, first);
            self.nodes[root as usize].right = near;
            self.update(root);
            (root, far)
        } else {
            let (near, far) = self.split(left, first);
            self.nodes[root as usize].left = far;
            self.update(root);
            (near, root)
        }
    }

    /// Makes one of two trees; all of `a` lies before all of `b`.
    pub fn merge(&mut self, a: u32, b: u32) -> u32 {
        if a == NIL || b == NIL {
            return a.min(b);
        }
        if self.node(a).priority > self.node(b).priority {
            let right = self.merge(self.node(a).right, b);
            self.nodes[a as usize].right = right;
            self.update(a);
            a
        } else {
            let left = self.merge(a, self.node(b).left);
            self.nodes[b as usize].left = left;
            self.update(b);
            b
        }
    }

    /// The first range of which `before` is not true; it is of those before it.
    pub fn find(&self, root: u32, before: impl Fn(Range) -> bool) -> Option<Range> {
        let (mut at, mut found) = (root, None);
        while at != NIL {
            let node = self.node(at);
            if before(node.range) {
                at = node.right;
            } else {
                found = Some(node.range);
                at = node.left;
            }
        }
        found
    }

    /// The last range of a tree.
    pub fn last(&self, root: u32) -> Option<Range> {
        let (mut at, mut found) = (root, None);
        while at != NIL {
            let node = self.node(at);
            found = Some(node.range);
            at = node.right;
        }
        found
    }

    /// Bytes of a tree that lie before `seq`.
    pub fn bytes_before(&self, root: u32, seq: SeqNumber) -> u32 {
        let (mut at, mut bytes) = (root, 0);
        while at != NIL {
            let Node {
                range, left, right, ..
            } = *self.node(at);
            if range.start >= seq {
                at = left;
            } else {
                bytes += self.bytes(left) + (range.end.min(seq) - range.start);
                at = if range.end < seq { right } else { NIL };
            }
        }
        bytes
    }
}
