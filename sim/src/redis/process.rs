//! What is around a server's memory, without sockets and without a clock: connections, the requests
//! that are held up, the messages for those who wait, and when the background has work to do.
//!
//! The node of a simulated world and a server for everybody are both made of it; they bring the
//! bytes and the time.
//!
//! Deliberately absent: limits on memory and connections. Whoever lets strangers in has them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};

use super::{Change, Connection, Decoder, Machine, Reply, encode};
use crate::Millis;

/// How often the background expiry runs: `hz 10`.
const CYCLE: Millis = 100;

/// One server's process. It ends with the last [`Session`].
#[derive(Debug)]
pub struct Process {
    machine: Rc<RefCell<Machine>>,
    connections: Cell<u64>,
    /// The deadline that the background expiry waits for.
    awaited: Cell<Option<u64>>,
    mailboxes: RefCell<BTreeMap<u64, Mailbox>>,
}

/// What has been sent to a connection other than in answer to its last request.
#[derive(Debug)]
struct Mailbox {
    peer: usize,
    messages: Vec<Reply>,
    /// What a replica is to copy.
    stream: BytesMut,
    /// The server is closing it.
    closes: bool,
    waker: Option<Waker>,
}

/// A request that has been executed.
#[derive(Debug)]
pub struct Executed {
    /// The answer.
    pub reply: Reply,
    /// What has changed.
    pub changes: Vec<Change>,
    /// The background has work to do sooner than it knew: see [`Process::agenda`].
    pub sooner: bool,
}

/// When the background has something to do, by the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agenda {
    /// The cycle that deletes the next key.
    cycle: Option<Millis>,
    /// Somebody has waited long enough, or a pause of the clients is over.
    over: Option<Millis>,
}

impl Agenda {
    /// The first of it; nothing as long as nobody sends a command.
    #[must_use]
    pub fn next(&self) -> Option<Millis> {
        self.cycle.into_iter().chain(self.over).min()
    }
}

impl Process {
    /// A process that starts with what is in `machine`.
    #[must_use]
    pub fn start(machine: Rc<RefCell<Machine>>) -> Rc<Self> {
        machine.borrow_mut().restart();
        Rc::new(Self {
            machine,
            connections: Cell::new(0),
            awaited: Cell::default(),
            mailboxes: RefCell::default(),
        })
    }

    /// Executes a request of `connection` and delivers what it sends to others.
    pub fn execute(&self, request: &[Bytes], connection: &mut Connection, wall: u64) -> Executed {
        let mut machine = self.machine.borrow_mut();
        let pause = machine.pause_ends(wall);
        let reply = machine.execute(request, connection, wall);
        let next = machine.next_deadline();
        let sooner =
            next.is_some_and(|next| self.awaited.get().is_none_or(|awaited| next < awaited));
        let paused = machine.pause_ends(wall);
        drop(machine);
        if pause.is_some() && paused.is_none() {
            self.wake_all();
        }
        Executed {
            sooner: sooner || paused != pause || reply == Reply::Blocked,
            reply,
            changes: self.settle(),
        }
    }

    /// When the background has something to do next, as the wall clock goes now.
    pub fn agenda(&self, now: Millis, wall: u64) -> Agenda {
        let machine = self.machine.borrow();
        let deadline = machine.next_deadline();
        self.awaited.set(deadline);
        let cycle = deadline.map(|deadline| {
            let due = now + deadline.saturating_sub(wall);
            (due / CYCLE + 1) * CYCLE
        });
        let timeout = machine.next_timeout().map(|until| until.saturating_add(1));
        let over = timeout.into_iter().chain(machine.pause_ends(wall)).min();
        let over = over.map(|at| now.saturating_add(at.saturating_sub(wall)));
        Agenda { cycle, over }
    }

    /// Does what is due: deletes expired keys at every tenth of a second of the process, answers
    /// those who have waited long enough, and lets those go on who were held up. Of a key, nobody
    /// can see the difference to one that is only hidden, save by counting keys, by listening, or by
    /// setting the wall clock back.
    pub fn background(&self, agenda: Agenda, now: Millis, wall: u64) -> Vec<Change> {
        let mut machine = self.machine.borrow_mut();
        if agenda.cycle.is_some_and(|at| at <= now) {
            machine.expire_due(wall);
        }
        machine.time_out(wall);
        if machine.end_pause(wall) {
            self.wake_all();
        }
        drop(machine);
        self.settle()
    }

    /// Delivers what the machine has for connections, replicas among them, and says what has changed.
    pub(crate) fn settle(&self) -> Vec<Change> {
        let mut machine = self.machine.borrow_mut();
        let changes = machine.take_changes();
        self.deliver(machine.take_messages());
        if let Some((stream, replicas)) = machine.take_stream() {
            let mut mailboxes = self.mailboxes.borrow_mut();
            for replica in replicas {
                if let Some(mailbox) = mailboxes.get_mut(&replica) {
                    mailbox.stream.extend_from_slice(&stream);
                    mailbox.waker.take().into_iter().for_each(Waker::wake);
                }
            }
        }
        changes
    }

    /// Closes some connections, as soon as they have been sent what is there for them.
    pub(crate) fn close(&self, which: impl Fn(u64) -> bool) {
        let mut mailboxes = self.mailboxes.borrow_mut();
        for (_, mailbox) in mailboxes.iter_mut().filter(|(number, _)| which(**number)) {
            mailbox.closes = true;
            mailbox.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// What the server holds.
    pub(crate) fn machine(&self) -> &RefCell<Machine> {
        &self.machine
    }

    /// Who is behind a connection that is open.
    pub(crate) fn peer(&self, connection: u64) -> Option<usize> {
        let mailboxes = self.mailboxes.borrow();
        mailboxes.get(&connection).map(|mailbox| mailbox.peer)
    }

    /// How many connections are open.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.mailboxes.borrow().len()
    }

    /// Lets everybody who is held up look whether the pause is over.
    fn wake_all(&self) {
        for mailbox in self.mailboxes.borrow_mut().values_mut() {
            mailbox.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    fn deliver(&self, messages: Vec<(u64, Reply)>) {
        let mut mailboxes = self.mailboxes.borrow_mut();
        for (to, message) in messages {
            if let Some(mailbox) = mailboxes.get_mut(&to) {
                mailbox.messages.push(message);
                mailbox.waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }
}

/// One connection: bytes in, bytes out. It is closed by being dropped.
#[derive(Debug)]
pub struct Session {
    process: Rc<Process>,
    connection: Connection,
    decoder: Decoder,
    /// A request that waits for the end of a pause of all clients.
    held: Option<Vec<Bytes>>,
    /// What is to be sent.
    pub output: BytesMut,
}

impl Session {
    /// A connection just accepted. `peer` is whatever its node calls the other end.
    #[must_use]
    pub fn open(process: Rc<Process>, peer: usize) -> Self {
        let id = process.connections.get() + 1;
        process.connections.set(id);
        let mailbox = Mailbox {
            peer,
            messages: Vec::new(),
            stream: BytesMut::new(),
            closes: false,
            waker: None,
        };
        process.mailboxes.borrow_mut().insert(id, mailbox);
        Self {
            process,
            connection: Connection::new(id),
            decoder: Decoder::default(),
            held: None,
            output: BytesMut::new(),
        }
    }

    /// Takes bytes from the socket.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
    }

    /// How many bytes of requests wait to be executed, or to become complete.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.decoder.buffered()
    }

    /// Whether it listens to channels.
    #[must_use]
    pub fn listens(&self) -> bool {
        !self.connection.channels.is_empty() || !self.connection.patterns.is_empty()
    }

    /// Has executed what has come, until there is no more or the connection has to wait, or there is
    /// as much to send as `enough`. Says whether the connection stays open.
    pub fn work(
        &mut self,
        wall: u64,
        enough: usize,
        mut execute: impl FnMut(&Process, &[Bytes], &mut Connection) -> Reply,
    ) -> bool {
        let id = self.connection.id;
        while self.output.len() < enough && !self.process.machine.borrow().is_blocked(id) {
            let request = self
                .held
                .take()
                .map_or_else(|| self.decoder.next_request(), |request| Ok(Some(request)));
            let (reply, closes) = match request {
                Ok(None) => return true,
                Ok(Some(request)) => {
                    if self.is_held(&request, wall) {
                        self.held = Some(request);
                        return true;
                    }
                    let reply = execute(&self.process, &request, &mut self.connection);
                    let closes = reply == Reply::Close;
                    (reply, closes)
                }
                Err(error) => (error.reply(), true),
            };
            encode(&reply, self.connection.protocol, &mut self.output);
            if closes {
                return false;
            }
        }
        true
    }

    /// Ready when there is something to do without new bytes: a message, which is then in the
    /// output, or the end of a pause. False when the server closes the connection.
    pub fn poll_messages(&mut self, wall: u64, context: &mut Context<'_>) -> Poll<bool> {
        let mut mailboxes = self.process.mailboxes.borrow_mut();
        if let Some(mailbox) = mailboxes.get_mut(&self.connection.id) {
            if !mailbox.messages.is_empty() {
                for message in mailbox.messages.drain(..) {
                    encode(&message, self.connection.protocol, &mut self.output);
                }
                return Poll::Ready(true);
            }
            if !mailbox.stream.is_empty() {
                self.output.unsplit(mailbox.stream.split());
                return Poll::Ready(true);
            }
            if mailbox.closes {
                return Poll::Ready(false);
            }
            mailbox.waker = Some(context.waker().clone());
        }
        match &self.held {
            Some(request) if !self.is_held(request, wall) => Poll::Ready(true),
            _ => Poll::Pending,
        }
    }

    fn is_held(&self, request: &[Bytes], wall: u64) -> bool {
        let machine = self.process.machine.borrow();
        machine
            .held_until(request, &self.connection, wall)
            .is_some()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let id = self.connection.id;
        self.process.mailboxes.borrow_mut().remove(&id);
        if let Ok(mut machine) = self.process.machine.try_borrow_mut() {
            machine.disconnect(&mut self.connection);
        }
    }
}
