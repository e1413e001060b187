//! The world that is being played on this thread.
//!
//! Code inside a node holds ids ([`Client`](crate::Client), streams), never references, and
//! reaches the world through [`with`]. The ready queue is a slot of its own, because wakers
//! are called while the world is borrowed.
//!
//! Deliberately absent: a way to spawn outside a node. Such a task would run on through its
//! node's pauses and crashes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use async_task::{Runnable, Task};

use crate::client::Connections;
use crate::clock::Clock;
use crate::engine::{Net, Setup, Stock, stock};
use crate::fault::{Point, When};
use crate::history::{Event, History, What};
use crate::lanes::{Lane, Purpose};
use crate::redis::Machine;
use crate::redis::disk::Disk;
use crate::store::Database;
use crate::timers::Timers;
use crate::trace::{Fold, Step};
use crate::{Millis, NodeId, coordination};

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    static READY: RefCell<VecDeque<Runnable<Tag>>> = const { RefCell::new(VecDeque::new()) };
    /// Whether a socket was touched since the network last looked.
    static TOUCHED: Cell<bool> = const { Cell::new(false) };
}

/// Which process start a task belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) node: usize,
    pub(crate) incarnation: u32,
}

/// Everything about one world that its nodes can see or change.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) now: Millis,
    pub(crate) nodes: Vec<Node>,
    pub(crate) history: History,
    pub(crate) fold: Fold,
    pub(crate) net: Net,
    /// What the turmoil engine has under its worlds; the event engine has none.
    pub(crate) stock: Option<Box<Stock>>,
    /// Faults whose moment has come, by their place in the plan.
    pub(crate) striking: VecDeque<usize>,
    /// Faults that have struck and are not over.
    pub(crate) active: usize,
    /// Where the name of the master leads that an operator moves, counted from one.
    pub(crate) master: u16,
    /// An operator wants the sentinels to promote a replica.
    pub(crate) forced: bool,
    pub(crate) due: BinaryHeap<Due>,
    pub(crate) timers: Timers,
    pushed: u64,
}

/// One node: a process and the machine under it.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) incarnation: u32,
    pub(crate) alive: bool,
    /// The machine has no power: it says nothing, and hears nothing.
    pub(crate) dark: bool,
    /// The program has come to its end.
    pub(crate) done: bool,
    /// The thread that runs the program is dead: it never comes to its end.
    pub(crate) thread_died: bool,
    /// The faults that make it stand still, by their place in the plan.
    pub(crate) pauses: BTreeSet<usize>,
    /// Those of them that make its monotonic clock stand still, too.
    pub(crate) suspends: BTreeSet<usize>,
    /// How many faults keep it down; with the last one's end it starts again.
    pub(crate) restarts: u32,
    /// Tasks that were woken while it stood still, in that order.
    pub(crate) parked: Vec<Runnable<Tag>>,
    pub(crate) tasks: BTreeMap<u64, Task<(), Tag>>,
    pub(crate) clock: Clock,
    pub(crate) lane: Lane,
    pub(crate) reached: BTreeMap<Point, u32>,
    pub(crate) connections: Connections,
    /// What a Redis server holds; survives its process when the disk keeps it.
    pub(crate) machine: Rc<RefCell<Machine>>,
    /// Wakes a Redis server's background expiry when it has to look again.
    pub(crate) expiry: Option<Waker>,
    /// What a Redis server has written to its disk.
    pub(crate) disk: Disk,
    /// Wakes a replica's link when it has to follow another master, or may read again.
    pub(crate) follower: Option<Waker>,
    /// The faults that make a replica fall behind, by their place in the plan.
    pub(crate) lags: BTreeSet<usize>,
    /// What the store holds, likewise.
    pub(crate) database: Rc<RefCell<Database>>,
    /// What a coordination server holds. It stands for a quorum, and loses nothing.
    pub(crate) coordination: Rc<RefCell<coordination::Machine>>,
    /// Resets that wait until the node has run.
    pub(crate) waiting_resets: Vec<turmoil_net::Packet>,
    spawned: u64,
}

/// Something that happens at a time.
pub(crate) struct Due {
    pub(crate) at: Millis,
    /// What is due in the same millisecond comes in this order.
    pub(crate) order: u64,
    pub(crate) what: DueWhat,
}

/// What can be due.
pub(crate) enum DueWhat {
    /// A timer.
    Timer(usize),
    /// A segment reaches its receiver.
    Segment(Box<turmoil_net::Packet>),
    /// The oldest segment that waits at the end of the link between two nodes may go on.
    Held(usize, usize),
    /// A process that stood still hears of a reset.
    Reset(Box<turmoil_net::Packet>),
    /// A fault of the plan strikes.
    Strike(usize),
    /// A fault of the plan is over.
    Over(usize),
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // The heap gives the greatest first; we want the earliest, and of those the oldest.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Due {}

/// Runs `f` on the thread's world, unless that is gone: for what is dropped at a run's end.
pub(crate) fn with_any(f: impl FnOnce(&mut World)) {
    WORLD.with_borrow_mut(|world| world.as_mut().map(f));
}

/// Runs `f` on the thread's world.
pub(crate) fn with<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| f(world.as_mut().expect("called outside of a running world")))
}

/// Makes `world` the thread's world, or takes it away.
pub(crate) fn install(world: Option<World>) -> Option<World> {
    WORLD.replace(world)
}

/// The next task that is ready to run.
pub(crate) fn next_ready() -> Option<Runnable<Tag>> {
    READY.with_borrow_mut(VecDeque::pop_front)
}

/// Takes tasks out of the ready queue.
pub(crate) fn take_ready(mut which: impl FnMut(Tag) -> bool) -> Vec<Runnable<Tag>> {
    READY.with_borrow_mut(|ready| {
        let (taken, kept): (Vec<_>, _) = std::mem::take(ready)
            .into_iter()
            .partition(|runnable| which(*runnable.metadata()));
        *ready = kept.into();
        taken
    })
}

/// Puts a task at the end of the ready queue.
pub(crate) fn make_ready(runnable: Runnable<Tag>) {
    READY.with_borrow_mut(|ready| ready.push_back(runnable));
}

/// A socket was used: the network has to look.
pub(crate) fn touch() {
    TOUCHED.set(true);
}

/// Whether a socket was used since the last call.
pub(crate) fn take_touched() -> bool {
    TOUCHED.replace(false)
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let clients = (1..=setup.clients).map(NodeId::Client);
        let servers = (1..=setup.servers).map(NodeId::Lock);
        let sentinels = (1..=setup.deployment.sentinel_count()).map(NodeId::Sentinel);
        let ids = clients.chain(servers).chain(sentinels);
        let ids = ids.chain([NodeId::Store]);
        let nodes = ids.enumerate().map(|(index, id)| Node {
            id,
            incarnation: 0,
            alive: false,
            dark: false,
            done: false,
            thread_died: false,
            pauses: BTreeSet::new(),
            suspends: BTreeSet::new(),
            restarts: 0,
            parked: Vec::new(),
            tasks: BTreeMap::new(),
            clock: Clock::default(),
            lane: Lane::new(setup.seed, Purpose::Client, index as u64),
            reached: BTreeMap::new(),
            connections: Connections::new(setup.deployment.seen(setup.servers)),
            machine: Rc::default(),
            expiry: None,
            coordination: Rc::default(),
            disk: Disk::default(),
            follower: None,
            lags: BTreeSet::new(),
            database: Rc::new(RefCell::new(Database::starting_at(setup.store.starts_at))),
            waiting_resets: Vec::new(),
            spawned: 0,
        });
        let nodes: Vec<_> = nodes.collect();
        if setup.deployment.is_replicated() {
            let replicas = nodes
                .iter()
                .filter(|node| matches!(node.id, NodeId::Lock(2..)));
            for replica in replicas {
                replica.machine.borrow_mut().start_as_replica_of("lock-1");
            }
        }
        Self {
            setup: setup.clone(),
            now: 0,
            nodes,
            history: History::default(),
            fold: Fold::new(),
            net: Net::new(setup),
            stock: None,
            striking: VecDeque::new(),
            active: 0,
            master: 1,
            forced: false,
            due: BinaryHeap::new(),
            timers: Timers::default(),
            pushed: 0,
        }
    }

    /// A node's place in `nodes`.
    pub(crate) fn index(&self, id: NodeId) -> usize {
        match id {
            NodeId::Client(number) => usize::from(number) - 1,
            NodeId::Lock(number) => usize::from(self.setup.clients + number) - 1,
            NodeId::Sentinel(number) => {
                usize::from(self.setup.clients + self.setup.servers + number) - 1
            }
            NodeId::Store => self.nodes.len() - 1,
        }
    }

    /// The faults of the plan that strike at a time of the world, but for those that are there
    /// before anything runs.
    pub(crate) fn push_strikes(&mut self) {
        for (place, planned) in self.setup.plan.0.clone().iter().enumerate() {
            if let When::At(at) = planned.when
                && !planned.is_from_the_start()
            {
                self.push(at, DueWhat::Strike(place));
            }
        }
    }

    /// Says the entry's place in the order of all.
    pub(crate) fn push(&mut self, at: Millis, what: DueWhat) -> u64 {
        self.pushed += 1;
        self.due.push(Due {
            at,
            order: self.pushed,
            what,
        });
        self.pushed
    }

    pub(crate) fn record(&mut self, node: usize, what: What) {
        self.fold(node, Step::Told(&what));
        self.history.events.push(Event {
            at: self.now,
            node: self.nodes[node].id,
            what,
        });
    }

    /// Takes what a node does into the run's fingerprint, and into its trace if there is one.
    /// Engines call it for what happens below the history.
    pub(crate) fn fold(&mut self, node: usize, step: Step<'_>) {
        self.fold.fold(self.now, Some(self.nodes[node].id), step);
    }

    /// The run is over.
    pub(crate) fn into_history(mut self) -> History {
        self.fold.fold(self.now, None, Step::Ended);
        History {
            ended: self.now,
            fingerprint: self.fold.fingerprint(),
            ..self.history
        }
    }

    /// Clients are done or gone, and nothing is going to go wrong any more.
    pub(crate) fn clients_are_over(&self) -> bool {
        let clients = &self.nodes[..usize::from(self.setup.clients)];
        let is_over = |client: &Node| client.done || client.thread_died || !client.alive;
        self.active == 0 && clients.iter().all(is_over)
    }

    /// A node's wall clock, in milliseconds since 1970.
    pub(crate) fn wall(&self, node: usize) -> Millis {
        self.nodes[node].clock.wall(self.now)
    }

    /// A node's monotonic clock.
    pub(crate) fn monotonic(&self, node: usize) -> Millis {
        self.nodes[node].clock.monotonic(self.now)
    }

    /// A client has reached a point: whatever the plan has for it strikes before anything
    /// else runs.
    pub(crate) fn reach(&mut self, node: usize, point: Point, section: u32) {
        self.record(node, What::Reached { point, section });
        let id = self.nodes[node].id;
        let times = self.nodes[node].reached.entry(point).or_insert(0);
        *times += 1;
        for (place, planned) in self.setup.plan.0.iter().enumerate() {
            if planned.when
                == (When::Point {
                    client: id,
                    point,
                    nth: *times,
                })
            {
                self.striking.push_back(place);
            }
        }
    }
}

/// A key may have to go sooner than a server's background expiry expects.
pub(crate) fn wake_expiry(node: usize) {
    if let Some(waker) = with(|world| world.nodes[node].expiry.take()) {
        waker.wake();
    }
}

/// Starts a task on a node. It lives until it ends, is cancelled, or the process dies.
pub(crate) fn spawn(node: usize, future: impl Future<Output = ()> + 'static) -> u64 {
    let (incarnation, is_stock) =
        with(|world| (world.nodes[node].incarnation, world.stock.is_some()));
    if is_stock {
        return stock::spawn(Tag { node, incarnation }, future);
    }
    let (runnable, task) = async_task::Builder::new()
        .metadata(Tag { node, incarnation })
        .spawn_local(|_| future, make_ready);
    let number = with(|world| {
        let node = &mut world.nodes[node];
        node.spawned += 1;
        if node.spawned.is_multiple_of(64) {
            node.tasks.retain(|_, task| !task.is_finished());
        }
        node.tasks.insert(node.spawned, task);
        node.spawned
    });
    runnable.schedule();
    number
}

/// Stops a task: it is not polled again, and dropped when its turn would come.
pub(crate) fn cancel(tag: Tag, number: u64) {
    let task = WORLD.with_borrow_mut(|world| {
        let world = world.as_mut()?;
        let node = world.nodes.get_mut(tag.node)?;
        if node.incarnation != tag.incarnation {
            return None;
        }
        if let Some(stock) = &mut world.stock {
            stock.cancel(tag.node, number);
        }
        node.tasks.remove(&number)
    });
    drop(task);
}

/// Waits until a node's monotonic clock shows a time.
pub(crate) struct Sleep {
    node: usize,
    until: Millis,
    slot: Option<usize>,
    /// On the turmoil engine tokio keeps the time.
    nap: Option<stock::Nap>,
}

impl Sleep {
    /// Ready `length` from now, on the clock of a node.
    pub(crate) fn new(node: usize, length: Millis) -> Self {
        with(|world| {
            let until = world.monotonic(node).saturating_add(length);
            Self {
                node,
                until,
                slot: None,
                nap: world.stock.as_mut().map(|stock| stock.nap(node, until)),
            }
        })
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (node, until) = (self.node, self.until);
        if let Some(nap) = &mut self.nap {
            let polled = nap.poll(context);
            if polled.is_ready() {
                with(|world| world.fold(node, Step::Timer));
            }
            return polled;
        }
        with(|world| {
            if world.monotonic(node) >= until {
                return Poll::Ready(());
            }
            match self.slot {
                Some(slot) => world.timers.wait(slot, context.waker()),
                None => self.slot = Some(world.set_timer(node, until, context.waker().clone())),
            }
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        // At the end of a run the world may be gone before its futures.
        WORLD.with_borrow_mut(|world| {
            // Once its time has come, the slot may be somebody else's.
            if let Some(world) = world
                && world.monotonic(self.node) < self.until
            {
                world.timers.give_up(slot);
            }
        });
    }
}

/// Lets everything else that is ready run first.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Whether a task is ready to run.
pub(crate) fn any_ready() -> bool {
    READY.with_borrow(|ready| !ready.is_empty())
}
