//! One holding of a key, and what is known of it. Its holder's thread and the keeper share it without a mutex, which a
//! forked child could inherit locked.
//!
//! Three rules keep it honest:
//! - Validity counts from before the request that was granted, and never with a longer ttl than that of any request
//!   of this token whose fate is unknown: such a request may still run, late, and cut the key's life to its own ttl.
//! - A token whose release may be under way is never believed again: the release may still run, late.
//! - Requests that may prolong it are under way one at a time (`Prolonging`), so that the answer that came last is that of
//!   the request that ran last. A release waits for none: an answer that comes after it changes nothing.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::{ops::Deref, sync::Arc, time::Duration};

// Tries all orders in which threads can meet.
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

pub use super::word::State;
use super::{fence::Fence, keys::Key, time::Moment, token::Token, ttl::Ttl, word::Word};

#[derive(Debug)]
pub struct Lease {
    key: Arc<Key>,
    token: Token,
    /// The process that acquired it; a forked child inherits the object, but not the lease.
    process: u64,
    word: AtomicU64,
    /// Milliseconds: the least ttl of the requests whose fate is unknown.
    least_unknown_ttl: AtomicU64,
    /// Milliseconds: the greatest ttl that was asked for.
    greatest_ttl: AtomicU64,
    tainted: AtomicBool,
    loss_was_noticed: AtomicBool,
    /// 0: none.
    fence: AtomicU64,
}

/// The right to send a request that may prolong a lease, or cut it short.
#[derive(Debug)]
pub struct Prolonging<L: Deref<Target = Lease>> {
    lease: L,
    flag: u64,
}

impl<L: Deref<Target = Lease>> Prolonging<L> {
    pub fn lease(&self) -> &L {
        &self.lease
    }
}

impl<L: Deref<Target = Lease>> Drop for Prolonging<L> {
    fn drop(&mut self) {
        self.lease.change(|word| Some(word.without(self.flag)));
    }
}

/// While a release is under way.
#[derive(Debug)]
pub struct Leaving<'a>(&'a Lease);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.change(|word| {
            // The release did not run, and what the keeper was told meanwhile is to be believed.
            let is_lost = word.state() == State::Held && word.has(Word::REFUSED);
            let word = word.without(Word::LEAVING | Word::REFUSED);
            Some(if is_lost { word.with_state(State::Lost) } else { word })
        });
    }
}

impl Lease {
    const NEVER_VALID: Moment = Moment::from_nanos(0);

    pub fn new(key: Arc<Key>, token: Token, process: u64) -> Self {
        Self {
            key,
            token,
            process,
            word: AtomicU64::new(Word::from_bits(0).with_state(State::Unsure).bits()),
            least_unknown_ttl: AtomicU64::new(u64::MAX),
            greatest_ttl: AtomicU64::new(0),
            tainted: AtomicBool::new(false),
            loss_was_noticed: AtomicBool::new(false),
            fence: AtomicU64::new(0),
        }
    }

    /// The next one of the same token, after this one was lost: a loss stays one, and what is known of the requests of the
    /// token stays known.
    pub fn again(&self, process: u64) -> Self {
        let next = Self::new(self.key.clone(), self.token.clone(), process);
        next.least_unknown_ttl.store(self.least_unknown_ttl.load(SeqCst), SeqCst);
        next.greatest_ttl.store(self.greatest_ttl.load(SeqCst), SeqCst);
        next.tainted.store(self.is_tainted(), SeqCst);
        next
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    pub fn token(&self) -> &Token {
        &self.token
    }

    pub fn process(&self) -> u64 {
        self.process
    }

    /// That of its last acquire. None: it came with none.
    pub fn fence(&self) -> Option<Fence> {
        Fence::new(self.fence.load(SeqCst))
    }

    pub fn set_fence(&self, fence: Option<Fence>) {
        self.fence.store(fence.map_or(0, Fence::number), SeqCst);
    }

    fn word(&self) -> Word {
        Word::from_bits(self.word.load(SeqCst))
    }

    /// Gives what was before; None: nothing was to be changed.
    fn change(&self, change: impl Fn(Word) -> Option<Word>) -> Option<Word> {
        let change = |word| change(Word::from_bits(word)).map(Word::bits);
        self.word.fetch_update(SeqCst, SeqCst, change).ok().map(Word::from_bits)
    }

    pub fn state(&self) -> State {
        self.word().state()
    }

    pub fn valid_until(&self) -> Moment {
        self.word().valid_until()
    }

    /// Whether it is surely ours now.
    pub fn is_valid(&self, now: Moment) -> bool {
        self.word().is_valid(now)
    }

    /// Whether it was ours and ended before it was released.
    pub fn is_expired(&self, now: Moment) -> bool {
        self.word().is_expired(now)
    }

    /// How long it is surely ours yet: nothing, where it ran out or was lost. None: it never was, or it was released.
    pub fn remaining(&self, now: Moment) -> Option<Duration> {
        let word = self.word();
        if word.is_expired(now) {
            return Some(Duration::ZERO);
        }
        word.is_valid(now).then(|| word.valid_until().since(now))
    }

    /// Whether the key may still hold our token.
    pub fn may_live(&self) -> bool {
        !matches!(self.state(), State::Lost | State::Settled)
    }

    /// Whether its holder may still have a use for the token. Not where it was never ours, or surely is no more.
    pub fn is_worth_knowing(&self) -> bool {
        let word = self.word();
        match word.state() {
            State::Unsure | State::Held | State::Releasing | State::Overdue => true,
            State::Abandoned => word.was_ever_valid(),
            State::Lost | State::Settled => false,
        }
    }

    /// When its key is gone by itself, if nothing more is asked for.
    pub fn gone_by(&self, now: Moment) -> Moment {
        now.plus(Duration::from_millis(self.greatest_ttl.load(SeqCst)))
    }

    /// Whether a request of this token may still run, late.
    pub fn has_unknowns(&self) -> bool {
        self.least_unknown_ttl.load(SeqCst) != u64::MAX
    }

    /// Whether a release of this token may still run, late: then no later acquire with it can be believed.
    pub fn is_tainted(&self) -> bool {
        self.tainted.load(SeqCst)
    }

    /// True for the first who asks after a loss: it is counted once.
    pub fn notice_loss(&self) -> bool {
        !self.loss_was_noticed.swap(true, SeqCst)
    }

    /// Its holder's turn to prolong it. None: a renewal is under way.
    pub fn prolong<L: Deref<Target = Self>>(this: L) -> Option<Prolonging<L>> {
        Self::begin(this, Word::PROLONGED, |_| true)
    }

    /// The keeper's turn to renew it. None: it is not ours any more, or its holder is at it.
    pub fn renew<L: Deref<Target = Self>>(this: L, now: Moment) -> Option<Prolonging<L>> {
        Self::begin(this, Word::RENEWED, |word| word.is_valid(now) && !word.has(Word::LEAVING))
    }

    fn begin<L: Deref<Target = Self>>(this: L, flag: u64, if_so: impl Fn(Word) -> bool) -> Option<Prolonging<L>> {
        this.change(|word| {
            let may = !word.has(Word::PROLONGED | Word::RENEWED) && if_so(word);
            may.then(|| word.with(flag))
        })?;
        Some(Prolonging { lease: this, flag })
    }

    /// Before a release is sent: what a renewal is answered from now on is no loss, unless the release does not run.
    pub fn leaving(&self) -> Leaving<'_> {
        self.change(|word| Some(word.with(Word::LEAVING)));
        Leaving(self)
    }

    /// An acquire that was sent at `sent` was granted.
    pub fn granted(&self, sent: Moment, ttl: Ttl, fence: Option<Fence>) {
        self.loss_was_noticed.store(false, SeqCst);
        self.set_fence(fence);
        self.set_valid(sent, ttl, |_| true);
    }

    /// The holder's refresh that was sent at `sent` was granted. False: its holder was told meanwhile that it is over.
    pub fn refreshed(&self, sent: Moment, ttl: Ttl) -> bool {
        self.set_valid(sent, ttl, |word| matches!(word.state(), State::Held | State::Unsure))
    }

    fn set_valid(&self, sent: Moment, ttl: Ttl, if_so: impl Fn(Word) -> bool) -> bool {
        self.greatest_ttl.fetch_max(ttl.as_millis(), SeqCst);
        let validity = sent.plus(self.at_most(ttl).validity());
        self.change(|word| if_so(word).then(|| word.with_valid_until(validity).with_state(State::Held))).is_some()
    }

    /// A renewal of the keeper's is sent. It never cuts the key's life short, so that no other request is believed less
    /// because of it, however late it runs.
    pub fn renewing(&self, ttl: Ttl) {
        self.greatest_ttl.fetch_max(ttl.as_millis(), SeqCst);
    }

    /// The renewal that was sent at `sent` was granted. False: it had ended meanwhile, which stays so.
    pub fn renewed(&self, sent: Moment, ttl: Ttl, now: Moment) -> bool {
        let validity = sent.plus(self.at_most(ttl).validity());
        self.change(|word| word.is_valid(now).then(|| word.with_valid_until(validity.max(word.valid_until()))))
            .is_some()
    }

    /// What a request with this ttl can be believed to give, as long as others of unknown fate may run after it.
    pub fn at_most(&self, ttl: Ttl) -> Ttl {
        ttl.at_most_millis(self.least_unknown_ttl.load(SeqCst))
    }

    /// A request that is sent now may run at any moment from now on. Gives what was known before.
    pub fn sending(&self, sent: Moment, ttl: Ttl) -> Moment {
        self.valid_at_most(sent.plus(self.at_most(ttl).validity()))
    }

    /// That request surely did not run.
    pub fn not_sent(&self, before: Moment) {
        self.change(|word| Some(word.with_valid_until(before)));
    }

    /// A request that was sent at `sent` may have run, or may yet run.
    pub fn unknown(&self, sent: Moment, ttl: Ttl) {
        self.greatest_ttl.fetch_max(ttl.as_millis(), SeqCst);
        self.least_unknown_ttl.fetch_min(ttl.as_millis(), SeqCst);
        self.valid_at_most(sent.plus(self.at_most(ttl).validity()));
    }

    fn valid_at_most(&self, most: Moment) -> Moment {
        self.change(|word| Some(word.with_valid_until(word.valid_until().min(most))))
            .map_or(Self::NEVER_VALID, Word::valid_until)
    }

    /// The keeper was told that it is not ours. True: that is a loss.
    pub fn renewal_refused(&self) -> bool {
        let before = self.change(|word| match word.state() {
            State::Held if word.has(Word::LEAVING) => Some(word.with(Word::REFUSED)),
            State::Held => Some(word.with_state(State::Lost)),
            _ => None,
        });
        before.is_some_and(|word| !word.has(Word::LEAVING))
    }

    /// True: its validity has ended, and nobody has said so before. While its holder is at it, it is the holder's to say.
    pub fn is_over(&self, now: Moment) -> bool {
        self.change(|word| {
            let is_over =
                word.state() == State::Held && !word.has(Word::LEAVING | Word::PROLONGED) && now >= word.valid_until();
            is_over.then(|| word.with_state(State::Overdue))
        })
        .is_some()
    }

    /// Its holder was told that it is not ours: lost, if it was, or else of no concern.
    pub fn not_ours(&self) {
        self.change(|word| {
            let was_ours = matches!(word.state(), State::Held | State::Overdue | State::Lost);
            Some(word.with_state(if was_ours { State::Lost } else { State::Settled }))
        });
    }

    /// A release was sent, and its answer did not come. `was_valid`: it was surely ours until then.
    pub fn releasing(&self, was_valid: bool) {
        self.taint();
        self.change(|word| match word.state() {
            _ if was_valid => Some(word.with_state(State::Releasing)),
            State::Releasing | State::Overdue => None,
            _ => Some(word.with_state(State::Abandoned)),
        });
    }

    /// An acquire that may have succeeded was given up before anybody believed in it.
    pub fn withdrawn(&self) {
        self.set_fence(None);
        self.change(|word| Some(word.with_valid_until(Self::NEVER_VALID).with_state(State::Abandoned)));
    }

    /// A release of this token may run at any time from now on.
    pub fn taint(&self) {
        self.tainted.store(true, SeqCst);
    }

    /// Its key was freed, by its holder's own will. What was told to be over stays lost.
    pub fn freed(&self) {
        self.change(|word| {
            let was_over = matches!(word.state(), State::Overdue | State::Lost);
            Some(word.with_state(if was_over { State::Lost } else { State::Settled }))
        });
    }

    pub fn settled(&self) {
        self.change(|word| Some(word.with_state(State::Settled)));
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn lease() -> Lease {
        Lease::new(Arc::new(Key::new(b"", b"k").unwrap()), Token::new([0; 16], None), 0)
    }

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn ttl(seconds: f64) -> Ttl {
        Ttl::from_seconds(seconds).unwrap()
    }

    /// As precisely as it is kept.
    fn until(sent: u64, seconds: f64) -> Moment {
        Moment::from_nanos(at(sent).plus(ttl(seconds).validity()).as_nanos() & !127)
    }

    #[test]
    fn valid_from_before_the_request_until_the_drift() {
        let lease = lease();
        assert!(!lease.is_valid(at(0)) && !lease.is_expired(at(0)));
        lease.granted(at(100), ttl(1.0), None);
        assert!(lease.is_valid(at(100)) && lease.is_valid(at(1087)));
        assert!(!lease.is_valid(at(1088)) && lease.is_expired(at(1088)));
    }

    #[test]
    fn a_request_of_unknown_fate_bounds_all_later_validity() {
        let lease = lease();
        lease.granted(at(0), ttl(30.0), None);
        lease.unknown(at(1_000), ttl(2.0));
        assert_eq!(lease.valid_until(), until(1_000, 2.0));
        // It may run as late as it likes: a longer refresh cannot be trusted for longer.
        lease.granted(at(2_000), ttl(30.0), None);
        assert_eq!(lease.valid_until(), until(2_000, 2.0));
        lease.granted(at(3_000), ttl(1.0), None);
        assert_eq!(lease.valid_until(), until(3_000, 1.0));
    }

    #[test]
    fn an_unknown_longer_ttl_does_not_prolong() {
        let lease = lease();
        lease.granted(at(0), ttl(2.0), None);
        lease.unknown(at(100), ttl(30.0));
        assert_eq!(lease.valid_until(), until(0, 2.0));
    }

    #[test]
    fn lost_and_settled_are_not_the_same() {
        let lease = lease();
        lease.granted(at(0), ttl(30.0), None);
        lease.not_ours();
        assert!(lease.is_expired(at(1)) && !lease.is_valid(at(1)) && !lease.may_live());
        lease.settled();
        assert!(!lease.is_expired(at(1)) && !lease.may_live());
    }

    #[test]
    fn the_next_lease_of_a_token_knows_of_its_requests_but_is_not_lost() {
        let lease = lease();
        lease.granted(at(0), ttl(30.0), None);
        lease.unknown(at(0), ttl(2.0));
        lease.not_ours();
        let next = lease.again(0);
        assert!(lease.is_expired(at(1)) && !next.is_expired(at(1)) && !next.is_valid(at(1)));
        next.granted(at(1_000), ttl(30.0), None);
        assert_eq!(next.valid_until(), until(1_000, 2.0));
        assert_eq!(next.gone_by(at(0)), at(30_000));
        assert!(!next.is_tainted());
        lease.taint();
        assert!(lease.again(0).is_tainted());
    }

    #[test]
    fn requests_that_prolong_are_under_way_one_at_a_time() {
        let lease = lease();
        let first = Lease::prolong(&lease).unwrap();
        assert!(Lease::prolong(&lease).is_none());
        lease.granted(at(0), ttl(1.0), None);
        assert!(Lease::renew(&lease, at(1)).is_none());
        drop(first);
        let renewal = Lease::renew(&lease, at(1)).unwrap();
        assert!(Lease::prolong(&lease).is_none());
        drop(renewal);
        assert!(Lease::renew(&lease, at(988)).is_none(), "not once it has ended");
    }

    #[test]
    fn a_renewal_prolongs_what_is_valid_and_brings_nothing_back() {
        let lease = lease();
        lease.granted(at(0), ttl(1.0), None);
        lease.renewed(at(300), ttl(1.0), at(301));
        assert_eq!(lease.valid_until(), until(300, 1.0));
        lease.renewed(at(1200), ttl(1.0), at(1288));
        assert!(!lease.is_valid(at(1288)) && lease.is_expired(at(1288)));
        assert!(lease.is_over(at(1288)) && !lease.is_over(at(1288)), "said once");
        lease.renewed(at(1200), ttl(1.0), at(1201));
        assert_eq!((lease.state(), lease.remaining(at(1201))), (State::Overdue, Some(Duration::ZERO)));
        assert!(lease.may_live(), "and is freed all the same");
    }

    #[test]
    fn what_a_renewal_is_answered_after_the_release_is_no_loss() {
        let lease = lease();
        lease.granted(at(0), ttl(1.0), None);
        let leaving = lease.leaving();
        assert!(!lease.renewal_refused() && Lease::renew(&lease, at(1)).is_none());
        assert!(!lease.is_over(at(2_000)));
        lease.settled();
        drop(leaving);
        lease.renewed(at(300), ttl(1.0), at(301));
        assert!(!lease.renewal_refused() && lease.state() == State::Settled);
    }

    #[test]
    fn a_release_that_failed_leaves_the_lease_to_the_keeper() {
        let lease = lease();
        lease.granted(at(0), ttl(1.0), None);
        drop(lease.leaving());
        assert!(Lease::renew(&lease, at(1)).is_some());
        let leaving = lease.leaving();
        assert!(!lease.renewal_refused() && lease.is_valid(at(1)), "the release may have run");
        drop(leaving);
        assert!(lease.is_expired(at(1)) && !lease.may_live(), "it has not");

        lease.granted(at(0), ttl(1.0), None);
        assert!(lease.renewal_refused() && lease.state() == State::Lost && lease.notice_loss() && !lease.notice_loss());
    }
}

/// All orders in which the holder's thread and the keeper's can meet.
#[cfg(test)]
#[cfg(loom)]
mod races {
    use loom::{model, sync::Mutex, thread};

    use super::*;

    fn held() -> Arc<Lease> {
        let key = Arc::new(Key::new(b"", b"k").unwrap());
        let lease = Lease::new(key, Token::new([0; 16], None), 0);
        lease.granted(at(0), ttl(10), None);
        Arc::new(lease)
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    fn ttl(seconds: u32) -> Ttl {
        Ttl::from_seconds(seconds.into()).unwrap()
    }

    /// A server with one key, ours; each request runs a second after the one before.
    struct Server(Mutex<(u64, Option<Moment>)>);

    impl Server {
        fn new() -> Arc<Self> {
            Arc::new(Self(Mutex::new((1, Some(at(10))))))
        }

        fn now(&self) -> Moment {
            at(self.0.lock().unwrap().0)
        }

        fn refresh(&self, ttl: Ttl) -> bool {
            let mut server = self.0.lock().unwrap();
            server.0 += 1;
            let now = at(server.0);
            server.1.as_mut().map(|expires| *expires = now.plus(ttl.as_duration())).is_some()
        }

        fn free(&self) -> bool {
            self.0.lock().unwrap().1.take().is_some()
        }

        fn expires(&self) -> Moment {
            self.0.lock().unwrap().1.unwrap_or(at(0))
        }
    }

    /// What the keeper does; true: it saw a loss.
    fn renew(lease: &Lease, server: &Server) -> bool {
        let sent = server.now();
        let Some(renewal) = Lease::renew(lease, sent) else { return false };
        let is_ours = server.refresh(ttl(10));
        if is_ours {
            renewal.lease().renewed(sent, ttl(10), server.now());
        }
        !is_ours && renewal.lease().renewal_refused()
    }

    #[test]
    fn a_release_beside_a_renewal_is_no_loss() {
        model(|| {
            let (lease, server) = (held(), Server::new());
            let keeper = thread::spawn({
                let (lease, server) = (lease.clone(), server.clone());
                move || renew(&lease, &server)
            });
            let leaving = lease.leaving();
            assert!(server.free());
            lease.settled();
            drop(leaving);
            assert!(!keeper.join().unwrap(), "no loss");
            assert_eq!(lease.state(), State::Settled);
        });
    }

    #[test]
    fn a_refresh_beside_a_renewal_believes_no_more_than_the_server_keeps() {
        model(|| {
            let (lease, server) = (held(), Server::new());
            let keeper = thread::spawn({
                let (lease, server) = (lease.clone(), server.clone());
                move || renew(&lease, &server)
            });
            if let Some(_ours) = Lease::prolong(&*lease) {
                let sent = server.now();
                lease.sending(sent, ttl(3));
                assert!(server.refresh(ttl(3)));
                assert!(lease.refreshed(sent, ttl(3)));
            }
            assert!(!keeper.join().unwrap());
            assert!(lease.valid_until() <= server.expires(), "{:?} {:?}", lease.valid_until(), server.expires());
        });
    }

    #[test]
    fn what_is_said_to_be_over_stays_so() {
        model(|| {
            let lease = held();
            let keeper = thread::spawn({
                let lease = lease.clone();
                move || lease.is_over(at(10))
            });
            let was_refreshed = Lease::prolong(&*lease).is_some_and(|_ours| lease.refreshed(at(9), ttl(10)));
            let was_over = keeper.join().unwrap();
            assert_eq!(lease.state() == State::Overdue, was_over);
            assert!(was_over || was_refreshed);
        });
    }
}
