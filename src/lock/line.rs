//! A waiter's place in the queue, and what it hears of offers by.

use std::time::Duration;

use super::{
    ports::{Call, Cause, Fault, Subscription},
    queue::Place,
    time::Moment,
    ttl::Ttl,
};

pub struct Line {
    pub subscription: Box<dyn Subscription>,
    pub place: Place,
    last_try: Option<Moment>,
    /// After which we may try again to listen.
    pause: Duration,
}

impl Line {
    /// A subscription that is lost is renewed at once; if that does not last as long, after a pause, and a longer one each
    /// time: the server, or what stands before it, does not want it, or is not where our requests go. Meanwhile we look
    /// for ourselves.
    const LEAST_PAUSE: Duration = Duration::from_secs(1);
    const LONGEST_PAUSE: Duration = Duration::from_secs(60);

    pub fn new(subscription: Box<dyn Subscription>, ttl: Ttl, is_told: bool) -> Self {
        let place = Place { ear: subscription.ear().into(), wait: subscription.begin(), is_told, ttl, ticket: None };
        Self { subscription, place, last_try: None, pause: Duration::ZERO }
    }

    pub fn may_listen(&self, now: Moment) -> bool {
        self.last_try.is_none_or(|last| now.since(last) >= self.pause)
    }

    /// Listens, if it is time to. Where that fails, we look for ourselves; whether the server is there at all, the next
    /// look says.
    pub fn listen(&mut self, call: &Call) {
        let now = call.clock.now();
        self.place.is_told = false;
        if !self.may_listen(now) {
            return;
        }
        let twice = self.pause.saturating_mul(2).clamp(Self::LEAST_PAUSE, Self::LONGEST_PAUSE);
        let lasted = self.last_try.is_none_or(|last| now.since(last) >= twice);
        self.pause = if lasted { Duration::ZERO } else { twice };
        self.last_try = Some(now);
        match self.subscription.listen(call) {
            Ok(()) => self.place.is_told = true,
            Err(Fault { cause: Cause::Answered(_), .. }) => self.give_up(),
            Err(_) => self.pause = twice,
        }
    }

    /// One refusal is enough for one wait.
    pub fn give_up(&mut self) {
        self.place.is_told = false;
        self.pause = Duration::MAX;
    }
}
