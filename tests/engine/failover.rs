//! A server whose place another takes when it fails: what leads to it fails for a while.

use std::time::Duration;

use redis_lock::lock::{
    acquire::{Acquire, Acquired},
    error::Error,
    lease::{Lease, State},
    ports::{Cause, Clock, Fault},
};

use super::{
    cause, held, one_try,
    support::{
        Random, ms,
        request::Request,
        token, ttl,
        world::{Fate, Scene, World},
    },
    waiting,
};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.world.fails_over.set(true);
    scene
}

/// What comes before another server is there.
const OUTAGE: [Fate; 5] = [Fate::Unreachable, Fate::NotNow, Fate::Unreachable, Fate::NotNow, Fate::Unreachable];

type Step = fn(&Scene, &Lease) -> Result<bool, Error>;

fn acquire(scene: &Scene, lease: &Lease) -> Result<bool, Error> {
    Ok(matches!(scene.acquire(lease, &one_try(scene))?, Acquired::Held))
}

/// What is asked of a held lease, and by which requests.
const STEPS: [(Step, &str); 4] = [
    (|scene, lease| scene.engine().release(lease, scene.engine().deadline()), "leave"),
    (|scene, lease| scene.engine().refresh(lease, ttl(30_000)), "refresh"),
    (|scene, _| Ok(scene.engine().holder(&scene.key)?.is_some()), "occupant"),
    (|scene, lease| scene.engine().evict(&scene.key, Some(lease)), "occupant"),
];

#[test]
fn each_step_is_tried_until_there_is_a_server() {
    for (step, request) in STEPS {
        let scene = scene();
        let lease = held(&scene, ttl(30_000));
        scene.script(OUTAGE);
        let start = scene.world.now();
        assert!(step(&scene, &lease).unwrap(), "{request}");
        assert!(scene.sent().starts_with(&[request; 6].join(" ")), "{request}");
        let took = scene.world.now().since(start);
        // Five pauses, of 20 ms at least and of 40 + 80 + 160 + 250 + 250 at most.
        assert!((ms(100)..=ms(780)).contains(&took), "{request}: {took:?}");
    }
    let scene = scene();
    let lease = scene.lease(1);
    scene.script(OUTAGE);
    assert!(acquire(&scene, &lease).unwrap());
    assert_eq!(scene.sent(), "try ask ask ask ask ask");
    assert_eq!(scene.holder(), Some(token(1)));
    assert!(lease.is_valid(scene.world.now()) && !lease.has_unknowns());
}

#[test]
fn one_that_fails_over_to_none_is_told_before_the_calls_end() {
    for (step, request) in STEPS {
        for fate in [Fate::Unreachable, Fate::NotNow, Fate::RequestLost] {
            let scene = scene();
            let lease = held(&scene, ttl(30_000));
            scene.script([fate; 300]);
            let start = scene.world.now();
            let cause = cause(step(&scene, &lease));
            let took = scene.world.now().since(start);
            assert!(took > World::LIMITS.grace() - ms(300) && took <= World::LIMITS.grace(), "{request}: {took:?}");
            let is_told = match fate {
                Fate::NotNow => matches!(cause, Cause::NotNow(_)),
                Fate::Unreachable => matches!(cause, Cause::Unreachable(_)),
                _ => matches!(cause, Cause::NoAnswer(_)),
            };
            assert!(is_told, "{request}: {cause:?}");
            assert!(lease.may_live(), "{request}: somebody must free it");
        }
    }
}

#[test]
fn what_will_not_pass_is_told_at_once() {
    for (step, request) in STEPS {
        for fate in [Fate::Error, Fate::TurnedAway] {
            let scene = scene();
            let lease = held(&scene, ttl(30_000));
            scene.script([fate]);
            let start = scene.world.now();
            assert!(step(&scene, &lease).is_err());
            assert_eq!((scene.sent().as_str(), scene.world.now()), (request, start));
        }
    }
}

#[test]
fn where_none_takes_its_place_what_was_not_carried_out_is_not_repeated() {
    for (step, request) in STEPS {
        for fate in [Fate::Unreachable, Fate::NotNow] {
            let scene = Scene::new();
            let lease = held(&scene, ttl(30_000));
            scene.script([fate]);
            assert!(step(&scene, &lease).is_err());
            assert_eq!(scene.sent(), request);
        }
    }
}

#[test]
fn a_release_that_may_have_run_before_the_fail_over_is_one() {
    let scene = scene();
    let lease = held(&scene, ttl(30_000));
    scene.script([Fate::ReplyLost, Fate::Unreachable, Fate::NotNow]);
    assert!(scene.engine().release(&lease, scene.engine().deadline()).unwrap());
    assert!(scene.is_free() && lease.state() == State::Settled);
}

#[test]
fn what_may_have_run_before_the_fail_over_is_remembered() {
    let scene = scene();
    let lease = scene.lease(1);
    scene.script([Fate::Late, Fate::Unreachable]);
    assert!(acquire(&scene, &lease).unwrap());
    assert!(lease.has_unknowns() && lease.is_valid(scene.world.now()));
    // A refresh with a longer ttl is believed no more than that one gives, should it run yet.
    assert!(scene.engine().refresh(&lease, ttl(60_000)).unwrap());
    assert!(lease.remaining(scene.world.now()).unwrap() < ms(30_000));
    scene.carry_out_late_requests();
    assert_eq!(scene.holder(), Some(token(1)));
}

#[test]
fn a_key_that_the_new_server_does_not_know_is_lost() {
    let scene = scene();
    let lease = held(&scene, ttl(30_000));
    let gone = Request::Leave(scene.key.clone(), token(1), None);
    scene.script([Fate::Unreachable.while_(move |world| drop(world.other(&gone)))]);
    assert!(!scene.engine().refresh(&lease, ttl(30_000)).unwrap());
    assert!(lease.is_expired(scene.world.now()) && lease.state() == State::Lost);
}

#[test]
fn a_wait_goes_on_at_its_place() {
    let scene = scene();
    scene.world.other(&Request::Try(scene.key.clone(), token(2), ttl(30_000).into()));
    let free = Request::Leave(scene.key.clone(), token(2), None);
    let script: [_; 4] = [Fate::Answered, Fate::Answered, Fate::Unreachable, Fate::NotNow];
    scene.script(script);
    scene.world.after(ms(2_500), move |world| drop(world.other(&free)));
    let (lease, start) = (scene.lease(1), scene.world.now());
    let acquired = scene.acquire(&lease, &waiting(&scene, ms(10_000)));
    assert!(matches!(acquired, Ok(Acquired::Held)), "{acquired:?}");
    let took = scene.world.now().since(start);
    assert!(took < ms(2_600), "told of the offer: {took:?}");
    let sent = scene.line.0.sent.take();
    let tickets: Vec<_> = sent
        .iter()
        .filter_map(|sent| match &sent.request {
            Request::Ask(.., Some(place)) => Some(place.ticket),
            _ => None,
        })
        .collect();
    assert!(tickets[0].is_none() && tickets[1].is_some(), "{tickets:?}");
    assert!(tickets[1..].iter().all(|ticket| *ticket == tickets[1]), "{tickets:?}");
}

#[test]
fn a_wait_without_end_hears_of_an_outage_without_end() {
    let scene = scene();
    scene.script([Fate::Unreachable; 2_000]);
    let (lease, start) = (scene.lease(1), scene.world.now());
    let cause = cause(scene.acquire(&lease, &waiting(&scene, Duration::MAX)));
    let took = scene.world.now().since(start);
    assert!(matches!(cause, Cause::Unreachable(_)), "{cause:?}");
    assert!(took > ms(59_000) && took <= ms(60_000), "{took:?}");
    assert!(!lease.may_live());
}

#[test]
fn whoever_interrupts_ends_the_tries() {
    for (step, request) in STEPS {
        let scene = scene();
        let lease = held(&scene, ttl(30_000));
        scene.script(OUTAGE);
        scene.world.after(ms(5), |world| world.stopped.set(true));
        assert!(step(&scene, &lease).is_err());
        assert_eq!(scene.sent(), request, "the pause has ended, and nothing is sent");
        assert!(scene.world.now() <= lease.valid_until(), "still held, as far as we know");
    }
    let scene = scene();
    let lease = scene.lease(1);
    scene.script([Fate::Late, Fate::Unreachable, Fate::Unreachable]);
    scene.world.after(ms(1_005), |world| world.stopped.set(true));
    assert!(matches!(scene.acquire(&lease, &one_try(&scene)), Err(Error::Interrupted)));
    assert_eq!(scene.sent(), "try ask leave", "what may have been carried out is undone");
}

#[test]
fn a_child_that_is_forked_in_a_pause_asks_nothing() {
    for (step, request) in STEPS {
        let scene = scene();
        let lease = held(&scene, ttl(30_000));
        scene.script(OUTAGE);
        scene.world.after(ms(5), |world| world.process.set(7));
        assert!(matches!(step(&scene, &lease), Err(Error::Forked)), "{request}");
        assert_eq!(scene.sent(), request);
    }
    let scene = scene();
    scene.script(OUTAGE);
    scene.world.after(ms(5), |world| world.process.set(7));
    assert!(matches!(scene.acquire(&scene.lease(1), &one_try(&scene)), Err(Error::Forked)));
    assert_eq!(scene.sent(), "try");
}

#[test]
fn on_lines_with_all_that_may_happen_calls_end_in_time_and_nobody_believes_in_what_another_holds() {
    let fates = [Fate::RequestLost, Fate::ReplyLost, Fate::Late, Fate::Unreachable, Fate::NotNow, Fate::Answered];
    for seed in 0..1_000 {
        let mut random = Random::new(seed);
        let scene = scene();
        if random.below(2) == 0 {
            scene.world.other(&Request::Try(scene.key.clone(), token(2), ttl(500 + random.below(3_000)).into()));
        }
        for _ in 0..60 {
            let fate = random.one_of(&fates);
            scene.script([fate.taking(ms(random.below(300)), ms(random.below(300)))]);
        }
        let (lease, wait) = (scene.lease(1), ms(random.below(3_000)));
        let within = |wait: Duration, call: &dyn Fn() -> Result<bool, Error>| {
            let start = scene.world.now();
            let outcome = call();
            let took = scene.world.now().since(start);
            assert!(took <= wait + World::LIMITS.grace() + ms(1), "{seed}: {took:?}");
            let now = scene.world.now();
            assert!(!lease.is_valid(now) || scene.holder() == Some(token(1)), "{seed}: {outcome:?}");
            if let Err(Error::Store(Fault { cause, .. })) = &outcome {
                assert!(!matches!(cause, Cause::Answered(_) | Cause::TurnedAway(_)), "{seed}: {cause:?}");
            }
        };
        let what = Acquire { terms: ttl(2_000).into(), ..waiting(&scene, wait) };
        within(wait, &|| Ok(matches!(scene.acquire(&lease, &what)?, Acquired::Held)));
        scene.carry_out_late_requests();
        within(Duration::ZERO, &|| scene.engine().refresh(&lease, ttl(2_000)));
        scene.carry_out_late_requests();
        within(Duration::ZERO, &|| scene.engine().release(&lease, scene.engine().deadline()));
    }
}
