//! One try.

use redis_lock::lock::{
    acquire::{Acquire, Acquired},
    error::Error,
    lease::State,
    ports::{Cause, Clock, Interrupt},
    ttl::Ttl,
};

use super::{
    cause, no_answer, one_try,
    support::{
        ms,
        request::Request,
        token, ttl,
        world::{Fate, Scene, World},
    },
};

#[test]
fn a_free_key_costs_one_request() {
    let scene = Scene::new();
    let lease = scene.lease(1);
    let sent = scene.world.now();
    scene.script([Fate::Answered.taking(ms(20), ms(30))]);
    let acquired = scene.acquire(&lease, &one_try(&scene));
    assert!(matches!(acquired, Ok(Acquired::Held)), "{acquired:?}");
    assert_eq!(scene.sent(), "try");
    assert_eq!(lease.valid_until(), sent.plus(ttl(30_000).validity()), "counts from before the request");
    assert_eq!(scene.holder(), Some(token(1)));
}

#[test]
fn a_key_that_someone_holds_is_busy() {
    let scene = Scene::new();
    scene.world.other(&Request::Try(scene.key.clone(), token(2), ttl(5_000).into()));
    let lease = scene.lease(1);
    let acquired = scene.acquire(&lease, &one_try(&scene));
    assert!(matches!(acquired, Ok(Acquired::Busy { .. })), "{acquired:?}");
    assert_eq!(scene.sent(), "try");
    assert!(!lease.may_live());
}

#[test]
fn a_lost_answer_is_asked_for_again_with_the_same_token() {
    for fate in [Fate::RequestLost, Fate::ReplyLost, Fate::Late] {
        let scene = Scene::new();
        let lease = scene.lease(1);
        scene.script([fate.into(), Fate::Answered.taking(ms(100), ms(100))]);
        let start = scene.world.now();
        let acquired = scene.acquire(&lease, &one_try(&scene));
        assert!(matches!(acquired, Ok(Acquired::Held)), "{fate:?}: {acquired:?}");
        assert_eq!(scene.sent(), "try ask");
        // `ask` starts the ttl anew, so that validity counts from the second request, and from before it.
        assert_eq!(lease.valid_until(), start.plus(ms(1_000)).plus(ttl(30_000).validity()));
        assert_eq!(scene.holder(), Some(token(1)));
        // The first one may still arrive, and changes nothing.
        scene.carry_out_late_requests();
        scene.world.pass(lease.valid_until().since(scene.world.now()));
        assert_eq!(scene.holder(), Some(token(1)), "{fate:?}");
    }
}

#[test]
fn the_second_request_makes_good_what_the_first_used_up() {
    let scene = Scene::new();
    let lease = scene.lease(1);
    // The lost first request alone takes twice the ttl.
    scene.script([Fate::ReplyLost]);
    let acquired = scene.acquire(&lease, &Acquire { terms: ttl(500).into(), ..one_try(&scene) });
    assert!(matches!(acquired, Ok(Acquired::Held)) && lease.is_valid(scene.world.now()), "{acquired:?}");
}

#[test]
fn busy_after_a_lost_request_keeps_the_token() {
    let scene = Scene::new();
    let other = Request::Try(scene.key.clone(), token(2), ttl(30_000).into());
    scene.world.other(&other);
    let lease = scene.lease(1);
    scene.script([Fate::Late]);
    let acquired = scene.acquire(&lease, &one_try(&scene));
    assert!(matches!(acquired, Ok(Acquired::Busy { busy: Some(_), .. })), "{acquired:?}");
    assert_eq!(scene.sent(), "try ask");
    assert!(!lease.is_valid(scene.world.now()) && !lease.is_expired(scene.world.now()));
    // The request that was lost may still take the key, for nobody: it can be freed.
    scene.world.pass(ms(40_000));
    scene.carry_out_late_requests();
    assert_eq!(scene.holder(), Some(token(1)));
    assert!(lease.may_live());
    scene.engine().release(&lease, scene.engine().deadline()).unwrap();
    assert!(scene.is_free() && !lease.may_live());
}

#[test]
fn two_lost_answers_are_an_error_and_the_token_is_kept() {
    for (first, second) in [(Fate::ReplyLost, Fate::ReplyLost), (Fate::RequestLost, Fate::Late)] {
        let scene = Scene::new();
        let lease = scene.lease(1);
        scene.script([first, second]);
        assert!(no_answer(scene.acquire(&lease, &one_try(&scene))));
        assert_eq!(scene.sent(), "try ask");
        assert!(!lease.is_valid(scene.world.now()) && !lease.is_expired(scene.world.now()) && lease.may_live());
        scene.carry_out_late_requests();
        assert_eq!(scene.holder(), Some(token(1)));
        scene.engine().release(&lease, scene.engine().deadline()).unwrap();
        assert!(scene.is_free() && !lease.may_live());
    }
}

#[test]
fn a_definite_error_settles_the_lease() {
    for fate in [Fate::Error, Fate::Unreachable] {
        let scene = Scene::new();
        let lease = scene.lease(1);
        scene.script([fate]);
        let cause = cause(scene.acquire(&lease, &one_try(&scene)));
        assert!(!matches!(cause, Cause::NoAnswer(_)), "{cause:?}");
        assert_eq!(scene.sent(), "try", "what was not carried out is not repeated");
        assert!(!lease.may_live());
    }
}

#[test]
fn an_error_after_a_lost_answer_settles_nothing() {
    for fate in [Fate::Error, Fate::Unreachable] {
        let scene = Scene::new();
        let lease = scene.lease(1);
        scene.script([Fate::ReplyLost, fate]);
        assert!(!no_answer(scene.acquire(&lease, &one_try(&scene))));
        assert_eq!(scene.sent(), "try ask");
        assert!(!lease.is_valid(scene.world.now()) && lease.may_live());
        assert_eq!(scene.holder(), Some(token(1)));
    }
}

#[test]
fn an_owner_that_holds_the_key_already_is_told_so() {
    let scene = Scene::new();
    scene.world.other(&Request::Try(scene.key.clone(), token(1), ttl(1_000).into()));
    let lease = scene.lease(1);
    let acquired = scene.acquire(&lease, &Acquire { bare: false, ..one_try(&scene) });
    assert!(matches!(acquired, Ok(Acquired::Held)), "{acquired:?}");
    assert_eq!(scene.sent(), "ask");
    scene.world.pass(ms(29_000));
    assert!(lease.is_valid(scene.world.now()));
    assert_eq!(scene.holder(), Some(token(1)), "the ttl began anew");
}

#[test]
fn a_lease_that_is_used_up_when_the_answer_comes_is_freed() {
    let scene = Scene::new();
    let lease = scene.lease(1);
    scene.script([Fate::Answered.taking(ms(450), ms(450))]);
    let acquired = scene.acquire(&lease, &Acquire { terms: ttl(500).into(), ..one_try(&scene) });
    assert!(matches!(acquired, Err(Error::UsedUp { took, .. }) if took == ms(900)), "{acquired:?}");
    assert_eq!(scene.sent(), "try leave");
    assert!(scene.is_free() && !lease.may_live());
}

#[test]
fn the_drift_is_not_ours_either() {
    let scene = Scene::new();
    let lease = scene.lease(1);
    let validity = Ttl::validity(ttl(500));
    scene.script([Fate::Answered.taking(ms(0), validity)]);
    let acquired = scene.acquire(&lease, &Acquire { terms: ttl(500).into(), ..one_try(&scene) });
    assert!(matches!(acquired, Err(Error::UsedUp { .. })), "{acquired:?}");
    assert_eq!(scene.sent(), "try leave");
}

#[test]
fn a_call_that_was_stopped_leaves_no_key_behind() {
    let stop = |world: &World| world.stopped.set(true);
    // Granted, and granted without our knowing: neither is tried again, both are freed.
    for step in [Fate::Answered.while_(stop), Fate::ReplyLost.while_(stop)] {
        let scene = Scene::new();
        let lease = scene.lease(1);
        scene.script([step]);
        let acquired = scene.acquire(&lease, &one_try(&scene));
        assert!(matches!(acquired, Err(Error::Interrupted)), "{acquired:?}");
        assert_eq!(scene.sent(), "try leave");
        assert!(scene.is_free() && !lease.is_valid(scene.world.now()));
    }
}

#[test]
fn a_call_that_was_stopped_before_it_sent_anything_sends_nothing_more() {
    for fate in [Fate::Unreachable, Fate::Error] {
        let scene = Scene::new();
        let lease = scene.lease(1);
        scene.script([fate.while_(|world| world.stopped.set(true))]);
        let acquired = scene.acquire(&lease, &one_try(&scene));
        assert!(matches!(acquired, Err(Error::Interrupted)), "{acquired:?}");
        assert_eq!(scene.sent(), "try", "there is nothing to free");
        assert!(!lease.may_live());
    }
}

#[test]
fn a_call_that_was_stopped_and_could_not_free_the_key_keeps_the_token() {
    let scene = Scene::new();
    let lease = scene.lease(1);
    scene.script([Fate::Answered.while_(|world| world.stopped.set(true)), Fate::RequestLost.into()]);
    let acquired = scene.acquire(&lease, &one_try(&scene));
    assert!(matches!(acquired, Err(Error::Interrupted)), "{acquired:?}");
    assert_eq!(scene.sent(), "try leave");
    assert!(!lease.is_valid(scene.world.now()) && lease.may_live());
    assert_eq!(scene.holder(), Some(token(1)));
    // Nobody was ever told that it was held, so that it cannot expire in anybody's eyes.
    scene.world.pass(ms(40_000));
    assert!(!lease.is_expired(scene.world.now()) && !lease.is_worth_knowing());
    assert!(lease.is_tainted(), "what was to free it may still run");
}

#[test]
fn a_child_believes_and_frees_nothing_of_its_parents() {
    // A handler may fork, and the child may throw or exit as well.
    for child_stops in [false, true] {
        let scene = Scene::new();
        let lease = scene.lease(1);
        let granted_to_the_parent = Request::Try(scene.key.clone(), token(1), ttl(30_000).into());
        scene.script([Fate::Forked.while_(move |world| {
            world.other(&granted_to_the_parent);
            world.process.set(1);
            world.stopped.set(child_stops);
        })]);
        let acquired = scene.acquire(&lease, &one_try(&scene));
        assert!(matches!(acquired, Err(Error::Forked)), "{acquired:?}");
        assert_eq!(scene.sent(), "try", "child stops: {child_stops}");
        assert_eq!(scene.holder(), Some(token(1)), "child stops: {child_stops}");
        assert!(!lease.is_valid(scene.world.now()));
        assert_ne!(scene.world.process(), lease.process());
        assert_ne!(lease.state(), State::Held);
    }
}
