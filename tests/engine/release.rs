//! The end of a lease.

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

fn release(scene: &Scene, lease: &Lease) -> Result<bool, Error> {
    let engine = scene.engine();
    engine.release(lease, engine.deadline())
}

#[test]
fn a_release_costs_one_request() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(30_000));
    assert!(release(&scene, &lease).unwrap());
    assert_eq!(scene.sent(), "leave");
    let now = scene.world.now();
    assert!(scene.is_free() && !lease.may_live() && !lease.is_valid(now) && !lease.is_expired(now));
    assert!(!lease.is_tainted());
}

#[test]
fn what_another_holds_is_not_freed() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(1_000));
    scene.world.pass(ms(1_001));
    scene.world.other(&Request::Try(scene.key.clone(), token(2), ttl(30_000).into()));
    assert!(!release(&scene, &lease).unwrap());
    assert_eq!(scene.holder(), Some(token(2)));
    assert!(!lease.may_live() && lease.is_expired(scene.world.now()));
}

#[test]
fn a_release_whose_answer_was_lost_is_sent_again_and_true_if_the_first_ran() {
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Late] {
        let scene = Scene::new();
        let lease = held(&scene, ttl(30_000));
        scene.script([fate]);
        assert!(release(&scene, &lease).unwrap(), "{fate:?}");
        assert_eq!(scene.sent(), "leave leave");
        assert!(scene.is_free() && lease.state() == State::Settled);
        // A late one frees nobody else.
        scene.world.other(&Request::Try(scene.key.clone(), token(2), ttl(30_000).into()));
        scene.carry_out_late_requests();
        assert_eq!(scene.holder(), Some(token(2)));
    }
}

#[test]
fn not_ours_after_a_lost_answer_is_no_release_where_the_lease_had_expired() {
    for fate in [Fate::ReplyLost, Fate::RequestLost] {
        let scene = Scene::new();
        let lease = held(&scene, ttl(1_000));
        scene.world.pass(ms(1_001));
        scene.script([fate]);
        assert!(!release(&scene, &lease).unwrap(), "{fate:?}");
        assert_eq!(scene.sent(), "leave leave");
        assert!(!lease.may_live());
    }
}

#[test]
fn a_lease_that_is_no_more_sure_but_still_there_is_released() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(10_000));
    scene.world.pass(ms(9_950));
    assert!(lease.is_expired(scene.world.now()));
    assert!(release(&scene, &lease).unwrap());
    assert!(scene.is_free());
}

#[test]
fn two_lost_answers_keep_the_token_until_the_answer_is_definite() {
    for (first, second) in
        [(Fate::ReplyLost, Fate::ReplyLost), (Fate::RequestLost, Fate::RequestLost), (Fate::RequestLost, Fate::Late)]
    {
        let scene = Scene::new();
        let lease = held(&scene, ttl(30_000));
        scene.script([first, second]);
        assert!(no_answer(release(&scene, &lease)));
        assert_eq!(scene.sent(), "leave leave");
        assert_eq!(lease.state(), State::Releasing);
        assert!(!lease.is_valid(scene.world.now()) && lease.may_live());
        assert!(lease.is_tainted(), "one of them may still run, under whoever acquires with this token");
        assert!(release(&scene, &lease).unwrap(), "{first:?} {second:?}: free, and by us");
        assert_eq!(scene.sent(), "leave");
        assert!(scene.is_free() && lease.state() == State::Settled);
        scene.carry_out_late_requests();
    }
}

#[test]
fn a_second_release_of_unknown_fate_does_not_forget_that_the_first_was_ours() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(5_000));
    scene.script([Fate::ReplyLost, Fate::RequestLost]);
    assert!(no_answer(release(&scene, &lease)));
    scene.world.pass(ms(60_000));
    scene.script([Fate::RequestLost, Fate::RequestLost]);
    assert!(no_answer(release(&scene, &lease)));
    assert!(release(&scene, &lease).unwrap());
}

#[test]
fn two_lost_answers_for_an_expired_lease_make_it_no_release_either() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(1_000));
    scene.world.pass(ms(1_001));
    scene.script([Fate::RequestLost, Fate::ReplyLost]);
    assert!(no_answer(release(&scene, &lease)));
    assert!(lease.may_live() && lease.is_expired(scene.world.now()));
    assert!(!release(&scene, &lease).unwrap());
    assert!(!lease.may_live());
}

#[test]
fn after_a_release_of_unknown_fate_no_refresh_is_believed() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(30_000));
    scene.script([Fate::RequestLost, Fate::Late]);
    assert!(no_answer(release(&scene, &lease)));
    scene.sent();
    // The key is still there, and the release may still come.
    assert_eq!(scene.holder(), Some(token(1)));
    assert!(!scene.engine().refresh(&lease, ttl(30_000)).unwrap());
    assert_eq!(scene.sent(), "");
    assert!(!lease.is_valid(scene.world.now()) && lease.may_live());
    scene.carry_out_late_requests();
    assert!(scene.is_free());
}

#[test]
fn a_release_that_was_not_carried_out_changes_nothing() {
    for fate in [Fate::Error, Fate::Unreachable] {
        let scene = Scene::new();
        let lease = held(&scene, ttl(30_000));
        scene.script([fate]);
        assert!(!matches!(cause(release(&scene, &lease)), Cause::NoAnswer(_)));
        assert_eq!(scene.sent(), "leave");
        assert!(lease.is_valid(scene.world.now()) && !lease.is_tainted(), "{fate:?}");
        assert!(release(&scene, &lease).unwrap());
    }
}

#[test]
fn an_error_after_a_lost_answer_leaves_a_release_under_way() {
    for fate in [Fate::Error, Fate::Unreachable] {
        let scene = Scene::new();
        let lease = held(&scene, ttl(30_000));
        scene.script([Fate::ReplyLost, fate]);
        assert!(!no_answer(release(&scene, &lease)));
        assert_eq!(lease.state(), State::Releasing);
        assert!(release(&scene, &lease).unwrap());
    }
}

#[test]
fn a_release_is_tried_again_only_in_time() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(30_000));
    scene.script([Fate::RequestLost]);
    let until = scene.world.now().plus(ms(700));
    assert!(no_answer(scene.engine().release(&lease, until)));
    assert_eq!(scene.sent(), "leave");
    assert_eq!(scene.world.now(), until);
}

#[test]
fn a_child_that_a_release_forked_says_so_and_sends_nothing() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(30_000));
    scene.script([Fate::Forked.while_(|world| world.process.set(1))]);
    assert!(matches!(release(&scene, &lease), Err(Error::Forked)));
    assert_eq!(scene.sent(), "leave");
}

#[test]
fn what_was_told_lost_stays_so_and_is_freed_all_the_same() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(1_000));
    scene.world.pass(ms(989));
    assert!(lease.is_over(scene.world.now()), "the keeper says so");
    assert_eq!(scene.holder(), Some(token(1)), "the server does not know yet");
    assert!(!release(&scene, &lease).unwrap());
    assert!(scene.is_free() && lease.is_expired(scene.world.now()) && !lease.may_live());
}

#[test]
fn a_release_does_not_wait_for_a_renewal() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(1_000));
    let renewal = Lease::renew(&lease, scene.world.now()).unwrap();
    assert!(release(&scene, &lease).unwrap());
    assert!(!renewal.lease().renewal_refused(), "its answer is no loss");
    assert_eq!(lease.state(), State::Settled);
}
