//! Processes inside of turmoil's hosts.
//!
//! A process is a tokio `LocalSet` that its host polls until the process is killed. Every task
//! that goes through [`spawn`] first looks whether its process stands still, and is parked if so:
//! thus a fault at a point also stops the tasks that would have run next.
//!
//! A task that the code under test gives to `tokio::spawn` belongs to the runtime, not to the
//! process: it runs on through a pause, but as soon as it touches the client it waits, so that
//! no byte leaves and nothing is recorded until the process goes on; and for ever when the
//! process is dead. What such a task can have done meanwhile is to look at tokio's clock.

use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::task::{AbortHandle, LocalSet};

use super::super::faults::Ground;
use super::{Failed, Inside, Stock, roads};
use crate::Millis;
use crate::trace::Step;
use crate::world::{Tag, World, with, with_any};

/// One node's host.
#[derive(Default)]
pub(super) struct Host {
    /// The process that runs.
    local: Option<Rc<LocalSet>>,
    /// The process that is to run next.
    starting: Option<LocalBoxFuture<'static, ()>>,
    /// The process that runs is dead, and must be dropped.
    killed: bool,
    /// Makes turmoil look at the host.
    waker: Option<Waker>,
    /// Tasks that were woken while the process stood still, in that order.
    parked: Vec<Waker>,
    tasks: BTreeMap<u64, AbortHandle>,
    spawned: u64,
    /// Who sleeps.
    naps: BTreeMap<u64, Waker>,
}

impl Host {
    pub(super) fn cancel(&mut self, number: u64) {
        if let Some(task) = self.tasks.remove(&number) {
            task.abort();
        }
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The software of a host: one process after the other.
pub(super) async fn run(node: usize) -> turmoil::Result {
    loop {
        let process = poll_fn(|context| {
            with(|world| {
                let host = &mut world.stock().hosts[node];
                if let Some(process) = host.starting.take() {
                    return Poll::Ready(process);
                }
                host.waker = Some(context.waker().clone());
                Poll::Pending
            })
        })
        .await;
        let local = Rc::new(LocalSet::new());
        let incarnation = with(|world| {
            world.stock().hosts[node].local = Some(Rc::clone(&local));
            world.nodes[node].incarnation
        });
        spawn(Tag { node, incarnation }, process);
        {
            let mut running = pin!(local.run_until(pending::<()>()));
            let is_killed = || with(|world| world.stock().hosts[node].killed);
            poll_fn(|context| {
                if is_killed() {
                    return Poll::Ready(());
                }
                with(|world| world.stock().hosts[node].waker = Some(context.waker().clone()));
                let forever = running.as_mut().poll(context);
                if is_killed() {
                    return Poll::Ready(());
                }
                forever
            })
            .await;
        }
        // Without power nobody closes its connections.
        poll_fn(|context| {
            with(|world| {
                let stock = world.stock();
                if !stock.is_fading(node) {
                    return Poll::Ready(());
                }
                stock.hosts[node].waker = Some(context.waker().clone());
                Poll::Pending
            })
        })
        .await;
        drop(local);
        end(node);
    }
}

/// Drops a process: its tasks, then its connections, whose sockets send what they close with.
pub(super) fn end(node: usize) {
    let take = || {
        with(|world| {
            let host = &mut world.stock().hosts[node];
            host.killed = false;
            host.tasks.clear();
            host.parked.clear();
            (host.local.take(), world.nodes[node].connections.take())
        })
    };
    drop(take());
    // What a dropped request gave back.
    drop(take());
}

/// Marks a process as dead: from now on it does nothing, and its host drops it when it is
/// looked at next, which is within the millisecond.
pub(super) fn kill(node: usize) {
    with(|world| {
        world.nodes[node].alive = false;
        let host = &mut world.stock().hosts[node];
        host.killed = true;
        host.wake();
    });
}

/// Hands a host its next process.
pub(super) fn start(node: usize, process: LocalBoxFuture<'static, ()>) {
    with(|world| {
        let host = &mut world.stock().hosts[node];
        host.starting = Some(process);
        host.wake();
    });
}

/// A process no longer stands still.
pub(super) fn go_on(node: usize) {
    let parked = with(|world| std::mem::take(&mut world.stock().hosts[node].parked));
    parked.into_iter().for_each(Waker::wake);
}

/// Whether a process may not run now. Its task is woken when it may.
pub(crate) fn stands(tag: Tag, context: &mut Context<'_>) -> bool {
    with(|world| {
        if world.stock.is_none() {
            return false;
        }
        let Tag { node, incarnation } = tag;
        if !world.lives_as(node, incarnation) {
            return true;
        }
        let stands = !world.nodes[node].pauses.is_empty();
        if stands {
            let parked = &mut world.stock().hosts[node].parked;
            parked.push(context.waker().clone());
        }
        stands
    })
}

impl World {
    fn lives_as(&self, node: usize, incarnation: u32) -> bool {
        self.nodes[node].alive && self.nodes[node].incarnation == incarnation
    }
}

/// Starts a task in a process. Its number is for `Stock::cancel`.
pub(crate) fn spawn(tag: Tag, future: impl Future<Output = ()> + 'static) -> u64 {
    let Some(local) = with(|world| world.stock().hosts[tag.node].local.clone()) else {
        // Asked by a task that has outlived its process.
        return 0;
    };
    let task = local.spawn_local(guarded(tag, future)).abort_handle();
    with(|world| {
        let host = &mut world.stock().hosts[tag.node];
        host.spawned += 1;
        if host.spawned.is_multiple_of(64) {
            host.tasks.retain(|_, task| !task.is_finished());
        }
        host.tasks.insert(host.spawned, task);
        host.spawned
    })
}

/// A task that does nothing while its process stands still or is dead, lets faults strike at
/// the points that it reaches, and whose panic fails the run.
fn guarded(
    tag: Tag,
    future: impl Future<Output = ()> + 'static,
) -> impl Future<Output = ()> + 'static {
    let mut future = Box::pin(future);
    poll_fn(move |context| {
        if stands(tag, context) {
            return Poll::Pending;
        }
        with(|world| world.fold(tag.node, Step::Polled));
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        strike_here();
        polled.unwrap_or_else(|panic| {
            with(|world| {
                world.stock().failed.get_or_insert(Failed::from(panic));
            });
            Poll::Ready(())
        })
    })
}

/// Lets those faults strike whose point has just been reached. On the event engine that is the
/// executor's business.
pub(crate) fn strike_here() {
    let next = || with(|world| world.stock.is_some().then(|| world.striking.pop_front())?);
    let mut any = false;
    while let Some(place) = next() {
        any = true;
        Inside.strike(place);
    }
    if any {
        roads::apply(None);
    }
}

/// Waits until a node's monotonic clock shows a time. tokio keeps the world's time, and is asked
/// anew when the clock changes.
pub(crate) struct Nap {
    node: usize,
    until: Millis,
    number: u64,
    /// The world's time that it waits for.
    timer: Option<(Millis, Pin<Box<tokio::time::Sleep>>)>,
}

impl Stock {
    pub(crate) fn nap(&mut self, node: usize, until: Millis) -> Nap {
        self.naps += 1;
        Nap {
            node,
            until,
            number: self.naps,
            timer: None,
        }
    }

    /// A node's clock has changed: everyone looks again.
    pub(crate) fn wake_naps(&self, node: usize) {
        self.hosts[node].naps.values().for_each(Waker::wake_by_ref);
    }
}

impl Nap {
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (now, at) = with(|world| {
            let waker = context.waker().clone();
            world.stock().hosts[self.node]
                .naps
                .insert(self.number, waker);
            let clock = &world.nodes[self.node].clock;
            (world.now, clock.monotonic_shows(self.until))
        });
        let Some(at) = at else {
            self.timer = None;
            return Poll::Pending;
        };
        if at <= now {
            return Poll::Ready(());
        }
        let timer = self.timer.take().filter(|(known, _)| *known == at);
        let (_, timer) = self
            .timer
            .insert(timer.unwrap_or_else(|| (at, sleep(at - now))));
        timer.as_mut().poll(context)
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        // At the end of a run the world may be gone before its futures.
        with_any(|world| {
            if let Some(stock) = &mut world.stock {
                stock.hosts[self.node].naps.remove(&self.number);
            }
        });
    }
}

/// tokio's own timer.
#[expect(
    clippy::disallowed_methods,
    reason = "on this engine tokio keeps a host's time"
)]
pub(crate) fn sleep(length: Millis) -> Pin<Box<tokio::time::Sleep>> {
    Box::pin(tokio::time::sleep(Duration::from_millis(length)))
}
