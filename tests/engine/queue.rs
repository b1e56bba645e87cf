//! A wait in the queue: the waiter is told, and whatever way it ends, it leaves nothing behind.

use std::{cell::Cell, rc::Rc};

use redis_lock::{
    lock::{
        acquire::{Acquire, Acquired},
        error::Error,
        keys::Key,
        ports::{Busy, Cause, Clock, Store, Subscription, Vote, Woken},
        queue::{OFFER, Place},
        time::Moment,
    },
    memory::Memory,
};

use super::{
    cause, one_try,
    support::{
        ms,
        request::{Answer, Request},
        token, ttl,
        world::{Fate, Scene, World},
    },
    waiting,
};

const HOLDER: u64 = 2;
const HELD_FOR: u64 = 3_600_000;

/// A scene in which another holds the key.
fn busy() -> Scene {
    let scene = Scene::new();
    scene.world.other(&Request::Try(scene.key.clone(), token(HOLDER), ttl(HELD_FOR).into()));
    scene
}

fn release(scene: &Scene) -> Request {
    Request::Leave(scene.key.clone(), token(HOLDER), None)
}

/// The moments at which requests were sent, in milliseconds from the start, and what they were.
fn sent(scene: &Scene, what: &Acquire) -> Vec<(u128, &'static str)> {
    let sent = scene.line.0.sent.take();
    sent.iter().map(|sent| (sent.at.since(what.start).as_millis(), sent.request.name())).collect()
}

fn tickets(scene: &Scene) -> Vec<Option<u64>> {
    let place = |request: &Request| match request {
        Request::Ask(.., Some(place)) | Request::Leave(.., Some(place)) => Some(place.ticket),
        _ => None,
    };
    scene.line.0.sent.borrow().iter().filter_map(|sent| place(&sent.request)).collect()
}

/// Another waiter, which joins now. What it hears by must live.
struct Other {
    number: u64,
    place: Place,
    subscription: Box<dyn Subscription>,
}

impl Other {
    fn joins(scene: &Scene, number: u64) -> Self {
        let other = Self::hears(&scene.world, &scene.key, number);
        let answer = scene.world.other(&other.ask(scene));
        assert!(matches!(answer, Answer::Vote(Vote::Refused(_))), "{answer:?}");
        other
    }

    fn hears(world: &World, key: &Key, number: u64) -> Self {
        let subscription = Memory.subscription(key).unwrap();
        subscription.listen(&world.call(Moment::NEVER)).unwrap();
        let (ear, wait) = (subscription.ear().into(), subscription.begin());
        Self { number, place: Place { ear, wait, is_told: true, ttl: ttl(30_000), ticket: None }, subscription }
    }

    fn ask(&self, scene: &Scene) -> Request {
        Request::Ask(scene.key.clone(), token(self.number), ttl(30_000).into(), Some(self.place.clone()))
    }

    fn is_told(&self, world: &World) -> bool {
        self.subscription.sleep(Moment::from_nanos(0), world, world) == Woken::Told
    }
}

#[test]
fn a_waiter_has_the_key_when_it_is_released_and_not_later() {
    let scene = busy();
    let release = release(&scene);
    scene.world.after(ms(450), move |world| drop(world.other(&release)));
    let (what, lease) = (waiting(&scene, ms(60_000)), scene.lease(1));
    assert!(matches!(scene.acquire(&lease, &what), Ok(Acquired::Held)));
    assert_eq!(sent(&scene, &what), [(0, "try"), (0, "ask"), (450, "ask")]);
    assert_eq!(scene.world.listened.get(), 1);
    // An offer is short; the lease is not.
    assert_eq!(lease.valid_until(), scene.world.now().plus(ttl(30_000).validity()));
}

#[test]
fn an_offer_alone_is_nothing_to_believe_in() {
    let scene = busy();
    let release = release(&scene);
    scene.world.after(ms(450), move |world| drop(world.other(&release)));
    // The ask that would make it a lease gets no answer.
    scene.script([Fate::Answered, Fate::Answered, Fate::RequestLost, Fate::RequestLost]);
    let lease = scene.lease(1);
    let acquired = scene.acquire(&lease, &waiting(&scene, ms(60_000)));
    assert!(matches!(cause(acquired), Cause::NoAnswer(_)));
    assert!(!lease.is_valid(scene.world.now()));
    scene.world.pass(OFFER);
    assert!(scene.is_free(), "it costs the others the time of an offer");
}

#[test]
fn first_come_first_served() {
    let scene = busy();
    let first = Other::joins(&scene, 10);
    let (ours, its) = (release(&scene), first.ask(&scene));
    let its_release = Request::Leave(scene.key.clone(), token(10), None);
    let told = Rc::new(Cell::new(false));
    scene.world.after(ms(100), move |world| drop(world.other(&ours)));
    scene.world.after(ms(101), {
        let told = told.clone();
        move |world| {
            told.set(first.is_told(world));
            drop(world.other(&its));
        }
    });
    scene.world.after(ms(300), move |world| drop(world.other(&its_release)));
    let what = waiting(&scene, ms(60_000));
    assert!(matches!(scene.acquire(&scene.lease(1), &what), Ok(Acquired::Held)));
    assert_eq!(sent(&scene, &what), [(0, "try"), (0, "ask"), (300, "ask")]);
    assert!(told.get());
}

#[test]
fn who_waited_once_goes_straight_into_the_queue() {
    let scene = busy();
    let release = release(&scene);
    scene.world.after(ms(100), move |world| drop(world.other(&release)));
    let (what, mut kept) = (waiting(&scene, ms(60_000)), None);
    assert!(matches!(scene.engine().acquire(&scene.lease(1), &what, &mut kept), Ok(Acquired::Held)));
    assert_eq!((scene.sent().as_str(), kept.is_some()), ("try ask ask", true));

    let ours = Request::Leave(scene.key.clone(), token(1), None);
    scene.world.after(ms(100), move |world| drop(world.other(&ours)));
    let what = waiting(&scene, ms(60_000));
    assert!(matches!(scene.engine().acquire(&scene.lease(3), &what, &mut kept), Ok(Acquired::Held)));
    assert_eq!(sent(&scene, &what), [(0, "ask"), (100, "ask")]);
    assert_eq!((scene.world.listened.get(), kept.is_some()), (1, true));

    // What hears no more is not kept, and what does not wait has no use for it.
    scene.world.other(&Request::Leave(scene.key.clone(), token(3), None));
    let acquired = scene.engine().acquire(&scene.lease(4), &one_try(&scene), &mut kept);
    assert!(matches!(acquired, Ok(Acquired::Held)) && kept.is_some());
    scene.world.other(&Request::Leave(scene.key.clone(), token(4), None));
    scene.world.deaf.set(true);
    let acquired = scene.engine().acquire(&scene.lease(5), &waiting(&scene, ms(60_000)), &mut kept);
    assert!(matches!(acquired, Ok(Acquired::Held)) && kept.is_none());
    assert_eq!(scene.sent(), "try try");
}

#[test]
fn what_was_told_to_an_earlier_wait_is_heard_by_no_later_one() {
    let scene = busy();
    let waiter = Other::joins(&scene, 10);
    scene.world.other(&release(&scene));
    assert_eq!(scene.holder(), Some(token(10)));
    waiter.subscription.begin();
    assert!(!waiter.is_told(&scene.world));
}

#[test]
fn an_offer_that_is_over_when_it_is_asked_for_is_told_once() {
    let scene = busy();
    // The machine sleeps through the offer, and another has the key when it wakes.
    scene.world.after(ms(450), {
        let release = release(&scene);
        let another = Request::Try(scene.key.clone(), token(3), ttl(HELD_FOR).into());
        move |world| {
            world.other(&release);
            world.pass(OFFER);
            world.other(&another);
        }
    });
    let what = waiting(&scene, ms(3_000));
    assert!(matches!(scene.acquire(&scene.lease(1), &what), Ok(Acquired::Busy { .. })));
    let sent = sent(&scene, &what);
    assert!(sent.contains(&(1_450, "ask")) && sent.len() < 10, "{sent:?}");
}

#[test]
fn a_time_out_leaves_the_queue_with_one_request_after_the_last_look() {
    let scene = busy();
    let before = Other::joins(&scene, 10);
    let (what, mut kept) = (waiting(&scene, ms(500)), None);
    let lease = scene.lease(1);
    let Ok(Acquired::Busy { busy: Some(Busy { holder, queued: Some(queued) }), waited }) =
        scene.engine().acquire(&lease, &what, &mut kept)
    else {
        panic!("not busy")
    };
    assert_eq!((holder.identity.unwrap().pid, queued.ahead, waited), (2, 1, ms(500)));
    assert_eq!(sent(&scene, &what), [(0, "try"), (0, "ask"), (500, "ask"), (500, "leave")]);
    assert!(kept.is_none() && !lease.may_live());
    // The next in line is the one before us, and after it nobody.
    scene.world.other(&release(&scene));
    assert!(before.is_told(&scene.world) && scene.holder() == Some(token(10)));
    scene.world.other(&Request::Leave(scene.key.clone(), token(10), None));
    assert!(scene.is_free());
}

#[test]
fn an_offer_to_one_that_leaves_is_passed_on() {
    let scene = busy();
    let what = waiting(&scene, ms(500));
    let release = release(&scene);
    let after = Rc::new(Cell::new(None));
    scene.script([Fate::Answered, Fate::Answered]);
    // While the answer of the last look is on its way, the next comes and the holder goes.
    scene.script([Fate::Answered.while_({
        let after = after.clone();
        let key = scene.key.clone();
        move |world| {
            let other = Other::hears(world, &key, 11);
            world.other(&Request::Ask(key, token(11), ttl(30_000).into(), Some(other.place.clone())));
            after.set(Some(other));
            world.other(&release);
        }
    })]);
    let lease = scene.lease(1);
    assert!(matches!(scene.acquire(&lease, &what), Ok(Acquired::Busy { .. })));
    assert!(after.take().unwrap().is_told(&scene.world));
    assert_eq!(scene.holder(), Some(token(11)));
    assert!(!lease.may_live());
}

#[test]
fn a_wait_that_is_stopped_leaves_with_one_request() {
    let scene = busy();
    scene.world.after(ms(450), |world| world.stopped.set(true));
    let (what, lease) = (waiting(&scene, ms(60_000)), scene.lease(1));
    assert!(matches!(scene.acquire(&lease, &what), Err(Error::Interrupted)));
    assert_eq!(sent(&scene, &what), [(0, "try"), (0, "ask"), (450, "leave")]);
    assert!(!lease.may_live());
    scene.world.other(&release(&scene));
    assert!(scene.is_free(), "nobody is left in the queue");
}

#[test]
fn a_wait_that_is_stopped_while_it_leaves_is_stopped() {
    let scene = busy();
    scene.script([Fate::Answered, Fate::Answered, Fate::Answered]);
    scene.script([Fate::Answered.while_(|world| world.stopped.set(true))]);
    let acquired = scene.acquire(&scene.lease(1), &waiting(&scene, ms(500)));
    assert!(matches!(acquired, Err(Error::Interrupted)), "{acquired:?}");
}

#[test]
fn a_child_that_a_wait_forked_leaves_its_parents_place() {
    let scene = busy();
    scene.world.after(ms(450), |world| world.process.set(1));
    let what = waiting(&scene, ms(60_000));
    let acquired = scene.acquire(&scene.lease(1), &what);
    assert!(matches!(acquired, Err(Error::Forked)), "{acquired:?}");
    let sent = sent(&scene, &what);
    assert!(sent.iter().all(|(_, name)| *name != "leave"), "{sent:?}");
}

#[test]
fn an_error_in_the_middle_of_a_wait_leaves_the_queue() {
    let scene = busy();
    scene.script([Fate::Answered, Fate::Answered, Fate::Error]);
    let acquired = scene.acquire(&scene.lease(1), &waiting(&scene, ms(60_000)));
    assert!(matches!(cause(acquired), Cause::Answered(_)));
    assert_eq!(scene.sent(), "try ask ask leave");
}

#[test]
fn a_silent_server_is_not_asked_to_forget_us() {
    let scene = busy();
    scene.script([Fate::Answered, Fate::Answered, Fate::RequestLost, Fate::RequestLost]);
    let acquired = scene.acquire(&scene.lease(1), &waiting(&scene, ms(60_000)));
    assert!(matches!(cause(acquired), Cause::NoAnswer(_)));
    assert_eq!(scene.sent(), "try ask ask ask");
    // What heard for us is gone, and with it our place.
    scene.world.other(&release(&scene));
    assert!(scene.is_free());
}

#[test]
fn who_becomes_deaf_listens_anew_and_keeps_its_ticket() {
    let scene = busy();
    let _before = Other::joins(&scene, 10);
    scene.world.after(ms(300), |world| world.deaf.set(true));
    scene.world.after(ms(5_000), |world| world.deaf.set(true));
    let what = waiting(&scene, ms(5_500));
    assert!(matches!(scene.acquire(&scene.lease(1), &what), Ok(Acquired::Busy { .. })));
    assert_eq!(scene.world.listened.get(), 3);
    let tickets = tickets(&scene);
    assert_eq!(tickets[0], None);
    assert!(tickets[1].is_some() && tickets[1..].iter().all(|ticket| *ticket == tickets[1]), "{tickets:?}");
    let sent = sent(&scene, &what);
    assert!(
        sent.contains(&(300, "ask")) && sent.contains(&(5_000, "ask")),
        "looks at what it may have missed: {sent:?}"
    );
}

#[test]
fn who_becomes_deaf_again_at_once_looks_for_itself_and_tries_again_ever_more_seldom() {
    let scene = busy();
    // It is lost again whenever it is there.
    for moment in 1..200 {
        scene.world.after(ms(moment * 300), |world| world.deaf.set(true));
    }
    let what = waiting(&scene, ms(60_000));
    assert!(matches!(scene.acquire(&scene.lease(1), &what), Ok(Acquired::Busy { .. })));
    // At once, and then after 1, 2, 4, 8, 16 and 32 seconds.
    assert!((6..=8).contains(&scene.world.listened.get()), "{}", scene.world.listened.get());
    let sent = sent(&scene, &what);
    assert!(sent.len() > 200 && *sent.last().unwrap() == (60_000, "leave"), "{} requests", sent.len());
    scene.world.other(&release(&scene));
    assert!(scene.is_free(), "nobody is left in the queue");
}

#[test]
fn a_queue_that_is_out_of_reach_is_joined_when_it_is_back_where_it_may_come_back() {
    for may_come_back in [true, false] {
        let scene = busy();
        scene.world.fails_over.set(may_come_back);
        scene.script([Fate::Answered].into_iter().chain([Fate::Alone; 10]));
        let what = waiting(&scene, ms(20_000));
        assert!(matches!(scene.acquire(&scene.lease(1), &what), Ok(Acquired::Busy { .. })));
        assert_eq!(scene.world.listened.get(), 1);
        let tickets = tickets(&scene);
        assert_eq!(tickets.iter().any(Option::is_some), may_come_back, "{tickets:?}");
        let sent = sent(&scene, &what);
        let (without, with) = sent.split_at(11);
        assert!(without.last().unwrap().0 < 10 * 250, "it looks for itself: {without:?}");
        // And is told again, or never.
        assert_eq!(with.len() < 40, may_come_back, "{} more requests", with.len());
        assert_eq!(sent.last().unwrap().1 == "leave", may_come_back);
    }
}

#[test]
fn who_looks_for_itself_is_passed_over_by_nobody() {
    let scene = busy();
    scene.world.refuses_subscriptions.set(true);
    let (what, lease) = (waiting(&scene, ms(60_000)), scene.lease(1));
    scene.world.after(ms(2_000), {
        let release = release(&scene);
        let key = scene.key.clone();
        move |world| {
            let behind = Other::hears(world, &key, 10);
            world.other(&Request::Ask(key, token(10), ttl(30_000).into(), Some(behind.place.clone())));
            world.other(&release);
            assert!(!behind.is_told(world));
        }
    });
    assert!(matches!(scene.acquire(&lease, &what), Ok(Acquired::Held)));
    assert!(scene.world.now().since(what.start) <= ms(2_000) + ms(500));
    assert_eq!(scene.world.listened.get(), 1, "one refusal is enough");
}

#[test]
fn who_looks_for_itself_lets_those_before_it_pass() {
    let scene = busy();
    let before = Other::joins(&scene, 10);
    scene.world.refuses_subscriptions.set(true);
    // The holder's ttl ends, and nobody offers the key to anybody.
    scene.world.after(ms(500), {
        let refresh = Request::Refresh(scene.key.clone(), token(HOLDER), ttl(100));
        move |world| drop(world.other(&refresh))
    });
    let acquired = scene.acquire(&scene.lease(1), &waiting(&scene, ms(1_200)));
    assert!(matches!(acquired, Ok(Acquired::Busy { .. })), "{acquired:?}");
    assert!(before.is_told(&scene.world));
}

#[test]
fn what_never_told_is_not_kept() {
    let scene = busy();
    scene.world.other(&Request::Refresh(scene.key.clone(), token(HOLDER), ttl(300)));
    let mut kept = None;
    let acquired = scene.engine().acquire(&scene.lease(1), &waiting(&scene, ms(60_000)), &mut kept);
    assert!(matches!(acquired, Ok(Acquired::Held)) && kept.is_none());
}

#[test]
fn behind_another_librarys_holder_a_waiter_polls() {
    let scene = Scene::new();
    let foreign = redis_lock::lock::token::Token::from_bytes(b"foreign");
    scene.world.other(&Request::Try(scene.key.clone(), foreign, ttl(HELD_FOR).into()));
    let what = waiting(&scene, ms(2_000));
    assert!(matches!(scene.acquire(&scene.lease(1), &what), Ok(Acquired::Busy { .. })));
    assert!(sent(&scene, &what).len() > 10);
}

#[test]
fn a_holder_that_dies_is_followed_at_its_expiry() {
    let scene = Scene::new();
    scene.world.other(&Request::Try(scene.key.clone(), token(HOLDER), ttl(650).into()));
    let what = waiting(&scene, ms(60_000));
    assert!(matches!(scene.acquire(&scene.lease(1), &what), Ok(Acquired::Held)));
    assert_eq!(sent(&scene, &what), [(0, "try"), (0, "ask"), (651, "ask")]);
}

#[test]
fn an_offer_that_nobody_takes_costs_its_time_and_no_more() {
    let scene = busy();
    let stopped = Other::joins(&scene, 10);
    let release = release(&scene);
    scene.world.after(ms(3_000), move |world| drop(world.other(&release)));
    let what = waiting(&scene, ms(60_000));
    assert!(matches!(scene.acquire(&scene.lease(1), &what), Ok(Acquired::Held)));
    let (last, _) = *sent(&scene, &what).last().unwrap();
    assert!(stopped.is_told(&scene.world));
    assert!((4_000..4_010).contains(&last), "{last}");
}

#[test]
fn an_idle_waiter_asks_about_once_a_second() {
    let scene = busy();
    let what = waiting(&scene, ms(600_000));
    assert!(matches!(scene.acquire(&scene.lease(1), &what), Ok(Acquired::Busy { .. })));
    let count = sent(&scene, &what).len();
    assert!((600..900).contains(&count), "{count} requests in 10 minutes");
}

#[test]
fn a_wait_whose_asks_may_run_late_keeps_nothing_that_hears() {
    let scene = busy();
    let release = release(&scene);
    scene.world.after(ms(100), move |world| drop(world.other(&release)));
    scene.script([Fate::Answered, Fate::Late]);
    let mut kept = None;
    let acquired = scene.engine().acquire(&scene.lease(1), &waiting(&scene, ms(60_000)), &mut kept);
    assert!(matches!(acquired, Ok(Acquired::Held)) && kept.is_none(), "{acquired:?}");
    // It runs when the lease is over: that is a place in the queue that nobody is offered the key for.
    scene.world.other(&Request::Leave(scene.key.clone(), token(1), None));
    scene.world.other(&Request::Try(scene.key.clone(), token(HOLDER), ttl(HELD_FOR).into()));
    scene.carry_out_late_requests();
    scene.world.other(&super::queue::release(&scene));
    assert!(scene.is_free());
}

#[test]
fn one_try_neither_listens_nor_queues() {
    let scene = busy();
    assert!(matches!(scene.acquire(&scene.lease(1), &one_try(&scene)), Ok(Acquired::Busy { .. })));
    assert_eq!((scene.sent().as_str(), scene.world.listened.get()), ("try", 0));
}
