//! Freeing a key, whoever holds it.

use redis_lock::lock::{error::Error, ports::Clock};

use super::{
    cause, held, no_answer,
    support::{
        request::Request,
        token, ttl,
        world::{Fate, Scene, Step, World},
    },
};

fn held_by_another() -> Scene {
    let scene = Scene::new();
    scene.world.other(&Request::Try(scene.key.clone(), token(2), ttl(600_000).into()));
    scene
}

fn evict(scene: &Scene) -> Result<bool, Error> {
    scene.engine().evict(&scene.key, None)
}

/// Meanwhile one holder leaves, and the next one comes.
fn handed_over(scene: &Scene, from: u64, to: u64) -> Step {
    let leave = Request::Leave(scene.key.clone(), token(from), None);
    let acquire = Request::Try(scene.key.clone(), token(to), ttl(600_000).into());
    Fate::Answered.while_(move |world| {
        world.other(&leave);
        world.other(&acquire);
    })
}

#[test]
fn what_nobody_holds_is_not_evicted() {
    let scene = Scene::new();
    assert!(!evict(&scene).unwrap());
    assert_eq!(scene.sent(), "occupant");
}

#[test]
fn whoever_holds_it_is_evicted() {
    let scene = held_by_another();
    assert!(evict(&scene).unwrap());
    assert_eq!(scene.sent(), "occupant leave");
    assert!(scene.is_free());
}

#[test]
fn a_holder_that_came_meanwhile_is_left_alone() {
    let scene = held_by_another();
    scene.script([handed_over(&scene, 2, 3)]);
    assert!(evict(&scene).unwrap());
    assert_eq!(scene.sent(), "occupant leave");
    assert_eq!(scene.holder(), Some(token(3)));
}

#[test]
fn a_lost_answer_is_asked_for_again_and_hits_no_other_holder() {
    for fate in [Fate::ReplyLost, Fate::RequestLost] {
        let scene = held_by_another();
        scene.script([Fate::Answered, fate]);
        assert!(evict(&scene).unwrap(), "{fate:?}");
        assert!(scene.is_free());
        assert_eq!(scene.sent(), "occupant leave leave");
    }
    let scene = held_by_another();
    let next = Request::Try(scene.key.clone(), token(3), ttl(600_000).into());
    scene.script([
        Fate::Answered.into(),
        Fate::ReplyLost.into(),
        Fate::Answered.while_(move |world: &World| drop(world.other(&next))),
    ]);
    assert!(evict(&scene).unwrap());
    assert_eq!(scene.holder(), Some(token(3)));
}

#[test]
fn two_lost_answers_are_an_error() {
    let scene = held_by_another();
    scene.script([Fate::Answered, Fate::RequestLost, Fate::RequestLost]);
    assert!(no_answer(evict(&scene)));
    assert_eq!(scene.sent(), "occupant leave leave");
}

#[test]
fn a_look_whose_answer_was_lost_is_repeated_once() {
    let scene = held_by_another();
    scene.script([Fate::ReplyLost]);
    assert!(evict(&scene).unwrap());
    assert_eq!(scene.sent(), "occupant occupant leave");
    scene.script([Fate::ReplyLost, Fate::ReplyLost]);
    assert!(no_answer(evict(&scene)));
    scene.sent();
    scene.script([Fate::ReplyLost, Fate::ReplyLost]);
    assert!(no_answer(scene.engine().holder(&scene.key)));
    assert_eq!(scene.sent(), "occupant occupant");
}

#[test]
fn an_error_is_an_error() {
    for fates in [vec![Fate::Error], vec![Fate::Answered, Fate::Error], vec![Fate::Answered, Fate::Unreachable]] {
        let scene = held_by_another();
        scene.script(fates);
        cause(evict(&scene));
        assert_eq!(scene.holder(), Some(token(2)));
    }
}

#[test]
fn the_own_lease_is_over_when_it_is_evicted() {
    let scene = Scene::new();
    let lease = held(&scene, ttl(30_000));
    assert!(scene.engine().evict(&scene.key, Some(&lease)).unwrap());
    assert!(!lease.is_valid(scene.world.now()) && !lease.is_expired(scene.world.now()) && !lease.may_live());
}

#[test]
fn the_own_lease_is_left_alone_where_another_holds_the_key() {
    let scene = held_by_another();
    let lease = scene.lease(1);
    assert!(scene.engine().evict(&scene.key, Some(&lease)).unwrap());
    assert!(lease.may_live());
}

#[test]
fn the_own_token_is_kept_until_it_is_surely_gone() {
    for then in [Fate::Error, Fate::Unreachable, Fate::RequestLost] {
        let scene = Scene::new();
        let lease = held(&scene, ttl(30_000));
        scene.script([Fate::Answered, Fate::Late, then]);
        cause(scene.engine().evict(&scene.key, Some(&lease)));
        assert_eq!(scene.holder(), Some(token(1)));
        assert!(lease.may_live(), "{then:?}: the key is still ours, and someone must free it");
        assert!(!lease.is_valid(scene.world.now()), "{then:?}: the eviction may still run, late");
    }
}
