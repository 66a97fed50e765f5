//! Doubly linked lists of small integers, linked through a column that their owner keeps: O(1) each
//! way, no allocation.

const NIL: u32 = u32::MAX;
const UNLINKED: u32 = u32::MAX - 1;

/// One element's place in a list. A column of these serves any number of lists, as long as an
/// element is on at most one of them.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    next: u32,
    prev: u32,
}

impl Link {
    /// On no list.
    pub const NEW: Self = Self {
        next: UNLINKED,
        prev: UNLINKED,
    };

    /// Whether the element is on a list.
    pub const fn is_linked(self) -> bool {
        self.next != UNLINKED
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::NEW
    }
}

/// First in, first out; members can leave from the middle. Elements are indices into the column of
/// links that every call is given: always the same one.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    /// An empty list.
    pub const fn new() -> Self {
        Self {
            head: NIL,
            tail: NIL,
            len: 0,
        }
    }

    /// Elements on the list.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether nothing is on the list.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element that [`pop_front`](Self::pop_front) would return.
    pub const fn front(&self) -> Option<u32> {
        if self.head == NIL {
            None
        } else {
            Some(self.head)
        }
    }

    /// The last element.
    pub const fn back(&self) -> Option<u32> {
        if self.tail == NIL {
            None
        } else {
            Some(self.tail)
        }
    }

    /// Whether `id` is on a list of this column: on this one, if its owner puts it on no other.
    /// From the front to the back.
    pub fn iter(&self, links: &[Link]) -> impl Iterator<Item = u32> {
        std::iter::successors(self.front(), |&id| self.next(links, id))
    }

    #[cfg(test)]
    pub fn contains(&self, links: &[Link], id: u32) -> bool {
        links.get(id as usize).is_some_and(|link| link.is_linked())
    }

    /// The element after `id`, which is on this list.
    pub fn next(&self, links: &[Link], id: u32) -> Option<u32> {
        links
            .get(id as usize)
            .map(|link| link.next)
            .filter(|&next| next < UNLINKED)
    }

    /// The element before `id`, which is on this list.
    pub fn prev(&self, links: &[Link], id: u32) -> Option<u32> {
        links
            .get(id as usize)
            .map(|link| link.prev)
            .filter(|&prev| prev < UNLINKED)
    }

    /// Appends `id`. False if it is on a list already, or has no link.
    pub fn push_back(&mut self, links: &mut [Link], id: u32) -> bool {
        match links.get_mut(id as usize) {
            Some(link) if !link.is_linked() => {
                *link = Link {
                    next: NIL,
                    prev: self.tail,
                }
            }
            _ => return false,
        }
        match links.get_mut(self.tail as usize) {
            Some(tail) => tail.next = id,
            None => self.head = id,
        }
        self.tail = id;
        self.len += 1;
        true
    }

    /// Puts `id` before all others. False if it is on a list already, or has no link.
    pub fn push_front(&mut self, links: &mut [Link], id: u32) -> bool {
        match links.get_mut(id as usize) {
            Some(link) if !link.is_linked() => {
                *link = Link {
                    next: self.head,
                    prev: NIL,
                }
            }
            _ => return false,
        }
        match links.get_mut(self.head as usize) {
            Some(head) => head.prev = id,
            None => self.tail = id,
        }
        self.head = id;
        self.len += 1;
        true
    }

    /// Takes the first element off.
    pub fn pop_front(&mut self, links: &mut [Link]) -> Option<u32> {
        let id = self.front()?;
        let link = links.get_mut(id as usize)?;
        let Link { next, .. } = std::mem::replace(link, Link::NEW);
        match links.get_mut(next as usize) {
            Some(after) => after.prev = NIL,
            None => self.tail = NIL,
        }
        self.head = next;
        self.len = self.len.saturating_sub(1);
        Some(id)
    }

    /// Takes `id` off; false if it was on no list. It must not be on another list of this column.
    pub fn remove(&mut self, links: &mut [Link], id: u32) -> bool {
        let Some(link) = links.get_mut(id as usize) else {
            return false;
        };
        if !link.is_linked() {
            return false;
        }
        let Link { next, prev } = std::mem::replace(link, Link::NEW);
        match links.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        match links.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => self.tail = prev,
        }
        self.len = self.len.saturating_sub(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Debug)]
    enum Op {
        Back(u32),
        Front(u32),
        Pop,
        Remove(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0u32..18).prop_map(Op::Back),
            (0u32..18).prop_map(Op::Front),
            Just(Op::Pop),
            (0u32..18).prop_map(Op::Remove),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_deque(ops in prop::collection::vec(op(), 0..300)) {
            let mut links = vec![Link::NEW; 16];
            let mut list = List::new();
            let mut oracle = VecDeque::new();
            for op in ops {
                match op {
                    Op::Back(id) => {
                        let fits = id < 16 && !oracle.contains(&id);
                        prop_assert_eq!(list.push_back(&mut links, id), fits);
                        if fits { oracle.push_back(id) }
                    }
                    Op::Front(id) => {
                        let fits = id < 16 && !oracle.contains(&id);
                        prop_assert_eq!(list.push_front(&mut links, id), fits);
                        if fits { oracle.push_front(id) }
                    }
                    Op::Pop => prop_assert_eq!(list.pop_front(&mut links), oracle.pop_front()),
                    Op::Remove(id) => {
                        prop_assert_eq!(list.remove(&mut links, id), oracle.contains(&id));
                        oracle.retain(|&other| other != id);
                    }
                }
                prop_assert_eq!(list.len() as usize, oracle.len());
                prop_assert_eq!(list.is_empty(), oracle.is_empty());
                let walk: Vec<u32> = std::iter::successors(list.front(), |&id| list.next(&links, id)).collect();
                prop_assert!(walk.iter().eq(oracle.iter()));
                prop_assert!((0..20).all(|id| list.contains(&links, id) == oracle.contains(&id)));
            }
        }
    }
}
