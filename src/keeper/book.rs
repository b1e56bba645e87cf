//! What the keeper has to do: which lease is to be renewed when, which has ended, and who is to be told. Time is passed
//! in, and nothing is sent.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use crate::{
    lock::{
        lease::{Lease, State},
        options::Limits,
        ports::{Alarm, Fault, Renewals},
        time::Moment,
        ttl::Ttl,
    },
    stats::{self, Counter},
};

/// A lease to look after.
pub struct Watched {
    pub lease: Arc<Lease>,
    /// How it is renewed; None: it is not, and only its end is watched.
    pub upkeep: Option<Upkeep>,
    pub alarm: Option<Arc<dyn Alarm>>,
}

/// How a lease is renewed.
#[derive(Clone)]
pub struct Upkeep {
    pub ttl: Ttl,
    /// When renewal ends.
    pub until: Moment,
    /// Leases of one address share a connection.
    pub address: Arc<str>,
    pub server: Arc<dyn Renewals>,
    pub limits: Limits,
}

/// Why a lease ended before its holder released it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It was not renewed, or not any more.
    RanOut,
    /// The server says that the key is not ours.
    NotOurs,
    /// It could not be renewed in time; what went wrong last.
    NotRenewed(Fault),
}

/// A lease to be renewed now.
pub struct Due {
    pub id: u64,
    pub lease: Arc<Lease>,
    pub upkeep: Upkeep,
}

/// What became of a renewal.
pub struct Note {
    pub id: u64,
    pub outcome: Outcome,
}

pub enum Outcome {
    Renewed,
    /// The server says that it is not ours; whether that is a loss.
    Refused {
        is_loss: bool,
    },
    /// To be tried again after this pause.
    Failed(Fault, Duration),
    /// It was not asked for: its holder was at it.
    NotNow,
}

#[derive(Default)]
pub struct Book {
    entries: HashMap<u64, Entry>,
    /// When each is to be looked at.
    agenda: BTreeSet<(Moment, u64)>,
    last_id: u64,
    alarms: usize,
    /// Until when the thread sleeps; None: it is awake, or will be in a moment.
    sleeps_until: Option<Moment>,
}

struct Entry {
    watched: Watched,
    /// When it is to be looked at: where it stands in the agenda.
    look: Moment,
    /// Not to be renewed before.
    not_before: Moment,
    is_being_renewed: bool,
    loss: Option<Loss>,
    fault: Option<Fault>,
}

/// Leases that are due within this are renewed in one go: a thread that wakes up for each costs more than they do.
const GATHERED: Duration = Duration::from_millis(100);
/// How often an alarm rings until it is heard: what it is to be heard by may have to hold it back.
const RINGS: Duration = Duration::from_millis(20);
/// How soon a lease is looked at again that its holder is at.
const SOON: Duration = Duration::from_millis(20);
/// A sleep may last longer than it seems, for its clock stands still while the machine is suspended.
const ALERT: Duration = Duration::from_secs(1);

impl Book {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn add(&mut self, watched: Watched, now: Moment) -> u64 {
        self.last_id += 1;
        self.alarms += usize::from(watched.alarm.is_some());
        let mut entry =
            Entry { watched, look: Moment::NEVER, not_before: now, is_being_renewed: false, loss: None, fault: None };
        entry.look = entry.next_look(now);
        self.agenda.insert((entry.look, self.last_id));
        self.entries.insert(self.last_id, entry);
        self.last_id
    }

    pub fn set_alarm(&mut self, id: u64, alarm: Option<Arc<dyn Alarm>>, now: Moment) {
        if let Some(entry) = self.entries.get_mut(&id) {
            self.alarms += usize::from(alarm.is_some());
            self.alarms -= usize::from(entry.watched.alarm.is_some());
            entry.watched.alarm = alarm;
            self.reschedule(id, now);
        }
    }

    pub fn loss(&self, id: u64) -> Option<Loss> {
        self.entries.get(&id)?.loss.clone()
    }

    pub fn remove(&mut self, id: u64) {
        if let Some(entry) = self.entries.remove(&id) {
            self.alarms -= usize::from(entry.watched.alarm.is_some());
            self.agenda.remove(&(entry.look, id));
        }
    }

    fn next_look(&self) -> Moment {
        self.agenda.first().map_or(Moment::NEVER, |(look, _)| *look)
    }

    /// Until when the thread may sleep, if it starts to now.
    pub fn sleep(&mut self, now: Moment, most: Moment) -> Moment {
        let most = if self.alarms > 0 { most.min(now.plus(ALERT)) } else { most };
        let until = self.next_look().min(most);
        self.sleeps_until = Some(until);
        until
    }

    /// Whether the thread would look too late. It is said once.
    pub fn is_to_wake(&mut self) -> bool {
        let next = self.next_look();
        self.sleeps_until.take_if(|until| next < *until).is_some()
    }

    /// Looks at what is to be looked at by now, and gives what is to be renewed.
    pub fn look(&mut self, now: Moment) -> Vec<Due> {
        self.sleeps_until = None;
        let soon: Vec<u64> = self.agenda.range(..=(now.plus(GATHERED), u64::MAX)).map(|(_, id)| *id).collect();
        let mut due = Vec::new();
        for id in soon {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            entry.look_at(now);
            if let Some(upkeep) = entry.is_due(now) {
                entry.is_being_renewed = true;
                due.push(Due { id, lease: entry.watched.lease.clone(), upkeep });
            }
            self.reschedule(id, now);
        }
        due
    }

    pub fn note(&mut self, note: Note, now: Moment) {
        let Some(entry) = self.entries.get_mut(&note.id) else { return };
        entry.note(note.outcome, now);
        entry.look_at(now);
        self.reschedule(note.id, now);
    }

    pub fn reschedule(&mut self, id: u64, now: Moment) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let look = entry.next_look(now);
            if look != entry.look {
                self.agenda.remove(&(entry.look, id));
                self.agenda.insert((look, id));
                entry.look = look;
            }
        }
    }
}

impl Entry {
    fn note(&mut self, outcome: Outcome, now: Moment) {
        self.is_being_renewed = false;
        match outcome {
            Outcome::Renewed => {
                stats::add(Counter::Renewals);
                self.fault = None;
                // A request of unknown fate may have left it so short a life that it would be due all the time.
                let ttl = self.watched.upkeep.as_ref().map(|upkeep| upkeep.ttl.as_duration());
                self.not_before = now.plus(ttl.unwrap_or_default().min(SOON) / 2);
            }
            Outcome::Refused { is_loss: true } => self.lost(Loss::NotOurs),
            Outcome::Refused { is_loss: false } => {}
            Outcome::Failed(fault, pause) => {
                stats::add(Counter::RenewalErrors);
                self.fault = Some(fault);
                self.not_before = now.plus(pause);
            }
            Outcome::NotNow => self.not_before = now.plus(SOON),
        }
    }

    fn look_at(&mut self, now: Moment) {
        if self.watched.lease.is_over(now) {
            self.lost(self.fault.clone().map_or(Loss::RanOut, Loss::NotRenewed));
        }
        if self.loss.is_some()
            && let Some(alarm) = &self.watched.alarm
        {
            alarm.ring();
        }
    }

    fn lost(&mut self, loss: Loss) {
        if self.watched.lease.notice_loss() {
            stats::add(Counter::Lost);
        }
        self.loss = Some(loss);
    }

    fn is_due(&self, now: Moment) -> Option<Upkeep> {
        let upkeep = self.watched.upkeep.as_ref()?;
        let early = GATHERED.min(upkeep.ttl.as_duration() / 24);
        (self.due()? <= now.plus(early) && self.not_before <= now).then(|| upkeep.clone())
    }

    /// When it is to be renewed: at a third of the ttl.
    fn due(&self) -> Option<Moment> {
        let Watched { lease, upkeep, .. } = &self.watched;
        let upkeep = upkeep.as_ref().filter(|_| lease.state() == State::Held && !self.is_being_renewed)?;
        let left = lease.at_most(upkeep.ttl).as_duration() * 2 / 3;
        Some(lease.valid_until().minus(left).max(self.not_before)).filter(|due| *due < upkeep.until)
    }

    fn next_look(&self, now: Moment) -> Moment {
        if self.loss.is_some() {
            return if self.watched.alarm.is_some() { now.plus(RINGS) } else { Moment::NEVER };
        }
        if self.watched.lease.state() != State::Held {
            // It is being released, or was, and forgotten right after.
            return Moment::NEVER;
        }
        // While it is being released, its end is nobody's concern.
        let end = self.watched.lease.valid_until();
        let end = if end <= now { now.plus(SOON) } else { end };
        self.due().map_or(end, |due| due.min(end))
    }
}
