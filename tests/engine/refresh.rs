//! More time for a lease.

use redis_lock::lock::{
    error::Error,
    lease::{Lease, State},
    ports::{Cause, Clock},
};

use super::{
    cause, held, no_answer,
    support::{
        ms,
        request::Request,
        token, ttl,
        world::{Fate, Scene},
    },
};

#[test]
fn a_refresh_counts_from_before_it_was_sent() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(10_000));
    scene.world.pass(ms(5_000));
    let sent = scene.world.now();
    scene.script([Fate::Answered.taking(ms(200), ms(300))]);
    assert!(scene.engine().refresh(&lease, ttl(20_000)).unwrap());
    assert_eq!(scene.sent(), "refresh");
    assert_eq!(lease.valid_until(), sent.plus(ttl(20_000).validity()));
    scene.world.pass(lease.valid_until().since(scene.world.now()));
    assert_eq!(scene.holder(), Some(token(1)));
}

#[test]
fn a_refresh_may_shorten() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(10_000));
    assert!(scene.engine().refresh(&lease, ttl(1_000)).unwrap());
    assert_eq!(lease.valid_until(), scene.world.now().plus(ttl(1_000).validity()));
}

#[test]
fn a_refresh_never_creates_and_never_takes() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(1_000));
    scene.world.pass(ms(1_001));
    assert!(!scene.engine().refresh(&lease, ttl(30_000)).unwrap());
    assert!(scene.is_free());
    assert!(lease.is_expired(scene.world.now()) && !lease.may_live());
    assert_eq!(scene.sent(), "refresh");
    // What is lost stays lost, without a question.
    assert!(!scene.engine().refresh(&lease, ttl(30_000)).unwrap());
    assert_eq!(scene.sent(), "");

    let scene = Scene::new();
    let lease = held(&scene, ttl(1_000));
    scene.world.pass(ms(1_001));
    scene.world.other(&Request::Try(scene.key.clone(), token(2), ttl(5_000).into()));
    assert!(!scene.engine().refresh(&lease, ttl(30_000)).unwrap());
    scene.world.pass(ms(5_001));
    assert!(scene.is_free(), "the other's ttl is not ours to change");
}

#[test]
fn a_restored_lease_is_ours_once_a_refresh_says_so() {
    let scene = Scene::new();
    let lease = scene.lease(1);
    assert!(!scene.engine().refresh(&lease, ttl(5_000)).unwrap(), "stale");
    assert!(!lease.may_live() && !lease.is_expired(scene.world.now()));

    scene.world.other(&Request::Try(scene.key.clone(), token(1), ttl(30_000).into()));
    let lease = scene.lease(1);
    assert!(!lease.is_valid(scene.world.now()));
    assert!(scene.engine().refresh(&lease, ttl(5_000)).unwrap());
    assert!(lease.is_valid(scene.world.now()));
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    for fate in [Fate::ReplyLost, Fate::RequestLost] {
        let scene = Scene::new();
        let lease = held(&scene, ttl(10_000));
        scene.script([fate]);
        assert!(scene.engine().refresh(&lease, ttl(10_000)).unwrap());
        assert_eq!(scene.sent(), "refresh refresh");
        let second = scene.world.now();
        assert_eq!(lease.valid_until(), second.plus(ttl(10_000).validity()));
    }
}

#[test]
fn two_lost_answers_leave_a_lease_valid_for_as_long_as_it_surely_is() {
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Late] {
        let scene = Scene::new();
        let lease = held(&scene, ttl(30_000));
        let until = lease.valid_until();
        scene.script([fate, fate]);
        assert!(no_answer(scene.engine().refresh(&lease, ttl(60_000))));
        assert_eq!(scene.sent(), "refresh refresh");
        assert_eq!(lease.valid_until(), until, "unknown is no prolongation");
        assert!(lease.is_valid(scene.world.now()));
    }
}

#[test]
fn a_shorter_ttl_of_unknown_fate_bounds_what_is_believed_from_then_on() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(30_000));
    let first = scene.world.now();
    scene.script([Fate::Late, Fate::Late]);
    assert!(no_answer(scene.engine().refresh(&lease, ttl(5_000))));
    assert_eq!(lease.valid_until(), first.plus(ttl(5_000).validity()));
    // Longer ones are granted, and the short ones come after them.
    scene.world.pass(ms(1_000));
    let granted = scene.world.now();
    assert!(scene.engine().refresh(&lease, ttl(60_000)).unwrap());
    assert_eq!(lease.valid_until(), granted.plus(ttl(5_000).validity()));
    scene.carry_out_late_requests();
    for _ in 0..600 {
        scene.world.pass(ms(10));
        assert!(!lease.is_valid(scene.world.now()) || scene.holder() == Some(token(1)));
    }
    assert!(scene.is_free(), "the late ones did cut it");
}

#[test]
fn what_was_not_carried_out_changes_nothing() {
    for fate in [Fate::Error, Fate::Unreachable] {
        let scene = Scene::new();
        let lease = held(&scene, ttl(30_000));
        let until = lease.valid_until();
        scene.script([fate]);
        assert!(!matches!(cause(scene.engine().refresh(&lease, ttl(5_000))), Cause::NoAnswer(_)));
        assert_eq!(scene.sent(), "refresh");
        assert_eq!(lease.valid_until(), until);
        assert!(scene.engine().refresh(&lease, ttl(60_000)).unwrap());
        assert_eq!(lease.valid_until(), scene.world.now().plus(ttl(60_000).validity()), "{fate:?}");
    }
}

#[test]
fn a_lease_that_expired_here_but_not_in_the_store_can_be_refreshed() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(10_000));
    scene.world.pass(ms(9_950));
    assert!(lease.is_expired(scene.world.now()));
    assert!(scene.engine().refresh(&lease, ttl(10_000)).unwrap());
    assert!(lease.is_valid(scene.world.now()));
}

#[test]
fn an_answer_that_used_up_the_ttl_makes_no_lease_valid() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(10_000));
    scene.script([Fate::Answered.taking(ms(0), ms(900))]);
    assert!(scene.engine().refresh(&lease, ttl(500)).unwrap());
    assert!(!lease.is_valid(scene.world.now()) && lease.state() == State::Held);
}

#[test]
fn a_child_that_a_refresh_forked_says_so() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(30_000));
    scene.script([Fate::Forked.while_(|world| world.process.set(1))]);
    assert!(matches!(scene.engine().refresh(&lease, ttl(5_000)), Err(Error::Forked)));
    assert_eq!(scene.sent(), "refresh");
}

#[test]
fn a_refresh_waits_for_a_renewal_that_is_under_way() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(10_000));
    let renewal = Lease::renew(&lease, scene.world.now()).unwrap();
    let start = scene.world.now();
    assert!(no_answer(scene.engine().refresh(&lease, ttl(1_000))));
    assert_eq!(scene.sent(), "", "two that are under way at once have no order");
    assert!(scene.world.now().since(start) <= scene.engine().limits.grace() + ms(1));
    drop(renewal);
    assert!(scene.engine().refresh(&lease, ttl(1_000)).unwrap());
}

#[test]
fn a_refresh_does_not_bring_back_what_was_told_lost() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(1_000));
    scene.world.pass(ms(989));
    assert!(lease.is_over(scene.world.now()));
    assert!(!scene.engine().refresh(&lease, ttl(1_000)).unwrap());
    assert_eq!((scene.sent().as_str(), lease.state()), ("", State::Overdue));
}
