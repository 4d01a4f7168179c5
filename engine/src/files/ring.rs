//! A load through one ring: the same operations as by plain system calls, with as many tiles at a
//! time as the ring has lanes.

use std::collections::VecDeque;

use super::load::{Passes, Shared, each_pass};
use super::outcome::FileOutcome;
use super::tile::{Feed, Tile};
use crate::clock::monotonic_now;
use crate::error::SetupError;
use crate::ring::PathRing;

/// Runs the load on this thread, with one ring for all passes.
pub(super) fn run<'a, 'p: 'a>(
    shared: &'a Shared<'a>,
    depth: usize,
    passes: Passes<'_, 'p>,
) -> Result<FileOutcome, SetupError> {
    let mut ring = PathRing::new(shared.directory, &shared.buffers()?)?;
    for lane in 0..depth {
        shared.fill(ring.buffer(lane as u32), lane);
    }
    let mut lanes = Lanes {
        outcome: FileOutcome::default(),
        ring,
        tiles: (0..depth).map(|_| None).collect(),
        idle: (0..depth as u32).rev().collect(),
        under_way: 0,
    };
    let times = each_pass(shared, passes, |feed| lanes.work(feed, shared.load.in_flight))?;
    lanes.outcome.add(&times);
    Ok(lanes.outcome)
}

/// The ring's lanes, each with the tile that it does.
struct Lanes<'a> {
    ring: PathRing,
    tiles: Vec<Option<Tile<'a>>>,
    idle: Vec<u32>,
    /// Requests of which a tile has not ended.
    under_way: usize,
    outcome: FileOutcome,
}

impl<'a> Lanes<'a> {
    /// Does requests until there are no more.
    fn work(&mut self, feed: &mut Feed<'a>, in_flight: usize) {
        // No longer than the tiles of the requests under way.
        let mut waiting = VecDeque::new();
        loop {
            while self.under_way < in_flight
                && let Some(request) = feed.take()
            {
                self.under_way += 1;
                waiting.extend(request);
            }
            while let Some(lane) = self.idle.pop_if(|_| !waiting.is_empty()) {
                self.tiles[lane as usize] = waiting.pop_front();
                self.go_on(lane);
            }
            // A tile without operations ends at once.
            if self.ring.in_flight() == 0 {
                if self.under_way == 0 {
                    return;
                }
                continue;
            }
            if self.ring.wait().is_err() {
                return self.give_up(waiting);
            }
            while let Some((lane, result)) = self.ring.next_done() {
                if let Some(tile) = &mut self.tiles[lane as usize] {
                    tile.done(result, monotonic_now(), &mut self.outcome);
                }
                self.go_on(lane);
            }
        }
    }

    /// Queues the next operation of a lane's tile, or ends that.
    fn go_on(&mut self, lane: u32) {
        let place = &mut self.tiles[lane as usize];
        let op = place.as_mut().and_then(|tile| tile.next(self.ring.buffer(lane)));
        match (op, place) {
            (Some(op), Some(tile)) => {
                tile.begins(monotonic_now());
                self.ring.push(lane, &op);
            }
            (_, place) => {
                let ended = place.take().map(|tile| tile.end(monotonic_now(), &mut self.outcome));
                self.under_way -= usize::from(ended == Some(true));
                self.idle.push(lane);
            }
        }
    }

    /// Ends everything, as the drive has not answered for a minute.
    fn give_up(&mut self, waiting: VecDeque<Tile<'a>>) {
        let begun = std::mem::take(&mut self.tiles);
        for mut tile in begun.into_iter().flatten().chain(waiting) {
            tile.give_up(&mut self.outcome);
            tile.end(monotonic_now(), &mut self.outcome);
        }
    }
}
