//! A wait for a key that someone holds, where nobody tells the waiter.

use std::time::Duration;

use redis_lock::lock::{
    acquire::{Acquire, Acquired},
    error::Error,
    options::Poll,
    ports::{Busy, Cause, Clock},
};

use super::{
    POLL, cause, one_try,
    support::{
        ms,
        request::Request,
        token, ttl,
        world::{Fate, Scene},
    },
    waiting,
};

const EVERY_200_MS: Poll = Poll { min: ms(200), max: ms(200) };

/// A scene in which another holds the key for so long, and in which a waiter must look for itself.
fn busy(milliseconds: u64) -> Scene {
    let scene = Scene::new();
    scene.world.refuses_subscriptions.set(true);
    scene.world.other(&Request::Try(scene.key.clone(), token(2), ttl(milliseconds).into()));
    scene
}

/// The moments of looks at the key, in milliseconds from the start.
fn looks(scene: &Scene, what: &Acquire) -> Vec<u128> {
    let sent = scene.line.0.sent.take();
    sent.iter()
        .filter(|sent| sent.request.name() != "leave")
        .map(|sent| sent.at.since(what.start).as_millis())
        .collect()
}

#[test]
fn no_wait_is_exactly_one_request_and_no_sleep() {
    let scene = busy(30_000);
    let what = one_try(&scene);
    let acquired = scene.acquire(&scene.lease(1), &what);
    assert!(matches!(acquired, Ok(Acquired::Busy { waited: Duration::ZERO, .. })), "{acquired:?}");
    assert_eq!(scene.sent(), "try");
    assert_eq!(scene.world.now(), what.start);
}

#[test]
fn a_wait_ends_with_a_look_at_its_very_end() {
    let scene = busy(30_000);
    let what = Acquire { poll: EVERY_200_MS, ..waiting(&scene, ms(1_000)) };
    let lease = scene.lease(1);
    let Ok(Acquired::Busy { busy: Some(busy), waited }) = scene.acquire(&lease, &what) else {
        panic!("not busy");
    };
    let Busy { holder, queued } = busy;
    assert_eq!((holder.remaining, holder.identity.unwrap().pid), (Some(ms(29_000)), 2));
    assert_eq!(queued.unwrap().ahead, 0);
    assert_eq!(waited, ms(1_000));
    assert_eq!(looks(&scene, &what), [0, 0, 200, 400, 600, 800, 1_000]);
    assert!(!lease.may_live());
}

#[test]
fn what_is_freed_before_the_last_look_is_acquired() {
    let scene = busy(30_000);
    let release = Request::Leave(scene.key.clone(), token(2), None);
    scene.world.after(ms(950), move |world| drop(world.other(&release)));
    let what = Acquire { poll: EVERY_200_MS, ..waiting(&scene, ms(1_000)) };
    let acquired = scene.acquire(&scene.lease(1), &what);
    assert!(matches!(acquired, Ok(Acquired::Held)), "{acquired:?}");
    assert_eq!(looks(&scene, &what), [0, 0, 200, 400, 600, 800, 1_000]);
}

#[test]
fn a_waiter_looks_when_the_holder_expires() {
    let scene = busy(150);
    let what = Acquire { poll: Poll { min: ms(10_000), max: ms(10_000) }, ..waiting(&scene, ms(60_000)) };
    let acquired = scene.acquire(&scene.lease(1), &what);
    assert!(matches!(acquired, Ok(Acquired::Held)), "{acquired:?}");
    assert_eq!(looks(&scene, &what), [0, 0, 151]);
}

#[test]
fn an_owner_that_waits_begins_with_a_look_that_tells() {
    let scene = busy(150);
    let what = Acquire { bare: false, ..waiting(&scene, ms(60_000)) };
    let acquired = scene.acquire(&scene.lease(1), &Acquire { poll: EVERY_200_MS, ..what });
    assert!(matches!(acquired, Ok(Acquired::Held)), "{acquired:?}");
    assert_eq!(looks(&scene, &what), [0, 0, 151]);
}

#[test]
fn no_more_looks_than_the_pauses_allow() {
    for number in 1..50 {
        let scene = busy(3_600_000);
        let what = waiting(&scene, ms(10_000));
        let acquired = scene.acquire(&scene.lease(number + 10), &what);
        assert!(matches!(acquired, Ok(Acquired::Busy { .. })), "{acquired:?}");
        let looks = looks(&scene, &what);
        assert_eq!((looks[0], looks[1], looks[looks.len() - 1]), (0, 0, 10_000));
        let pauses: Vec<u128> = looks[1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (last, inner) = pauses.split_last().unwrap();
        // In whole milliseconds, a pause may look one longer than it is.
        let allowed = POLL.min.as_millis()..=POLL.max.as_millis() + 1;
        assert!(inner.iter().all(|pause| allowed.contains(pause)) && last <= allowed.end(), "{pauses:?}");
        // The mean pause is half of the bounds' sum.
        assert!((50..120).contains(&looks.len()), "{} looks", looks.len());
    }
}

#[test]
fn a_wait_without_end_outlasts_a_day() {
    let day = 86_400_000;
    let scene = busy(2 * day);
    let release = Request::Leave(scene.key.clone(), token(2), None);
    scene.world.after(ms(day), move |world| drop(world.other(&release)));
    let hourly = Poll { min: ms(3_600_000), max: ms(3_600_000) };
    let acquired = scene.acquire(&scene.lease(1), &Acquire { poll: hourly, ..waiting(&scene, Duration::MAX) });
    assert!(matches!(acquired, Ok(Acquired::Held)), "{acquired:?}");
}

#[test]
fn trouble_in_the_middle_of_a_wait_is_not_busy() {
    let trouble = [vec![Fate::Error], vec![Fate::Unreachable], vec![Fate::RequestLost, Fate::RequestLost]];
    for fates in trouble {
        let scene = busy(30_000);
        let lease = scene.lease(1);
        scene.script([Fate::Answered, Fate::Answered, Fate::Answered]);
        scene.script(fates);
        let acquired = scene.acquire(&lease, &waiting(&scene, ms(60_000)));
        assert!(matches!(cause(acquired), Cause::Answered(_) | Cause::Unreachable(_) | Cause::NoAnswer(_)));
    }
}

#[test]
fn one_lost_look_does_not_end_a_wait() {
    let scene = busy(5_000);
    scene.script([Fate::Answered, Fate::ReplyLost, Fate::Answered, Fate::Late]);
    let lease = scene.lease(1);
    let acquired = scene.acquire(&lease, &waiting(&scene, ms(60_000)));
    assert!(matches!(acquired, Ok(Acquired::Held)) && lease.is_valid(scene.world.now()), "{acquired:?}");
}

#[test]
fn a_wait_that_is_stopped_ends_at_once_with_no_further_look() {
    let scene = busy(30_000);
    scene.world.after(ms(450), |world| world.stopped.set(true));
    let what = Acquire { poll: EVERY_200_MS, ..waiting(&scene, ms(60_000)) };
    let lease = scene.lease(1);
    let acquired = scene.acquire(&lease, &what);
    assert!(matches!(acquired, Err(Error::Interrupted)), "{acquired:?}");
    assert_eq!(looks(&scene, &what), [0, 0, 200, 400]);
    assert_eq!(scene.holder(), Some(token(2)));
    assert!(!lease.may_live());
}

#[test]
fn a_child_that_a_wait_forked_does_not_go_on_with_its_parents_token() {
    let scene = busy(30_000);
    scene.world.after(ms(450), |world| world.process.set(1));
    let what = Acquire { poll: EVERY_200_MS, ..waiting(&scene, ms(60_000)) };
    let acquired = scene.acquire(&scene.lease(1), &what);
    assert!(matches!(acquired, Err(Error::Forked)), "{acquired:?}");
    assert_eq!(looks(&scene, &what), [0, 0, 200, 400]);
}

#[test]
fn a_wait_that_began_earlier_ends_as_if_it_went_on() {
    let scene = busy(30_000);
    let what = waiting(&scene, ms(1_000));
    scene.world.pass(ms(900));
    let acquired = scene.acquire(&scene.lease(1), &what);
    assert!(matches!(acquired, Ok(Acquired::Busy { waited, .. }) if waited == ms(1_000)), "{acquired:?}");
}

#[test]
fn a_machine_that_slept_through_the_end_of_a_wait_finds_the_key_busy() {
    let scene = busy(3_600_000);
    scene.world.oversleep.set(ms(600_000));
    let what = waiting(&scene, ms(1_000));
    let acquired = scene.acquire(&scene.lease(1), &what);
    assert!(matches!(acquired, Ok(Acquired::Busy { .. })), "busy, and no trouble: {acquired:?}");
}
