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
        ports::{Alarm, Fault, RenewalServer},
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
    pub server: Arc<dyn RenewalServer>,
    pub limits: Limits,
}

/// Why a lease ended before its holder released it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It was not renewed.
    RanOut,
    /// It was not renewed any more: its holder held it for too long.
    MaxHold,
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
    /// It was over before the answer came: told lost, or released.
    Over,
    /// The server says that it is not ours.
    Lost,
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

/// When one is due, those that are due within this are renewed with it: to wake up costs more than twenty renewals.
const GATHERED: Duration = Duration::from_millis(200);
/// How often an alarm rings until it is heard: what it is to be heard by may have to hold it back.
const RINGS: Duration = Duration::from_millis(20);
/// How soon a lease is looked at again that its holder is at.
const SOON: Duration = Duration::from_millis(20);
/// Between two renewals: a request of unknown fate may have left a lease so short a life that it would be due all the time.
const SHORTEST: Duration = Duration::from_millis(10);
/// A sleep may last longer than it seems, for its clock stands still while the machine is suspended.
const ALERT: Duration = Duration::from_secs(1);

impl Book {
    /// How many leases have not ended.
    pub fn count(&self) -> usize {
        self.entries.values().filter(|entry| entry.loss.is_none()).count()
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
    pub fn is_to_wake(&mut self, now: Moment) -> bool {
        let alert = if self.alarms > 0 { now.plus(ALERT) } else { Moment::NEVER };
        let next = self.next_look().min(alert);
        self.sleeps_until.take_if(|until| next < *until).is_some()
    }

    /// Looks at what is to be looked at by now, and gives what is to be renewed.
    pub fn look(&mut self, now: Moment) -> Vec<Due> {
        self.sleeps_until = None;
        // Nothing is gathered before the first of them is due: the thread wakes up for other things as well.
        let until = if self.next_look() <= now { now.plus(GATHERED) } else { now };
        let mut soon = Vec::new();
        while let Some(next) = self.agenda.first().copied().filter(|(look, _)| *look <= until) {
            self.agenda.pop_first();
            soon.push(next);
        }
        let mut due = Vec::new();
        for (_, id) in soon {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            entry.look_at(now);
            if let Some(upkeep) = entry.is_due(now) {
                entry.is_being_renewed = true;
                due.push(Due { id, lease: entry.watched.lease.clone(), upkeep });
            }
            entry.look = entry.next_look(now);
            self.agenda.insert((entry.look, id));
        }
        due
    }

    /// Whether it is looked after still.
    pub fn has(&self, id: u64) -> bool {
        self.entries.contains_key(&id)
    }

    /// The thread begins anew: nothing is under way.
    pub fn begin_anew(&mut self, now: Moment) {
        self.agenda.clear();
        for (id, entry) in &mut self.entries {
            entry.is_being_renewed = false;
            entry.look = entry.next_look(now);
            self.agenda.insert((entry.look, *id));
        }
    }

    pub fn note(&mut self, note: Note, now: Moment) {
        let Some(entry) = self.entries.get_mut(&note.id) else { return };
        entry.note(note.outcome, now);
        entry.look_at(now);
        entry.reschedule(note.id, &mut self.agenda, now);
    }

    pub fn reschedule(&mut self, id: u64, now: Moment) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.reschedule(id, &mut self.agenda, now);
        }
    }
}

impl Entry {
    fn reschedule(&mut self, id: u64, agenda: &mut BTreeSet<(Moment, u64)>, now: Moment) {
        let look = self.next_look(now);
        if look != self.look {
            agenda.remove(&(self.look, id));
            agenda.insert((look, id));
            self.look = look;
        }
    }

    fn note(&mut self, outcome: Outcome, now: Moment) {
        self.is_being_renewed = false;
        match outcome {
            Outcome::Renewed => {
                stats::add(Counter::Renewals);
                self.fault = None;
                self.not_before = now.plus(SHORTEST);
            }
            Outcome::Lost => self.lost(Loss::NotOurs),
            Outcome::Over => {}
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
            let was_limited = self.watched.upkeep.as_ref().is_some_and(|upkeep| upkeep.until <= now);
            let without_fault = if was_limited { Loss::MaxHold } else { Loss::RanOut };
            self.lost(self.fault.clone().map_or(without_fault, Loss::NotRenewed));
        }
        if self.loss.is_none() && self.watched.lease.state() == State::Lost {
            // Its holder was told so, by a refresh.
            self.lost(Loss::NotOurs);
        }
        if self.loss.is_some()
            && let Some(alarm) = &self.watched.alarm
        {
            alarm.ring();
        }
    }

    fn lost(&mut self, loss: Loss) {
        stats::count_loss(&self.watched.lease);
        self.loss = Some(loss);
    }

    fn is_due(&self, now: Moment) -> Option<Upkeep> {
        let upkeep = self.watched.upkeep.as_ref()?;
        let early = GATHERED.min(upkeep.ttl.as_duration() / 24);
        (self.due(now)? <= now.plus(early) && self.not_before <= now).then(|| upkeep.clone())
    }

    /// When it is to be renewed: at a third of the ttl, and not once its renewal has ended, however late this thread runs.
    fn due(&self, now: Moment) -> Option<Moment> {
        let Watched { lease, upkeep, .. } = &self.watched;
        let upkeep = upkeep.as_ref().filter(|_| lease.state() == State::Held && !self.is_being_renewed)?;
        let left = lease.at_most(upkeep.ttl).as_duration() * 2 / 3;
        Some(lease.valid_until().minus(left).max(self.not_before)).filter(|due| now.max(*due) < upkeep.until)
    }

    fn next_look(&self, now: Moment) -> Moment {
        if self.loss.is_some() {
            return if self.watched.alarm.is_some() { now.plus(RINGS) } else { Moment::NEVER };
        }
        match self.watched.lease.state() {
            State::Held => {}
            State::Lost => return now,
            // It is being released, or was, and forgotten right after.
            _ => return Moment::NEVER,
        }
        // While it is being released, its end is nobody's concern.
        let end = self.watched.lease.valid_until();
        let end = if end <= now { now.plus(SOON) } else { end };
        self.due(now).map_or(end, |due| due.min(end))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;
    use crate::{
        lock::{keys::Key, token::Token},
        memory::Memory,
    };

    #[derive(Default)]
    struct Bell(AtomicU32);

    impl Alarm for Bell {
        fn ring(&self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn ttl(ms: u64) -> Ttl {
        Ttl::from_seconds(ms as f64 / 1e3).unwrap()
    }

    /// Held from 0 on.
    fn lease(ms: u64) -> Arc<Lease> {
        let lease = Lease::new(Arc::new(Key::new(b"", b"k").unwrap()), Token::new([0; 16], None), 0);
        lease.granted(at(0), ttl(ms), None);
        Arc::new(lease)
    }

    fn renewed(lease: &Arc<Lease>, ms: u64, until: u64) -> Watched {
        let limits = Limits { connect: Duration::from_secs(1), command: Duration::from_secs(1) };
        let upkeep = Upkeep { ttl: ttl(ms), until: at(until), address: "a".into(), server: Arc::new(Memory), limits };
        Watched { lease: lease.clone(), upkeep: Some(upkeep), alarm: None }
    }

    /// Sleeps as the thread does, and gives when it looks again.
    fn next_look(book: &mut Book, now: u64) -> u64 {
        book.sleep(at(now), Moment::NEVER).as_nanos().div_ceil(1_000_000)
    }

    fn fault() -> Fault {
        let cause = crate::lock::ports::Cause::NoAnswer("silence".into());
        Fault { server: "a".into(), cause }
    }

    #[test]
    fn a_lease_is_renewed_at_a_third_of_its_ttl() {
        let (mut book, lease) = (Book::default(), lease(3_000));
        let id = book.add(renewed(&lease, 3_000, u64::MAX / 1_000_000), at(0));
        let due = next_look(&mut book, 0);
        assert!((900..=1_000).contains(&due), "{due}");
        assert!(book.look(at(500)).is_empty());
        assert_eq!(book.look(at(due)).len(), 1);
        assert!(book.look(at(due + 10)).is_empty(), "it is under way");
        assert_eq!(next_look(&mut book, due), 2_968, "its end is not missed meanwhile");
        lease.renewed(at(due), ttl(3_000), at(due + 1));
        book.note(Note { id, outcome: Outcome::Renewed }, at(due + 1));
        let next = next_look(&mut book, due + 1);
        assert!((due + 900..=due + 1_000).contains(&next), "{next}");
    }

    #[test]
    fn what_is_due_at_nearly_the_same_time_is_renewed_in_one_go() {
        let mut book = Book::default();
        let leases: Vec<_> = (0..100).map(|_| lease(10_000)).collect();
        for (index, lease) in leases.iter().enumerate() {
            lease.granted(at(index as u64), ttl(10_000), None);
            book.add(renewed(lease, 10_000, u64::MAX / 1_000_000), at(index as u64));
        }
        let due = next_look(&mut book, 100);
        assert!(book.look(at(due - 1)).is_empty(), "not before the first of them is due, whatever it wakes up for");
        assert_eq!(book.look(at(due)).len(), 100);
    }

    #[test]
    fn an_early_one_is_not_renewed_again_and_again() {
        let (mut book, lease) = (Book::default(), lease(100));
        let id = book.add(renewed(&lease, 100, u64::MAX / 1_000_000), at(0));
        let mut renewals = 0;
        for now in 0..1_000 {
            if !book.look(at(now)).is_empty() {
                renewals += 1;
                lease.renewed(at(now), ttl(100), at(now));
                book.note(Note { id, outcome: Outcome::Renewed }, at(now));
            }
        }
        assert!((25..=45).contains(&renewals) && lease.is_valid(at(1_000)), "{renewals}");
    }

    #[test]
    fn after_a_failure_it_is_tried_again_until_it_ends() {
        let (mut book, lease, bell) = (Book::default(), lease(1_000), Arc::new(Bell::default()));
        let id = book.add(renewed(&lease, 1_000, u64::MAX / 1_000_000), at(0));
        book.set_alarm(id, Some(bell.clone()), at(0));
        let mut tries = 0;
        for now in 0..988 {
            if !book.look(at(now)).is_empty() {
                tries += 1;
                book.note(Note { id, outcome: Outcome::Failed(fault(), Duration::from_millis(50)) }, at(now));
            }
            assert_eq!(book.loss(id), None, "{now}");
        }
        assert!((10..=15).contains(&tries), "{tries}");
        assert_eq!((book.count(), bell.0.load(SeqCst)), (1, 0));
        assert!(book.look(at(988)).is_empty());
        assert_eq!(book.loss(id), Some(Loss::NotRenewed(fault())));
        assert_eq!((book.count(), bell.0.load(SeqCst)), (0, 1));
        assert!(lease.is_expired(at(988)));
        let again = next_look(&mut book, 988);
        book.look(at(again));
        assert_eq!((again, bell.0.load(SeqCst)), (1_008, 2), "until it is heard");
        book.set_alarm(id, None, at(again));
        assert_eq!(book.sleep(at(again), Moment::NEVER), Moment::NEVER);
    }

    #[test]
    fn renewal_ends_and_the_lease_runs_out() {
        let (mut book, lease) = (Book::default(), lease(1_000));
        let id = book.add(renewed(&lease, 1_000, 500), at(0));
        assert!(book.look(at(501)).is_empty(), "the thread was late");
        assert_eq!(next_look(&mut book, 501), 988);
        book.look(at(988));
        assert_eq!(book.loss(id), Some(Loss::MaxHold));
    }

    #[test]
    fn what_is_released_is_neither_renewed_nor_lost() {
        let (mut book, lease) = (Book::default(), lease(1_000));
        let id = book.add(renewed(&lease, 1_000, u64::MAX / 1_000_000), at(0));
        lease.settled();
        assert!(book.look(at(400)).is_empty() && book.look(at(2_000)).is_empty());
        assert_eq!(book.loss(id), None);
        book.remove(id);
        assert_eq!((book.count(), book.sleep(at(2_000), Moment::NEVER)), (0, Moment::NEVER));
    }

    #[test]
    fn the_thread_is_woken_once_for_what_it_would_miss() {
        let mut book = Book::default();
        assert!(!book.is_to_wake(at(0)), "it has not gone to sleep");
        book.sleep(at(0), Moment::NEVER);
        let (long, short) = (lease(30_000), lease(1_000));
        book.add(renewed(&long, 30_000, u64::MAX / 1_000_000), at(0));
        assert!(book.is_to_wake(at(0)) && !book.is_to_wake(at(0)));
        book.sleep(at(0), Moment::NEVER);
        book.add(renewed(&lease(30_000), 30_000, u64::MAX / 1_000_000), at(0));
        assert!(!book.is_to_wake(at(0)));
        book.add(renewed(&short, 1_000, u64::MAX / 1_000_000), at(0));
        assert!(book.is_to_wake(at(0)));
    }

    #[test]
    fn a_bell_wakes_within_a_second_of_a_suspension() {
        let (mut book, lease) = (Book::default(), lease(30_000));
        let id = book.add(Watched { lease, upkeep: None, alarm: Some(Arc::<Bell>::default()) }, at(0));
        assert_eq!(next_look(&mut book, 0), 1_000);
        book.set_alarm(id, None, at(0));
        assert_eq!(next_look(&mut book, 0), 29_698);
        book.set_alarm(id, Some(Arc::<Bell>::default()), at(0));
        assert!(book.is_to_wake(at(0)), "it sleeps for longer");
        book.remove(id);
        assert_eq!(book.sleep(at(0), Moment::NEVER), Moment::NEVER);
    }
}
