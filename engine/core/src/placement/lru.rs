//! An intrusive doubly linked list over slab indices: every step O(1), no memory of its own.

/// "No neighbour".
const NIL: u32 = u32::MAX;
/// In `prev` of a node that is on no list.
const DETACHED: u32 = u32::MAX - 1;
/// Slab indices must stay below this.
pub(super) const INDEX_LIMIT: u32 = DETACHED;

/// The neighbours of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    prev: u32,
    next: u32,
}

impl Neighbours {
    /// Creates the links of a node that is on no list.
    pub(super) const fn detached() -> Self {
        Neighbours { prev: DETACHED, next: NIL }
    }

    /// Whether the node is on a list.
    pub(super) const fn attached(self) -> bool {
        self.prev != DETACHED
    }
}

/// A node that can be on one list at a time.
pub(super) trait Linked {
    fn links(&mut self) -> &mut Neighbours;
}

impl Linked for Neighbours {
    fn links(&mut self) -> &mut Neighbours {
        self
    }
}

/// A list from the oldest node to the newest.
#[derive(Clone, Copy, Debug)]
pub(super) struct LruList {
    oldest: u32,
    newest: u32,
    count: u32,
}

impl LruList {
    pub(super) const fn new() -> Self {
        LruList { oldest: NIL, newest: NIL, count: 0 }
    }

    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    /// Adds node `id` as the newest. It must be on no list.
    pub(super) fn push_newest<T: Linked>(&mut self, nodes: &mut [T], id: u32) {
        let prev = self.newest;
        let links = nodes[id as usize].links();
        assert!(!links.attached(), "node {id} is on a list already");
        *links = Neighbours { prev, next: NIL };
        match prev {
            NIL => self.oldest = id,
            prev => nodes[prev as usize].links().next = id,
        }
        self.newest = id;
        self.count += 1;
    }

    /// Takes node `id` off this list. It must be on it.
    pub(super) fn remove<T: Linked>(&mut self, nodes: &mut [T], id: u32) {
        let links = std::mem::replace(nodes[id as usize].links(), Neighbours::detached());
        assert!(links.attached(), "node {id} is on no list");
        match links.prev {
            NIL => self.oldest = links.next,
            prev => nodes[prev as usize].links().next = links.next,
        }
        match links.next {
            NIL => self.newest = links.prev,
            next => nodes[next as usize].links().prev = links.prev,
        }
        self.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn it_equals_a_deque_under_random_operations() {
        let mut nodes = vec![Neighbours::detached(); 32];
        let mut list = LruList::new();
        let mut model: VecDeque<u32> = VecDeque::new();
        let mut state = 7u64;
        for _ in 0..20_000 {
            state = crate::key::mix64(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let id = (state % 32) as u32;
            if nodes[id as usize].attached() {
                list.remove(&mut nodes, id);
                model.retain(|&n| n != id);
            } else {
                list.push_newest(&mut nodes, id);
                model.push_back(id);
            }
            assert_eq!(list.oldest(), model.front().copied());
            assert_eq!(list.count() as usize, model.len());
        }
        while let Some(id) = list.oldest() {
            assert_eq!(Some(id), model.pop_front());
            list.remove(&mut nodes, id);
        }
        assert!(model.is_empty());
    }
}
