//! What the store does, without I/O: sessions send statements, and get their replies at once or when
//! somebody else's transaction is over.
//!
//! A statement sees what is committed and what its own transaction has changed (READ COMMITTED). A
//! statement that would change a row which an open transaction has changed or locked waits for that
//! one's end, locks the row, and then looks at its condition again; one whose condition does not hold on what it
//! sees changes nothing and does not wait. Whoever would close a circle of waiting gets an error at
//! once; PostgreSQL looks for circles after `deadlock_timeout`.

use std::collections::{BTreeMap, VecDeque};

use super::advisory::Advisory;
use super::{Comparator, Guard, Operation, Reply, Request, Row, Scope, SqlError};
use crate::history::{Stored, What};
use crate::{Millis, NodeId};

/// A session, by the order of connecting.
pub type SessionId = u64;

/// A statement's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Whose statement it was.
    pub session: SessionId,
    /// The reply.
    pub reply: Reply,
}

/// What can be changed and locked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Row(u32),
    Mark(u32),
    Lease(String),
}

/// What stands there. Marks have a value alone, leases a fence and the last two.
#[derive(Debug, Clone, Default)]
struct Record {
    row: Row,
    claimed_by: Option<String>,
    taken_by: Option<String>,
    taken_until: Option<Millis>,
}

#[derive(Debug, Default)]
struct Slot {
    committed: Option<Record>,
    /// What the owner's transaction has made of it.
    pending: Option<Record>,
    /// Whose transaction has locked it.
    owner: Option<SessionId>,
}

/// What a statement waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Place(Place),
    Key(String),
}

/// Why a statement has no result.
enum Unfinished {
    Waits(Target),
    Fails(SqlError),
}

/// An event, and the node that it is told of.
type Told = (NodeId, What);

#[derive(Debug, Default)]
struct Session {
    /// Between BEGIN and the end of the transaction.
    in_block: bool,
    aborted: bool,
    places: Vec<Place>,
    /// What is told at commit.
    told: Vec<Told>,
}

#[derive(Debug)]
struct Waiting {
    session: SessionId,
    statement: Statement,
    on: Target,
}

/// A request, and whose it is.
#[derive(Debug, Clone)]
struct Statement {
    by: NodeId,
    request: Request,
}

/// The rows, and everybody's sessions.
#[derive(Debug, Default)]
pub struct Database {
    starts_at: i64,
    slots: BTreeMap<Place, Slot>,
    advisory: Advisory,
    sequence: u64,
    fences: u64,
    sessions: BTreeMap<SessionId, Session>,
    connected: SessionId,
    /// What the store's wall clock shows.
    wall: Millis,
    /// What the statement that goes on now has waited for.
    waited_for: Option<Target>,
    /// In the order in which they began to wait.
    waiting: VecDeque<Waiting>,
    done: Vec<Done>,
    told: Vec<Told>,
}

impl Database {
    /// A database whose rows begin with a value.
    pub fn starting_at(value: i64) -> Self {
        Self {
            starts_at: value,
            ..Self::default()
        }
    }

    /// Loses every row. The sequences go on: they order what happened, whatever is left of it.
    pub(crate) fn lose(&mut self) {
        self.slots.clear();
    }

    /// The process has started again: every session is gone, and what it had not committed.
    pub(crate) fn restart(&mut self) {
        self.waiting.clear();
        for session in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.end(session);
        }
        self.done.clear();
    }

    /// A new session.
    pub fn connect(&mut self) -> SessionId {
        self.connected += 1;
        self.sessions.insert(self.connected, Session::default());
        self.connected
    }

    /// A session is over: its transaction is rolled back, and its locks are free.
    pub fn end(&mut self, session: SessionId) {
        self.waiting.retain(|waiting| waiting.session != session);
        let before = self.told.len();
        self.rollback(session);
        let freed = self.advisory.free(session, Scope::Session);
        self.tell_freed(freed);
        // Nobody has asked for it.
        for (of, what) in &mut self.told[before..] {
            if matches!(what, What::Freed { .. }) {
                *of = NodeId::Store;
            }
        }
        self.sessions.remove(&session);
        self.let_waiting_go_on();
    }

    /// Whether a session is in a transaction block.
    pub fn in_transaction(&self, session: SessionId) -> bool {
        self.sessions[&session].in_block
    }

    /// Whether a session's statement has not been answered yet.
    pub fn is_waiting(&self, session: SessionId) -> bool {
        self.waiting.iter().any(|w| w.session == session)
    }

    /// Executes one request of a session that waits for nothing. What is answered, and what was
    /// because of it, is in [`take_done`](Self::take_done).
    pub fn execute(&mut self, session: SessionId, by: NodeId, request: &Request, wall: Millis) {
        assert!(!self.is_waiting(session), "one statement at a time");
        self.wall = wall;
        let request = request.clone();
        let statement = Statement { by, request };
        self.attempt(session, statement);
        self.let_waiting_go_on();
    }

    /// What has been answered since the last call.
    pub fn take_done(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.done)
    }

    /// What has happened since the last call.
    pub fn take_told(&mut self) -> Vec<(NodeId, What)> {
        std::mem::take(&mut self.told)
    }

    fn attempt(&mut self, session: SessionId, statement: Statement) {
        let reply = match self.run(session, &statement) {
            Ok(reply) => reply,
            Err(Unfinished::Fails(error)) => self.fail(session, error),
            Err(Unfinished::Waits(on)) if self.leads_back(&on, session) => {
                self.fail(session, SqlError::Deadlock)
            }
            Err(Unfinished::Waits(on)) => {
                self.waiting.push_back(Waiting {
                    session,
                    statement,
                    on,
                });
                return;
            }
        };
        if !self.sessions[&session].in_block {
            self.commit(session);
        }
        self.done.push(Done { session, reply });
    }

    /// Whoever waits for something that is free now goes on, in the order of waiting.
    fn let_waiting_go_on(&mut self) {
        let is_free = |waiting: &Waiting| {
            self.owner(&waiting.on)
                .is_none_or(|owner| owner == waiting.session)
        };
        if let Some(place) = self.waiting.iter().position(is_free) {
            let next = self.waiting.remove(place).expect("found above");
            self.attempt_in_place(place, next);
            self.let_waiting_go_on();
        }
    }

    /// Goes on with a statement; if it has to wait again, then where it stood.
    fn attempt_in_place(&mut self, place: usize, next: Waiting) {
        let length = self.waiting.len();
        self.waited_for = Some(next.on);
        self.attempt(next.session, next.statement);
        self.waited_for = None;
        if self.waiting.len() > length {
            let again = self.waiting.pop_back().expect("it is longer");
            self.waiting.insert(place, again);
        }
    }

    fn owner(&self, target: &Target) -> Option<SessionId> {
        match target {
            Target::Place(place) => self.slots.get(place)?.owner,
            Target::Key(key) => self.advisory.owner(key),
        }
    }

    /// Whether who holds this waits, at some remove, for the session.
    fn leads_back(&self, target: &Target, session: SessionId) -> bool {
        let mut owner = self.owner(target);
        // Nobody waits in a circle that was refused before it was closed.
        while let Some(holder) = owner {
            if holder == session {
                return true;
            }
            let waits = self.waiting.iter().find(|w| w.session == holder);
            owner = waits.and_then(|waiting| self.owner(&waiting.on));
        }
        false
    }

    fn fail(&mut self, session: SessionId, error: SqlError) -> Reply {
        self.rollback(session);
        let failed = self.session(session);
        failed.aborted = failed.in_block;
        Reply::Failed { error }
    }

    fn session(&mut self, session: SessionId) -> &mut Session {
        self.sessions.get_mut(&session).expect("connected")
    }

    /// What a transaction has changed is seen by everybody, and its writes get their numbers.
    fn commit(&mut self, session: SessionId) {
        for place in std::mem::take(&mut self.session(session).places) {
            let slot = self.slots.get_mut(&place).expect("locked");
            slot.owner = None;
            if let Some(pending) = slot.pending.take() {
                slot.committed = Some(pending);
            }
        }
        let told = std::mem::take(&mut self.session(session).told);
        let is_freed = |(_, what): &Told| matches!(what, What::Freed { .. });
        let (freed, changes): (Vec<_>, Vec<_>) = told.into_iter().partition(is_freed);
        for (of, mut what) in changes {
            if let What::Write { sequence, .. } = &mut what {
                self.sequence += 1;
                *sequence = self.sequence;
            }
            self.told.push((of, what));
        }
        self.told.extend(freed);
        self.end_transaction(session);
    }

    fn rollback(&mut self, session: SessionId) {
        for place in std::mem::take(&mut self.session(session).places) {
            // It may be gone with the disk.
            if let Some(slot) = self.slots.get_mut(&place) {
                slot.owner = None;
                slot.pending = None;
            }
        }
        // Of what it would have told, only that locks are free again is true.
        let told = std::mem::take(&mut self.session(session).told);
        let undone = told.into_iter().filter_map(|(of, what)| match what {
            What::Freed { .. } => Some((of, what)),
            What::Write { by, token, row, .. } => Some((of, What::RolledBack { by, token, row })),
            _ => None,
        });
        self.told.extend(undone);
        self.end_transaction(session);
    }

    fn end_transaction(&mut self, session: SessionId) {
        let freed = self.advisory.free(session, Scope::Transaction);
        self.tell_freed(freed);
    }

    fn tell_freed(&mut self, freed: Vec<(String, (NodeId, String))>) {
        let freed = freed.into_iter();
        self.told
            .extend(freed.map(|(key, (by, token))| (by, What::Freed { key, token })));
    }

    /// A place as a session sees it.
    fn seen(&mut self, session: SessionId, place: &Place) -> Option<Record> {
        let starts_at = self.starts_at;
        let slot = self.slots.entry(place.clone()).or_default();
        if slot.committed.is_none() && matches!(place, Place::Row(_)) {
            let mut record = Record::default();
            record.row.value = starts_at;
            slot.committed = Some(record);
        }
        let own = slot
            .pending
            .as_ref()
            .filter(|_| slot.owner == Some(session));
        own.or(slot.committed.as_ref()).cloned()
    }

    /// Locks a place for the session's transaction, or waits for it.
    fn lock(&mut self, session: SessionId, place: &Place) -> Result<&mut Slot, Unfinished> {
        let slot = self.slots.entry(place.clone()).or_default();
        match slot.owner {
            Some(owner) if owner == session => {}
            Some(_) => return Err(Unfinished::Waits(Target::Place(place.clone()))),
            None => {
                slot.owner = Some(session);
                let session = self.sessions.get_mut(&session).expect("connected");
                session.places.push(place.clone());
            }
        }
        Ok(slot)
    }

    /// An UPDATE of one place: before and after, or what did not meet the condition.
    fn update(
        &mut self,
        session: SessionId,
        place: &Place,
        meets: impl Fn(&Record) -> bool,
        change: impl Fn(&mut Record) -> Result<(), SqlError>,
    ) -> Result<(Record, Option<Record>), Unfinished> {
        // Whoever has waited locks the newest version first, and keeps it also if the condition no
        // longer holds there.
        if self.waited_for == Some(Target::Place(place.clone())) {
            self.lock(session, place)?;
        }
        let Some(before) = self.seen(session, place) else {
            return Ok((Record::default(), None));
        };
        if !meets(&before) {
            return Ok((before, None));
        }
        let mut after = before.clone();
        change(&mut after).map_err(Unfinished::Fails)?;
        self.lock(session, place)?.pending = Some(after.clone());
        Ok((before, Some(after)))
    }

    fn run(&mut self, session: SessionId, statement: &Statement) -> Result<Reply, Unfinished> {
        let (by, wall) = (statement.by, self.wall);
        let token = &statement.request.token;
        let operation = &statement.request.operation;
        if self.sessions[&session].aborted
            && !matches!(operation, Operation::Commit | Operation::Rollback)
        {
            return Err(Unfinished::Fails(SqlError::InFailedTransaction));
        }
        match operation {
            Operation::Read { row } => {
                let state = self.seen(session, &Place::Row(*row)).expect("rows exist");
                self.tell_read(by, token, *row, state.row);
                Ok(Reply::Row(state.row))
            }
            Operation::Claim { row, fence } => {
                let again =
                    |r: &Record| r.row.fence == *fence && r.claimed_by.as_ref() == Some(token);
                let (before, after) = self.update(
                    session,
                    &Place::Row(*row),
                    |r| r.row.fence < *fence || again(r),
                    |r| {
                        r.row.fence = *fence;
                        r.claimed_by = Some(token.clone());
                        Ok(())
                    },
                )?;
                let Some(after) = after else {
                    let (token, row, fence) = (token.clone(), *row, *fence);
                    let state = before.row;
                    let refused = What::RefusedClaim {
                        by,
                        token,
                        row,
                        fence,
                        state,
                    };
                    self.told.push((NodeId::Store, refused));
                    return Ok(Reply::Refused);
                };
                self.tell_read(by, token, *row, after.row);
                Ok(Reply::Row(after.row))
            }
            Operation::Write { row, value, guard } => {
                let set = |_: i64| Some(*value);
                self.write(session, statement, *row, *guard, set)
            }
            Operation::Add { row, value, guard } => {
                let add = |old: i64| old.checked_add(*value);
                self.write(session, statement, *row, *guard, add)
            }
            Operation::Insert {
                row,
                value,
                or_nothing,
            } => self.insert(session, statement, *row, *value, *or_nothing),
            Operation::NextValue => {
                self.fences += 1;
                let number = self.fences;
                // No ROLLBACK gives it back, so that it is told at once.
                let drawn = What::Drawn { by, number };
                self.told.push((NodeId::Store, drawn));
                Ok(Reply::Number { number })
            }
            Operation::Begin => {
                self.session(session).in_block = true;
                Ok(Reply::Done)
            }
            Operation::Commit if !self.sessions[&session].aborted => {
                self.commit(session);
                self.session(session).in_block = false;
                Ok(Reply::Done)
            }
            Operation::Commit | Operation::Rollback => {
                self.rollback(session);
                *self.session(session) = Session::default();
                Ok(Reply::RolledBack)
            }
            Operation::Lock { key, scope, waits } => {
                match self.advisory.owner(key) {
                    Some(owner) if owner != session => {
                        if *waits {
                            return Err(Unfinished::Waits(Target::Key(key.clone())));
                        }
                        return Ok(Reply::Refused);
                    }
                    _ => {}
                }
                self.advisory
                    .take(key, session, *scope, (by, token.clone()));
                let (key, token) = (key.clone(), token.clone());
                self.told.push((by, What::Granted { key, token }));
                // A lock of a transaction that is one statement long is free again at once.
                Ok(Reply::Accepted)
            }
            Operation::Unlock { key } => {
                let Some(freed) = self.advisory.unlock(key, session, token) else {
                    return Ok(Reply::Refused);
                };
                // The history is told who did it.
                self.tell_freed(vec![(key.clone(), (by, freed.1))]);
                Ok(Reply::Accepted)
            }
            Operation::Lease { key, lasts } => self.lease(session, statement, key, *lasts),
            Operation::EndLease { key } => {
                let (_, after) = self.update(
                    session,
                    &Place::Lease(key.clone()),
                    |r| r.taken_by.as_ref() == Some(token) && r.taken_until != Some(0),
                    |r| {
                        r.taken_until = Some(0);
                        Ok(())
                    },
                )?;
                if after.is_none() {
                    return Ok(Reply::Refused);
                }
                self.tell_lease(session, by, key, None);
                Ok(Reply::Accepted)
            }
            Operation::TakeNext { of } => {
                let Some((next, state)) = self.next_free(session, of, |_| true) else {
                    return Ok(Reply::Refused);
                };
                self.lock(session, &Place::Row(next.row))?;
                let (key, token) = (next.key.clone(), token.clone());
                let granted = What::Granted {
                    key: key.clone(),
                    token: token.clone(),
                };
                self.told.push((by, granted));
                self.tell_read(by, &token, next.row, state.row);
                let freed = (by, What::Freed { key, token });
                self.session(session).told.push(freed);
                Ok(Reply::Chosen {
                    id: next.row,
                    row: state.row,
                })
            }
            Operation::ClaimNext { of, lasts } => {
                let over = |r: &Record| r.taken_until.is_none_or(|until| until <= wall);
                let Some((next, mut state)) = self.next_free(session, of, over) else {
                    return Ok(Reply::Refused);
                };
                let until = lasts.map_or(Millis::MAX, |lasts| wall + lasts);
                state.taken_by = Some(token.clone());
                state.taken_until = Some(until);
                self.lock(session, &Place::Row(next.row))?.pending = Some(state.clone());
                self.tell_lease(session, by, &next.key, Some((token, until)));
                self.tell_read(by, token, next.row, state.row);
                Ok(Reply::Chosen {
                    id: next.row,
                    row: state.row,
                })
            }
            Operation::Unclaim { of } => {
                let (_, after) = self.update(
                    session,
                    &Place::Row(of.row),
                    |r| r.taken_by.as_ref() == Some(token),
                    |r| {
                        (r.taken_by, r.taken_until) = (None, None);
                        Ok(())
                    },
                )?;
                if after.is_none() {
                    return Ok(Reply::Refused);
                }
                self.tell_lease(session, by, &of.key, None);
                Ok(Reply::Accepted)
            }
        }
    }

    fn write(
        &mut self,
        session: SessionId,
        statement: &Statement,
        row: u32,
        guard: Guard,
        reckon: impl Fn(i64) -> Option<i64>,
    ) -> Result<Reply, Unfinished> {
        let token = &statement.request.token;
        let meets = |r: &Record| match guard {
            Guard::Plain => true,
            Guard::Fence {
                fence,
                comparator: Comparator::Strict,
            } => r.row.fence < fence,
            Guard::Fence {
                fence,
                comparator: Comparator::AtLeast,
            } => r.row.fence <= fence,
            Guard::Claimed { fence } => r.row.fence == fence,
            Guard::Version { version } => r.row.version == version,
            Guard::Least { value } => r.row.value >= value,
            Guard::Taken => r.taken_by.as_ref() == Some(token),
            Guard::Absent => r.row.version == 0,
        };
        let change = |r: &mut Record| {
            r.row.value = reckon(r.row.value).ok_or(SqlError::OutOfRange)?;
            r.row.version += 1;
            if let Guard::Fence { fence, .. } = guard {
                r.row.fence = fence;
            }
            Ok(())
        };
        let (before, after) = self.update(session, &Place::Row(row), meets, change)?;
        let accepted = after.is_some();
        let value = match after {
            Some(after) => after.row.value,
            None => reckon(before.row.value).unwrap_or(before.row.value),
        };
        let adds = matches!(statement.request.operation, Operation::Add { .. });
        let write = What::Write {
            sequence: 0,
            by: statement.by,
            token: token.clone(),
            row,
            value,
            adds,
            guard,
            accepted,
            before: before.row,
        };
        Ok(self.tell_write(session, write, accepted))
    }

    fn insert(
        &mut self,
        session: SessionId,
        statement: &Statement,
        row: u32,
        value: i64,
        or_nothing: bool,
    ) -> Result<Reply, Unfinished> {
        let place = Place::Mark(row);
        let before = self.seen(session, &place);
        let write = |before: Row, accepted: bool| What::Write {
            sequence: 0,
            by: statement.by,
            token: statement.request.token.clone(),
            row,
            value,
            adds: false,
            guard: Guard::Absent,
            accepted,
            before,
        };
        if let Some(before) = before {
            if or_nothing {
                return Ok(self.tell_write(session, write(before.row, false), false));
            }
            return Err(Unfinished::Fails(SqlError::UniqueViolation));
        }
        let mut record = Record::default();
        record.row.value = value;
        record.row.version = 1;
        self.lock(session, &place)?.pending = Some(record);
        Ok(self.tell_write(session, write(Row::default(), true), true))
    }

    fn lease(
        &mut self,
        session: SessionId,
        statement: &Statement,
        key: &str,
        lasts: Millis,
    ) -> Result<Reply, Unfinished> {
        let place = Place::Lease(key.to_owned());
        let wall = self.wall;
        // ON CONFLICT DO UPDATE locks the row before it looks at the condition.
        self.lock(session, &place)?;
        let before = self.seen(session, &place);
        if let Some(before) = &before
            && before.taken_until.is_some_and(|until| until > wall)
        {
            return Ok(Reply::Refused);
        }
        let mut record = before.unwrap_or_default();
        record.row.fence += 1;
        record.taken_by = Some(statement.request.token.clone());
        record.taken_until = Some(wall + lasts);
        let number = record.row.fence;
        self.lock(session, &place)?.pending = Some(record);
        let held = Some((&statement.request.token, wall + lasts));
        self.tell_lease(session, statement.by, key, held);
        Ok(Reply::Number { number })
    }

    /// The first row that is to do, that nobody else has locked, and that `also` holds of.
    fn next_free(
        &mut self,
        session: SessionId,
        of: &[super::Place],
        also: impl Fn(&Record) -> bool,
    ) -> Option<(super::Place, Record)> {
        let mut of = of.to_vec();
        of.sort_by_key(|place| place.row);
        of.into_iter().find_map(|next| {
            let place = Place::Row(next.row);
            let state = self.seen(session, &place)?;
            let owner = self.slots[&place].owner;
            let free = owner.is_none_or(|owner| owner == session);
            (free && state.row.value == 0 && also(&state)).then_some((next, state))
        })
    }

    fn tell_read(&mut self, by: NodeId, token: &str, row: u32, state: Row) {
        let token = token.to_owned();
        let read = What::Read {
            by,
            token,
            row,
            state,
        };
        self.told.push((NodeId::Store, read));
    }

    /// A refused write has its number at once.
    fn tell_write(&mut self, session: SessionId, mut write: What, accepted: bool) -> Reply {
        if accepted {
            self.session(session).told.push((NodeId::Store, write));
            return Reply::Accepted;
        }
        self.sequence += 1;
        if let What::Write { sequence, .. } = &mut write {
            *sequence = self.sequence;
        }
        self.told.push((NodeId::Store, write));
        Reply::Refused
    }

    /// At commit a lease is somebody's, or nobody's. A key is hidden after its deadline, a lease is
    /// over at its own.
    fn tell_lease(
        &mut self,
        session: SessionId,
        by: NodeId,
        key: &str,
        held: Option<(&String, Millis)>,
    ) {
        let after = held.map(|(token, until)| Stored {
            value: token.clone(),
            tracked: None,
            deadline: (until != Millis::MAX).then(|| until.saturating_sub(1)),
        });
        let changed = What::Changed {
            by: Some(by),
            key: key.to_owned(),
            before: None,
            after,
        };
        self.session(session).told.push((NodeId::Store, changed));
    }
}

#[cfg(test)]
mod tests;
