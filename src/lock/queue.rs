//! The queue of a key: who waits for it, in the order of their tickets, and who is next.
//!
//! Redis holds it in a sorted set, and the scripts do what is said here; the store in memory does it with `Queue`.
//! A ticket is the time in microseconds, so that who comes back to its place finds itself before those who came meanwhile;
//! but never less than the last one and one more, so that a clock that steps breaks no queue's order.

use std::{collections::BTreeMap, time::Duration};

use super::{time::Moment, token::Token, ttl::Ttl};

/// How long an offer lasts, at most: so much a waiter costs the others that is stopped, or whose host has vanished.
pub const OFFER: Duration = Duration::from_secs(1);

/// The same for a waiter that cannot be told, of which nobody knows whether it lives. It looks twice in that time.
pub const OFFER_UNTOLD: Duration = Duration::from_millis(500);

/// How long a queue lives that nobody asks for. A waiter asks about once a second.
pub const QUEUE_TTL: Duration = Duration::from_secs(60);

/// So many waiters that cannot be told are dropped in one go: a server is not to be blocked by the dead of a disaster.
pub const DROPPED_AT_ONCE: usize = 1_000;

/// A waiter's place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the waiter's subscription: 16 hex digits.
    pub ear: String,
    /// Which of the waits of this subscription it is. What is meant for an earlier one is not for us.
    pub wait: u64,
    /// Whether it can be told of an offer. One that cannot looks for itself.
    pub is_told: bool,
    /// For how long it wants the key.
    pub ttl: Ttl,
    /// Its number in the queue; None: it has none yet. Kept, so that a waiter that was dropped returns to its place.
    pub ticket: Option<u64>,
}

impl Place {
    /// As the queue holds it: all that is needed to give the waiter the key and to tell it.
    pub fn entry(&self, token: &Token) -> Vec<u8> {
        let Self { ear, wait, ttl, is_told: _, ticket: _ } = self;
        [format!("{}:{ear}.{wait}:", ttl.as_millis()).as_bytes(), token.as_bytes()].concat()
    }
}

/// What a waiter that is in the queue is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    pub ticket: u64,
    /// How many are before it.
    pub ahead: u64,
    /// Whether it can be told of an offer. None: that cannot be known.
    pub heard: Option<bool>,
}

/// One that waits.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub place: Place,
    pub token: Token,
}

impl Waiter {
    /// For how long it is offered the key.
    pub fn offer(&self) -> Duration {
        self.place.ttl.as_duration().min(if self.place.is_told { OFFER } else { OFFER_UNTOLD })
    }
}

/// By ticket. Equal tickets, of which there are only after a clock was set back, are in the order of the entries.
#[derive(Debug, Default)]
pub struct Queue {
    waiters: BTreeMap<(u64, Vec<u8>), Waiter>,
    expires: Option<Moment>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub fn expire(&mut self, now: Moment) {
        if self.expires.is_some_and(|expires| expires <= now) {
            self.waiters.clear();
        }
    }

    /// Joins at the place's ticket, or as the last one. Who is in the queue already stays where it is. Gives the ticket,
    /// and how many are before it.
    pub fn join(&mut self, place: &Place, token: &Token, now: Moment) -> (u64, u64) {
        self.expires = Some(now.plus(QUEUE_TTL));
        let entry = place.entry(token);
        let known = self.waiters.keys().find(|(_, other)| *other == entry).cloned();
        let place_in_line = known.unwrap_or_else(|| {
            let next = self.waiters.last_key_value().map_or(0, |((ticket, _), _)| *ticket + 1);
            (place.ticket.unwrap_or(next.max(now.as_nanos() / 1_000)), entry)
        });
        self.waiters.insert(place_in_line.clone(), Waiter { place: place.clone(), token: token.clone() });
        let ahead = self.waiters.range(..place_in_line.clone()).count();
        (place_in_line.0, ahead as u64)
    }

    pub fn leave(&mut self, place: &Place, token: &Token) {
        let entry = place.entry(token);
        self.waiters.retain(|(_, other), _| *other != entry);
    }

    /// Takes the first one out that lives, as far as can be known; the dead before it are dropped. `giver`: the token that
    /// gives the key away, of which a place can only be what a late request has left behind. One that looks for itself is
    /// next where others would be told, and would overtake it; where nobody is, the key is free for who looks first.
    /// `before`: only one that is
    /// before this waiter, which may or may not be in the queue.
    pub fn next(&mut self, giver: &Token, before: Option<&Place>, hears: impl Fn(&Place) -> bool) -> Option<Waiter> {
        let own = before.map(|place| (place.ticket, place.entry(giver)));
        for _ in 0..DROPPED_AT_ONCE {
            let looks = self.waiters.first_key_value().is_some_and(|(_, first)| {
                !first.place.is_told && first.token != *giver && !before.is_some_and(|own| own.is_told)
            });
            let others = || self.waiters.values().skip(1).take(100);
            let would_overtake = looks && others().any(|other| other.place.is_told && hears(&other.place));
            let first = self.waiters.first_entry()?;
            let (ticket, entry) = first.key();
            if own.as_ref().is_some_and(|(own, it)| it == entry || own.is_some_and(|own| *ticket >= own)) {
                return None;
            }
            if looks && !would_overtake {
                return None;
            }
            let waiter = first.remove();
            if waiter.token != *giver && (!waiter.place.is_told || hears(&waiter.place)) {
                return Some(waiter);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> Place {
        let (ear, ttl) = (format!("{number:016x}"), Ttl::from_seconds(30.0).unwrap());
        Place { ear, wait: 1, is_told: true, ttl, ticket: None }
    }

    fn token(number: u64) -> Token {
        Token::from_bytes(&number.to_be_bytes())
    }

    const NOW: Moment = Moment::from_nanos(0);

    /// A queue in which these wait.
    fn queue(numbers: impl IntoIterator<Item = u64>) -> Queue {
        let mut queue = Queue::default();
        for number in numbers {
            queue.join(&place(number), &token(number), NOW);
        }
        queue
    }

    fn next(queue: &mut Queue, living: impl Fn(u64) -> bool) -> Option<Token> {
        let hears = |place: &Place| living(u64::from_str_radix(&place.ear, 16).unwrap());
        queue.next(&token(99), None, hears).map(|waiter| waiter.token)
    }

    #[test]
    fn first_come_first_served() {
        let mut queue = queue([3, 1, 2]);
        let order: Vec<_> = std::iter::from_fn(|| next(&mut queue, |_| true)).collect();
        assert_eq!(order, [token(3), token(1), token(2)]);
        assert!(queue.is_empty());
    }

    #[test]
    fn to_join_twice_is_to_join_once() {
        let mut queue = queue([1, 2]);
        let again = queue.join(&place(1), &token(1), NOW);
        assert_eq!(again, (0, 0));
        assert_eq!(queue.join(&place(3), &token(3), NOW), (2, 2));
        assert_eq!(queue.waiters.len(), 3);
    }

    #[test]
    fn who_cannot_be_told_is_dropped_and_may_return_to_its_place() {
        let mut queue = queue([1, 2, 3]);
        assert_eq!(next(&mut queue, |number| number == 2), Some(token(2)));
        let back = queue.join(&Place { ticket: Some(0), ..place(1) }, &token(1), NOW);
        assert_eq!(back, (0, 0));
        assert_eq!(next(&mut queue, |_| true), Some(token(1)));
        assert_eq!(next(&mut queue, |_| true), Some(token(3)));
    }

    #[test]
    fn who_comes_back_is_before_those_who_came_while_the_queue_was_gone() {
        let at = |ms: u64| Moment::from_nanos(ms * 1_000_000);
        let mut queue = Queue::default();
        let (ticket, _) = queue.join(&place(1), &token(1), at(5_000));
        assert_eq!(next(&mut queue, |_| false), None);
        assert!(queue.is_empty());
        queue.join(&place(2), &token(2), at(5_001));
        let back = queue.join(&Place { ticket: Some(ticket), ..place(1) }, &token(1), at(5_002));
        assert_eq!(back, (5_000_000, 0));
        // A clock that was set back makes nobody the first of those who wait.
        assert_eq!(queue.join(&place(3), &token(3), at(4_000)).1, 2);
    }

    #[test]
    fn who_looks_for_itself_is_next_where_others_are_told() {
        let mut queue = queue([1, 2]);
        queue.join(&Place { is_told: false, ..place(1) }, &token(1), NOW);
        assert_eq!(queue.waiters.len(), 2, "it is the same place");
        assert_eq!(next(&mut queue, |_| false), None, "nobody would overtake it");
        assert_eq!(next(&mut queue, |_| true), Some(token(1)));
        // So would one that asks and is told.
        queue.leave(&place(2), &token(2));
        queue.join(&Place { is_told: false, ..place(3) }, &token(3), NOW);
        assert!(queue.next(&token(9), Some(&Place { is_told: false, ..place(9) }), |_| true).is_none());
        assert_eq!(queue.next(&token(9), Some(&place(9)), |_| true).map(|next| next.token), Some(token(3)));
    }

    #[test]
    fn who_asks_gives_way_to_those_before_it_alone() {
        let mut queue = queue([1, 2, 3]);
        let (second, its) = (place(2), token(2));
        let mut before_the_second = |living: bool| queue.next(&its, Some(&second), |_| living).map(|next| next.token);
        assert_eq!(before_the_second(true), Some(token(1)));
        assert_eq!(before_the_second(true), None);
        // One that has been dropped knows its place by its ticket.
        queue.leave(&second, &its);
        let dropped = Place { ticket: Some(1), ..place(2) };
        assert!(queue.next(&its, Some(&dropped), |_| true).is_none());
        // Before a newcomer are all.
        assert_eq!(queue.next(&token(9), Some(&place(9)), |_| true).map(|next| next.token), Some(token(3)));
    }

    #[test]
    fn who_gives_the_key_away_does_not_get_it_back() {
        let mut queue = queue([1, 2]);
        assert_eq!(queue.next(&token(1), None, |_| true).map(|next| next.token), Some(token(2)));
    }

    #[test]
    fn who_leaves_is_not_next() {
        let mut queue = queue([1, 2]);
        queue.leave(&place(1), &token(1));
        assert_eq!(next(&mut queue, |_| true), Some(token(2)));
    }

    #[test]
    fn the_work_of_one_go_is_bounded() {
        let mut queue = queue(0..2_500);
        assert_eq!(next(&mut queue, |number| number == 2_400), None);
        assert_eq!(next(&mut queue, |number| number == 2_400), None);
        assert_eq!(next(&mut queue, |number| number == 2_400), Some(token(2_400)));
    }

    #[test]
    fn a_queue_that_nobody_asks_for_ends() {
        let mut queue = queue([1]);
        queue.expire(NOW.plus(QUEUE_TTL - Duration::from_millis(1)));
        assert!(!queue.is_empty());
        queue.expire(NOW.plus(QUEUE_TTL));
        assert!(queue.is_empty());
    }

    #[test]
    fn an_offer_is_never_longer_than_what_the_waiter_wants() {
        let offer = |seconds| {
            let ttl = Ttl::from_seconds(seconds).unwrap();
            [true, false].map(|is_told| Waiter { place: Place { ttl, is_told, ..place(1) }, token: token(1) }.offer())
        };
        assert_eq!(offer(30.0), [OFFER, OFFER_UNTOLD]);
        assert_eq!(offer(0.25), [Duration::from_millis(250); 2]);
    }
}
