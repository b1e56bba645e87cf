//! The keeper's thread, and servers that fail in ways that no server can be made to.
#![cfg(test)]

mod support;

use std::{
    os::fd::RawFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use redis_lock::{
    keeper::{self, Kept, Loss, Upkeep, Watched},
    lock::{
        lease::Lease,
        ports::{Alarm, Call, Clock, Fault, Renewal, RenewalServer, Renewer},
        time::Moment,
        ttl::Ttl,
    },
    memory::Memory,
    sys::{clock::SystemClock, fork},
};
use support::{LIMITS, key, ms, token, ttl};

/// What a connection does when it is to renew these leases.
type Go = dyn Fn(&[Arc<str>]) -> Vec<Renewal> + Send + Sync;

#[derive(Clone)]
struct Server {
    go: Arc<Go>,
    opened: Arc<AtomicU32>,
}

impl Server {
    fn that(go: impl Fn(&[Arc<str>]) -> Vec<Renewal> + Send + Sync + 'static) -> Self {
        Self { go: Arc::new(go), opened: Arc::default() }
    }
}

impl RenewalServer for Server {
    fn name(&self) -> &str {
        "redis://made-up:6379"
    }

    fn open(&self, _: &Call) -> Result<Box<dyn Renewer>, Fault> {
        self.opened.fetch_add(1, SeqCst);
        Ok(Box::new(Connection { server: self.clone(), keys: Vec::new() }))
    }
}

struct Connection {
    server: Server,
    keys: Vec<Arc<str>>,
}

impl Renewer for Connection {
    fn is_alive(&self) -> bool {
        true
    }

    fn begin(&mut self, leases: &[(&Arc<Lease>, Ttl)]) {
        let name = |lease: &Lease| String::from_utf8_lossy(lease.key().name()).as_ref().into();
        self.keys = leases.iter().map(|(lease, _)| name(lease)).collect();
    }

    fn go_on(&mut self) -> Result<Option<Vec<Renewal>>, Fault> {
        Ok(Some((self.server.go)(&self.keys)))
    }

    fn awaited(&self) -> Vec<(RawFd, i16)> {
        Vec::new()
    }
}

/// One that lets nobody in, and has no time-out: who is not wanted any more must notice that. It counts those who wait.
#[derive(Clone, Default)]
struct Closed(Arc<AtomicU32>);

impl RenewalServer for Closed {
    fn name(&self) -> &str {
        "redis://closed:6379"
    }

    fn open(&self, call: &Call) -> Result<Box<dyn Renewer>, Fault> {
        self.0.fetch_add(1, SeqCst);
        while !call.interrupt.stopped() {
            thread::sleep(ms(1));
        }
        self.0.fetch_sub(1, SeqCst);
        let cause = redis_lock::lock::ports::Cause::Unreachable("closed".into());
        Err(Fault { server: self.name().into(), cause })
    }
}

fn held(name: &str, ms: u64) -> Arc<Lease> {
    let lease = Lease::new(Arc::new(key(name)), token(1), fork::process());
    lease.granted(SystemClock.now(), ttl(ms), None);
    Arc::new(lease)
}

/// Each server has an address of its own: the keeper stays connected to those of earlier tests.
fn keep(lease: &Arc<Lease>, ms: u64, server: Arc<dyn RenewalServer>) -> Kept {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    keep_at(&format!("address {}", COUNT.fetch_add(1, SeqCst)), lease, ms, server)
}

fn keep_at(address: &str, lease: &Arc<Lease>, ms: u64, server: Arc<dyn RenewalServer>) -> Kept {
    let upkeep = Upkeep { ttl: ttl(ms), until: Moment::NEVER, address: address.into(), server, limits: LIMITS };
    keeper::keep(Watched { lease: lease.clone(), upkeep: Some(upkeep), alarm: None }).unwrap()
}

fn is_valid(lease: &Lease) -> bool {
    lease.is_valid(SystemClock.now())
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(ms(1));
    }
}

/// The tests share one keeper, and two of them end it.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn a_panic_on_the_way_is_caught_and_the_renewal_tried_again() {
    let _alone = alone();
    let tries = Arc::new(AtomicU32::new(0));
    let server = Server::that({
        let tries = tries.clone();
        move |keys| {
            assert_ne!(tries.fetch_add(1, SeqCst), 0, "a fault of ours");
            keys.iter().map(|_| Renewal::Renewed).collect()
        }
    });
    let (lease, beside) = (held("panics once", 1_500), held("beside", 1_500));
    let kept = keep(&lease, 1_500, Arc::new(server.clone()));
    let other = keep(&beside, 1_500, Arc::new(Server::that(|keys| keys.iter().map(|_| Renewal::Renewed).collect())));
    let end = lease.valid_until();
    until("renewed", || lease.valid_until() > end);
    assert!(is_valid(&lease) && is_valid(&beside) && keeper::loss(kept).is_none());
    assert_eq!(server.opened.load(SeqCst), 2, "on a new connection");
    keeper::forget(kept);
    keeper::forget(other);
}

#[test]
fn a_lease_whose_renewal_always_panics_is_lost_and_the_others_go_on() {
    let _alone = alone();
    let (lease, beside) = (held("panics", 600), held("goes on", 600));
    let kept = keep(&lease, 600, Arc::new(Server::that(|_| panic!("a fault of ours"))));
    let other = keep(&beside, 600, Arc::new(Server::that(|keys| keys.iter().map(|_| Renewal::Renewed).collect())));
    until("lost", || keeper::loss(kept).is_some());
    assert!(matches!(keeper::loss(kept), Some(Loss::NotRenewed(_))));
    assert!(!is_valid(&lease) && is_valid(&beside));
    let end = beside.valid_until();
    until("renewed", || beside.valid_until() > end);
    keeper::forget(kept);
    keeper::forget(other);
}

#[test]
fn one_answer_that_is_missing_concerns_one_lease() {
    let _alone = alone();
    let refuses = |name: &Arc<str>| if name.starts_with("gone") { Renewal::Lost } else { Renewal::Renewed };
    let server = Arc::new(Server::that(move |keys| keys.iter().map(refuses).collect()));
    let leases: Vec<_> =
        (0..50).map(|n| held(&format!("{} {n}", if n % 5 == 0 { "gone" } else { "kept" }), 900)).collect();
    let kept: Vec<_> = leases.iter().map(|lease| keep_at("many", lease, 900, server.clone())).collect();
    let first_end = leases[0].valid_until();
    until("all renewed or lost", || {
        leases.iter().zip(&kept).all(|(lease, kept)| keeper::loss(*kept).is_some() || lease.valid_until() > first_end)
    });
    for (index, (lease, kept)) in leases.iter().zip(kept).enumerate() {
        assert_eq!(keeper::loss(kept), (index % 5 == 0).then_some(Loss::NotOurs));
        assert_eq!(is_valid(lease), index % 5 != 0);
        keeper::forget(kept);
    }
    assert_eq!(server.opened.load(SeqCst), 1);
}

#[test]
fn a_thousand_leases_do_not_storm_a_server_that_is_down() {
    /// Refuses at once.
    struct Down(AtomicU32);

    impl RenewalServer for Down {
        fn name(&self) -> &str {
            "redis://down:6379"
        }

        fn open(&self, _: &Call) -> Result<Box<dyn Renewer>, Fault> {
            self.0.fetch_add(1, SeqCst);
            let cause = redis_lock::lock::ports::Cause::Unreachable("down".into());
            Err(Fault { server: self.name().into(), cause })
        }
    }

    let _alone = alone();
    let server = Arc::new(Down(AtomicU32::new(0)));
    let leases: Vec<_> = (0..1_000).map(|number| held(&format!("{number}"), 3_000)).collect();
    let kept: Vec<_> = leases.iter().map(|lease| keep_at("down", lease, 3_000, server.clone())).collect();
    until("all lost", || kept.iter().all(|kept| keeper::loss(*kept).is_some()));
    // In the two seconds that are left of them: after 20 ms at first, and then after up to 300.
    let tries = server.0.load(SeqCst);
    assert!((5..=20).contains(&tries), "{tries}");
    kept.into_iter().for_each(keeper::forget);
}

#[test]
fn a_server_that_is_not_reached_holds_up_no_other() {
    let _alone = alone();
    let (stuck, lease) = (held("stuck", 2_000), held("lease", 300));
    let closed = Closed::default();
    let stuck_kept = keep(&stuck, 2_000, Arc::new(closed.clone()));
    let kept = keep(&lease, 300, Arc::new(Server::that(|keys| keys.iter().map(|_| Renewal::Renewed).collect())));
    until("lost", || keeper::loss(stuck_kept).is_some());
    assert!(is_valid(&lease) && keeper::loss(kept).is_none());
    assert!(matches!(keeper::loss(stuck_kept), Some(Loss::NotRenewed(_))));
    keeper::forget(stuck_kept);
    keeper::forget(kept);
    until("nobody waits there any more", || closed.0.load(SeqCst) == 0);
}

#[test]
fn a_lease_with_a_long_ttl_uses_up_no_time_of_a_short_one() {
    /// Hangs for the first, and then lets in.
    struct Hung(Closed, AtomicBool);

    impl RenewalServer for Hung {
        fn name(&self) -> &str {
            "redis://hung:6379"
        }

        fn open(&self, call: &Call) -> Result<Box<dyn Renewer>, Fault> {
            if self.1.swap(true, SeqCst) {
                Server::that(|keys| keys.iter().map(|_| Renewal::Renewed).collect()).open(call)
            } else {
                self.0.open(call)
            }
        }
    }

    let _alone = alone();
    let hung = Arc::new(Hung(Closed::default(), AtomicBool::new(false)));
    let (long, short) = (held("long", 9_000), held("short", 900));
    // Due at once.
    long.granted(SystemClock.now().minus(ms(3_000)), ttl(9_000), None);
    let kept = [(&long, 9_000), (&short, 900)].map(|(lease, ms)| keep_at("hung", lease, ms, hung.clone()));
    until("it hangs", || hung.0.0.load(SeqCst) == 1 || !is_valid(&short));
    let end = short.valid_until();
    until("the short one is renewed", || short.valid_until() > end || !is_valid(&short));
    assert!(is_valid(&short) && is_valid(&long), "{:?}", kept.map(keeper::loss));
    kept.into_iter().for_each(keeper::forget);
}

#[test]
fn it_ends_while_a_connection_is_being_opened_and_starts_again() {
    let _alone = alone();
    let closed = Closed::default();
    let lease = held("stuck", 4_000);
    let kept = keep(&lease, 4_000, Arc::new(closed.clone()));
    until("it hangs", || closed.0.load(SeqCst) == 1);
    keeper::stop();
    assert!(is_valid(&lease), "it took its time");
    until("nobody waits there any more", || closed.0.load(SeqCst) == 0);
    keeper::forget(kept);
    let lease = held("again", 400);
    let kept = keep(&lease, 400, Arc::new(Server::that(|keys| keys.iter().map(|_| Renewal::Renewed).collect())));
    let end = lease.valid_until();
    until("renewed", || lease.valid_until() > end);
    keeper::forget(kept);
    keeper::stop();
}

#[test]
fn an_alarm_rings_at_the_end_of_a_lease_and_until_it_is_heard() {
    #[derive(Default)]
    struct Bell(Mutex<Vec<Instant>>);

    impl Alarm for Bell {
        fn ring(&self) {
            self.0.lock().unwrap().push(Instant::now());
        }
    }

    let _alone = alone();
    let bell = Arc::new(Bell::default());
    let lease = held("fixed", 300);
    let kept = keeper::keep(Watched { lease: lease.clone(), upkeep: None, alarm: Some(bell.clone()) }).unwrap();
    until("rings", || bell.0.lock().unwrap().len() >= 3);
    assert!(lease.is_expired(SystemClock.now()));
    assert_eq!(keeper::loss(kept), Some(Loss::RanOut));
    keeper::set_alarm(kept, None);
    let rung = bell.0.lock().unwrap().len();
    thread::sleep(ms(100));
    assert!(bell.0.lock().unwrap().len() <= rung + 1, "one may have been under way");
    keeper::forget(kept);
}

#[test]
fn memory_is_renewed_like_a_server() {
    let _alone = alone();
    let lease = held("in memory", 300);
    let kept = keep(&lease, 300, Arc::new(Memory));
    // It was never acquired there.
    until("lost", || keeper::loss(kept) == Some(Loss::NotOurs));
    keeper::forget(kept);
}
