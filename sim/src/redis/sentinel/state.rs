//! What a sentinel knows and concludes, without I/O.
//!
//! A master that has not answered a PING for `down_after` is *subjectively* down. When a quorum of
//! sentinels says so it is *objectively* down, and whoever notices asks the others for their votes
//! in a new epoch: each votes once per epoch, for whoever asks first. With a majority it promotes
//! the replica that has copied most, waits until that says it is a master, and tells everybody.

use crate::Millis;
use crate::NodeId;
use crate::redis::Sentinels;

/// How often a server is asked PING: `SENTINEL_PING_PERIOD`. As often are votes asked for.
pub(super) const PERIOD: Millis = 1_000;
/// How much later a second attempt may be, at random: `SENTINEL_MAX_DESYNC`.
pub(super) const DESYNC: Millis = 1_000;
/// How often a sentinel looks when something is going on: `hz 10`.
const LOOK: Millis = 100;
/// How often a server is asked INFO, save while the master is down: `SENTINEL_INFO_PERIOD`.
const INFO: Millis = 10_000;
/// How often the others hear who is the master: `SENTINEL_PUBLISH_PERIOD`.
const NEWS: Millis = 2_000;
/// For how long a server must have had the wrong role before it is corrected.
const WRONG: Millis = 4 * NEWS;
/// How long a candidate waits for votes: `SENTINEL_ELECTION_TIMEOUT`.
const ELECTION: Millis = 10_000;
/// For how long the word of another sentinel counts.
const WORD: Millis = 5 * PERIOD;

/// Something to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Send {
    /// To a server: are you there, and perhaps what are you?
    Ping { server: u16, info: bool },
    /// To another sentinel: is the master down, and do I have your vote?
    IsDown { peer: u16, epoch: u64, vote: bool },
    /// To another sentinel: who is the master.
    News { peer: u16 },
    /// To a server: follow this one, or nobody.
    Follow { server: u16, master: Option<u16> },
}

/// What a server said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Whom it follows; nobody if it is a master.
    pub(super) master: Option<u16>,
    /// How much it has copied.
    pub(super) offset: u64,
    /// For how long its link to the master has been down.
    pub(super) down_for: Millis,
}

#[derive(Debug, Default)]
struct Seen {
    next_ping: Millis,
    /// Since when a PING has not been answered.
    asked: Option<Millis>,
    /// A PING is on its way.
    pending: bool,
    told: Option<Told>,
    told_at: Millis,
    /// Since when it has had its role and master.
    role_since: Millis,
    /// When it was last down.
    last_down: Millis,
    corrected: Millis,
}

#[derive(Debug, Default)]
struct Peer {
    next_question: Millis,
    next_news: Millis,
    /// When it last said that the master is down.
    says_down: Option<Millis>,
    /// Whom it voted for, and when.
    vote: Option<(u64, u16)>,
}

#[derive(Clone, Copy, Debug)]
enum Failover {
    /// It has asked for votes.
    Election { epoch: u64, since: Millis },
    /// It has been elected, and has told a replica that it is a master now.
    Promotion {
        epoch: u64,
        replica: u16,
        since: Millis,
        next: Millis,
    },
}

/// What a sentinel knows.
#[derive(Debug)]
pub(super) struct State {
    me: u16,
    sentinels: Sentinels,
    epoch: u64,
    /// Its last vote: in which epoch, and for whom.
    voted: Option<(u64, u16)>,
    /// The epoch in which the master came to be it.
    config_epoch: u64,
    master: u16,
    servers: Vec<Seen>,
    peers: Vec<Peer>,
    failover: Option<Failover>,
    /// When it may next ask for votes.
    may_start: Millis,
}

impl State {
    pub(super) fn new(me: u16, servers: u16, sentinels: Sentinels) -> Self {
        Self {
            me,
            sentinels,
            epoch: 0,
            voted: None,
            config_epoch: 0,
            master: 1,
            servers: (0..servers).map(|_| Seen::default()).collect(),
            peers: (0..sentinels.number).map(|_| Peer::default()).collect(),
            failover: None,
            may_start: 0,
        }
    }

    pub(super) fn me(&self) -> NodeId {
        NodeId::Sentinel(self.me)
    }

    pub(super) fn master(&self) -> u16 {
        self.master
    }

    pub(super) fn news(&self) -> (u64, u64, u16) {
        (self.epoch, self.config_epoch, self.master)
    }

    fn failover_timeout(&self) -> Millis {
        5 * self.sentinels.down_after
    }

    fn seen(&mut self, server: u16) -> &mut Seen {
        &mut self.servers[usize::from(server) - 1]
    }

    fn is_silent(&self, server: u16, now: Millis) -> bool {
        let asked = self.servers[usize::from(server) - 1].asked;
        asked.is_some_and(|asked| now - asked > self.sentinels.down_after)
    }

    fn others(&self) -> impl Iterator<Item = u16> + use<> {
        let me = self.me;
        (1..=self.sentinels.number).filter(move |peer| *peer != me)
    }

    /// A PING was answered, or not.
    pub(super) fn ponged(&mut self, server: u16, answered: bool) {
        let seen = self.seen(server);
        seen.pending = false;
        if answered {
            seen.asked = None;
        }
    }

    /// INFO was answered.
    pub(super) fn told(&mut self, server: u16, told: Told, now: Millis) {
        let seen = self.seen(server);
        if seen.told.is_none_or(|before| before.master != told.master) {
            seen.role_since = now;
        }
        seen.told = Some(told);
        seen.told_at = now;
    }

    /// Another sentinel answered whether the master is down, and whom it voted for.
    pub(super) fn peer_says(
        &mut self,
        peer: u16,
        down: bool,
        vote: Option<(u64, u16)>,
        now: Millis,
    ) {
        let peer = &mut self.peers[usize::from(peer) - 1];
        peer.says_down = down.then_some(now);
        if vote.is_some() {
            peer.vote = vote;
        }
    }

    /// Another sentinel asks whether the master is down, and perhaps for a vote.
    pub(super) fn is_down(
        &mut self,
        master: Option<u16>,
        epoch: u64,
        candidate: Option<u16>,
        now: Millis,
    ) -> (bool, Option<(u64, u16)>) {
        let down = master == Some(self.master) && self.is_silent(self.master, now);
        let Some(candidate) = candidate else {
            return (down, None);
        };
        self.epoch = self.epoch.max(epoch);
        if epoch == self.epoch && self.voted.is_none_or(|(voted, _)| voted < epoch) {
            self.voted = Some((epoch, candidate));
            // It leaves the other one time to do it.
            self.may_start = now + 2 * self.failover_timeout();
        }
        (down, self.voted)
    }

    /// Another sentinel says who is the master.
    pub(super) fn heard(&mut self, epoch: u64, config_epoch: u64, master: u16) {
        self.epoch = self.epoch.max(epoch);
        if config_epoch > self.config_epoch {
            self.config_epoch = config_epoch;
            self.switch_to(master);
        }
    }

    fn switch_to(&mut self, master: u16) {
        self.master = master;
        self.failover = None;
        for peer in &mut self.peers {
            peer.says_down = None;
        }
    }

    /// How long nothing needs to be looked at.
    pub(super) fn rest(&self, now: Millis) -> Millis {
        let busy = self.failover.is_some() || self.servers.iter().any(|seen| seen.asked.is_some());
        let pings = self.servers.iter().map(|seen| seen.next_ping);
        let news = self
            .others()
            .map(|peer| self.peers[usize::from(peer) - 1].next_news);
        let next = pings.chain(news).min().unwrap_or(now + PERIOD);
        let rest = next.saturating_sub(now).max(1);
        if busy { rest.min(LOOK) } else { rest }
    }

    /// What is to be done now. `forced`: an operator wants another master. `desync` is a random
    /// delay below [`DESYNC`].
    pub(super) fn decide(&mut self, now: Millis, forced: bool, desync: Millis) -> Vec<Send> {
        let mut sends = Vec::new();
        self.ping(now, &mut sends);
        let down = self.is_silent(self.master, now);
        if forced && self.failover.is_none() {
            self.epoch += 1;
            self.voted = Some((self.epoch, self.me));
            self.promote(self.epoch, now);
        }
        if down && self.failover.is_none() && now >= self.may_start && self.agreed(now) {
            self.epoch += 1;
            self.voted = Some((self.epoch, self.me));
            self.failover = Some(Failover::Election {
                epoch: self.epoch,
                since: now,
            });
            self.may_start = now + 2 * self.failover_timeout() + desync;
            for peer in &mut self.peers {
                peer.next_question = now;
            }
        }
        match self.failover {
            Some(Failover::Election { epoch, since }) => {
                if self.votes(epoch) >= self.sentinels.quorum() {
                    self.promote(epoch, now);
                } else if now - since > ELECTION.min(self.failover_timeout()) {
                    self.failover = None;
                }
            }
            Some(Failover::Promotion { since, .. }) if now - since > self.failover_timeout() => {
                self.failover = None;
            }
            _ => {}
        }
        self.follow_up(now, &mut sends);
        self.talk(now, down, &mut sends);
        self.correct(now, &mut sends);
        sends
    }

    fn ping(&mut self, now: Millis, sends: &mut Vec<Send>) {
        let alarmed = self.is_silent(self.master, now) || self.failover.is_some();
        let period = if alarmed { PERIOD } else { INFO };
        for server in 1..=self.servers.len() as u16 {
            let silent = self.is_silent(server, now);
            let seen = self.seen(server);
            if silent {
                seen.last_down = now;
            }
            let info = seen.told.is_none() || now - seen.told_at >= period;
            // How far a replica is must be known before one is chosen.
            let hurries = alarmed && info && seen.asked.is_none();
            if (now >= seen.next_ping || hurries) && !seen.pending {
                seen.next_ping = now + PERIOD;
                seen.pending = true;
                seen.asked.get_or_insert(now);
                sends.push(Send::Ping { server, info });
            }
        }
    }

    /// Whether a quorum takes the master for dead.
    fn agreed(&self, now: Millis) -> bool {
        let fresh = |peer: &u16| {
            let says = self.peers[usize::from(*peer) - 1].says_down;
            says.is_some_and(|at| now - at < WORD)
        };
        1 + self.others().filter(fresh).count() >= self.sentinels.quorum()
    }

    fn votes(&self, epoch: u64) -> usize {
        let own = self.voted == Some((epoch, self.me));
        let mine = |peer: &u16| self.peers[usize::from(*peer) - 1].vote == Some((epoch, self.me));
        usize::from(own) + self.others().filter(mine).count()
    }

    /// Begins to promote the best replica, or gives up.
    fn promote(&mut self, epoch: u64, now: Millis) {
        self.failover = self.best(now).map(|replica| Failover::Promotion {
            epoch,
            replica,
            since: now,
            next: now,
        });
    }

    /// The replica that answers and has copied most; of equals the first.
    fn best(&self, now: Millis) -> Option<u16> {
        let dead_for = self.servers[usize::from(self.master) - 1].asked;
        let dead_for = dead_for.map_or(0, |asked| now - asked);
        let fresh = if self.is_silent(self.master, now) {
            5 * PERIOD
        } else {
            3 * INFO
        };
        let fit = (1..=self.servers.len() as u16).filter_map(|server| {
            let seen = &self.servers[usize::from(server) - 1];
            let told = seen.told.filter(|told| told.master.is_some())?;
            let fit = server != self.master
                && !self.is_silent(server, now)
                && now - seen.told_at <= fresh
                && told.down_for <= dead_for + 10 * self.sentinels.down_after;
            fit.then_some((told.offset, std::cmp::Reverse(server)))
        });
        fit.max().map(|(_, server)| server.0)
    }

    /// Tells the chosen replica that it is a master, until it says so.
    fn follow_up(&mut self, now: Millis, sends: &mut Vec<Send>) {
        let Some(Failover::Promotion {
            epoch,
            replica,
            since,
            next,
        }) = self.failover
        else {
            return;
        };
        let seen = &self.servers[usize::from(replica) - 1];
        if seen.told_at > since && seen.told.is_some_and(|told| told.master.is_none()) {
            self.config_epoch = epoch;
            self.switch_to(replica);
            for peer in &mut self.peers {
                peer.next_news = now;
            }
            for server in 1..=self.servers.len() as u16 {
                if server != replica && !self.is_silent(server, now) {
                    self.seen(server).corrected = now;
                    let master = Some(replica);
                    sends.push(Send::Follow { server, master });
                }
            }
        } else if now >= next {
            sends.push(Send::Follow {
                server: replica,
                master: None,
            });
            self.failover = Some(Failover::Promotion {
                epoch,
                replica,
                since,
                next: now + PERIOD,
            });
        }
    }

    /// Asks the other sentinels, and tells them.
    fn talk(&mut self, now: Millis, down: bool, sends: &mut Vec<Send>) {
        let vote = matches!(self.failover, Some(Failover::Election { .. }));
        let epoch = self.epoch;
        for peer in self.others() {
            let known = &mut self.peers[usize::from(peer) - 1];
            if down && now >= known.next_question {
                known.next_question = now + PERIOD;
                sends.push(Send::IsDown { peer, epoch, vote });
            }
            if now >= known.next_news {
                known.next_news = now + NEWS;
                sends.push(Send::News { peer });
            }
        }
    }

    /// Corrects servers that have had the wrong role or master for a while, as long as the master
    /// is well.
    fn correct(&mut self, now: Millis, sends: &mut Vec<Send>) {
        let master = &self.servers[usize::from(self.master) - 1];
        let well = master.asked.is_none_or(|asked| now - asked <= PERIOD)
            && now - master.told_at < 2 * INFO
            && master.told.is_some_and(|told| told.master.is_none());
        if !well || self.failover.is_some() {
            return;
        }
        let current = self.master;
        for server in (1..=self.servers.len() as u16).filter(|server| *server != current) {
            let seen = self.seen(server);
            let wrong = seen.told.is_some_and(|told| told.master != Some(current));
            if wrong
                && seen.asked.is_none_or(|asked| now - asked <= PERIOD)
                && now > seen.last_down + WRONG
                && now > seen.role_since + WRONG
                && now > seen.corrected + WRONG
                // What it said before it was down may have changed.
                && seen.told_at > seen.last_down
            {
                seen.corrected = now;
                let master = Some(current);
                sends.push(Send::Follow { server, master });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Sentinels = Sentinels {
        number: 3,
        down_after: 2_000,
    };

    /// A sentinel that knows of a master and two replicas, the second of which has copied more.
    fn knowing() -> State {
        let mut state = State::new(1, 3, THREE);
        state.decide(0, false, 0);
        for (server, master, offset) in [(1, None, 0), (2, Some(1), 10), (3, Some(1), 20)] {
            state.ponged(server, true);
            let down_for = 0;
            let told = Told {
                master,
                offset,
                down_for,
            };
            state.told(server, told, 5);
        }
        state
    }

    /// Lets time pass: the replicas answer, the master does not.
    fn silence(state: &mut State, from: Millis, until: Millis) -> Vec<Send> {
        let mut all = Vec::new();
        for now in (from..=until).step_by(100) {
            for send in state.decide(now, false, 0) {
                if let Send::Ping { server, .. } = send {
                    state.ponged(server, server != 1);
                }
                all.push(send);
            }
        }
        all
    }

    #[test]
    fn one_sentinel_alone_promotes_nobody() {
        let mut state = knowing();
        let sends = silence(&mut state, 1_000, 30_000);
        assert!(sends.iter().any(|send| matches!(send, Send::IsDown { .. })));
        assert!(!sends.iter().any(|send| matches!(send, Send::Follow { .. })));
    }

    #[test]
    fn a_quorum_and_a_majority_promote_the_replica_that_has_copied_most() {
        let mut state = knowing();
        silence(&mut state, 1_000, 3_200);
        state.peer_says(2, true, None, 3_200);
        silence(&mut state, 3_300, 3_300);
        assert_eq!(state.epoch, 1);
        state.peer_says(2, true, Some((1, 1)), 3_350);
        let sends = silence(&mut state, 3_400, 3_400);
        let promotion = Send::Follow {
            server: 3,
            master: None,
        };
        assert!(sends.contains(&promotion), "{sends:?}");
        assert_eq!(state.master(), 1, "it has not said so yet");
        let told = Told {
            master: None,
            offset: 20,
            down_for: 0,
        };
        state.told(3, told, 3_450);
        let sends = silence(&mut state, 3_500, 3_500);
        let other = Send::Follow {
            server: 2,
            master: Some(3),
        };
        assert!(sends.contains(&other), "{sends:?}");
        assert_eq!((state.master(), state.config_epoch), (3, 1));
    }

    #[test]
    fn a_vote_is_given_once_in_an_epoch() {
        let mut state = knowing();
        assert_eq!(state.is_down(Some(1), 5, Some(2), 100).1, Some((5, 2)));
        assert_eq!(state.is_down(Some(1), 5, Some(3), 110).1, Some((5, 2)));
        assert_eq!(state.is_down(Some(1), 4, Some(3), 120).1, Some((5, 2)));
        assert_eq!(state.is_down(Some(1), 6, Some(3), 130).1, Some((6, 3)));
    }

    #[test]
    fn an_old_master_that_comes_back_is_corrected_after_a_while() {
        let mut state = knowing();
        state.heard(1, 1, 2);
        let master = Told {
            master: None,
            offset: 0,
            down_for: 0,
        };
        let mut corrected = Vec::new();
        for now in (1_000..20_000).step_by(100) {
            for send in state.decide(now, false, 0) {
                match send {
                    Send::Ping { server, .. } => {
                        state.ponged(server, true);
                        if server < 3 {
                            state.told(server, master, now);
                        }
                    }
                    Send::Follow { server: 1, .. } => corrected.push(now),
                    _ => {}
                }
            }
        }
        assert_eq!(
            corrected.len(),
            2,
            "again, if it does not obey: {corrected:?}"
        );
        assert!(corrected[0] > 8_000);
    }
}
