//! Timers: who waits until a node's monotonic clock shows a time.
//!
//! The heap of what is due knows the world's time alone, so a timer's entry there is a
//! foretelling: right until the node's clock changes its rate, stands still, or goes on. Then
//! every timer of the node gets a new entry, or none while its clock stands, and the old entry
//! means nothing any more.

use std::task::Waker;

use crate::Millis;
use crate::world::{Due, DueWhat, World};

/// All timers of a world.
#[derive(Default)]
pub(crate) struct Timers {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

struct Slot {
    waker: Option<Waker>,
    node: usize,
    until: Millis,
    /// Its first entry's place in the order of all.
    set: u64,
    /// Its present entry's place; none while the clock stands.
    entry: Option<u64>,
}

impl Timers {
    /// Whom to wake when a timer's time has come.
    pub(crate) fn wait(&mut self, slot: usize, waker: &Waker) {
        match &mut self.slots[slot].waker {
            Some(old) => old.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
    }

    /// Nobody waits for a timer any more whose time has not come.
    pub(crate) fn give_up(&mut self, slot: usize) {
        self.slots[slot].waker = None;
        if self.slots[slot].entry.is_none() {
            self.free.push(slot);
        }
    }

    /// Whether something that is due is more than the entry of a timer that nobody waits for.
    pub(crate) fn matters(&self, due: &Due) -> bool {
        let DueWhat::Timer(slot) = due.what else {
            return true;
        };
        let slot = &self.slots[slot];
        slot.entry == Some(due.order) && slot.waker.is_some()
    }

    /// An entry's time has come. Says who is to be woken, on which node.
    pub(crate) fn fire(&mut self, slot: usize, entry: u64) -> Option<(usize, Waker)> {
        let timer = &mut self.slots[slot];
        if timer.entry != Some(entry) {
            return None;
        }
        timer.entry = None;
        self.free.push(slot);
        let waker = timer.waker.take()?;
        Some((timer.node, waker))
    }
}

impl World {
    /// Sets a timer of a node.
    pub(crate) fn set_timer(&mut self, node: usize, until: Millis, waker: Waker) -> usize {
        let slot = self.timers.free.pop().unwrap_or(self.timers.slots.len());
        let at = self.nodes[node].clock.monotonic_shows(until);
        let entry = at.map(|at| self.push(at, DueWhat::Timer(slot)));
        let timer = Slot {
            waker: Some(waker),
            node,
            until,
            set: entry.unwrap_or(u64::MAX),
            entry,
        };
        match self.timers.slots.get_mut(slot) {
            Some(free) => *free = timer,
            None => self.timers.slots.push(timer),
        }
        slot
    }

    /// A node's clock has changed: foretells anew when its timers are due. Those of one
    /// millisecond keep their order.
    pub(crate) fn set_timers_anew(&mut self, node: usize) {
        if let Some(stock) = &self.stock {
            return stock.wake_naps(node);
        }
        let slots = self.timers.slots.iter().enumerate();
        let mut waiting: Vec<(Millis, u64, usize)> = slots
            .filter(|(_, timer)| timer.node == node && timer.waker.is_some())
            .map(|(slot, timer)| (timer.until, timer.set, slot))
            .collect();
        waiting.sort_unstable();
        for (until, _, slot) in waiting {
            let at = self.nodes[node].clock.monotonic_shows(until);
            let entry = at.map(|at| self.push(at, DueWhat::Timer(slot)));
            self.timers.slots[slot].entry = entry;
        }
    }
}
