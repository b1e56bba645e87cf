//! A call ends within its wait + connect + 2 x command, however slow and lossy the line.

use std::time::Duration;

use redis_lock::lock::{acquire::Acquire, engine::Engine, ports::Clock};

use super::{
    support::{
        Random, ms,
        request::Request,
        token, ttl,
        world::{Fate, Scene, World},
    },
    waiting,
};

/// Runs `call` on many bad lines. Returns how long the longest one took.
fn longest(wait: u64, call: impl Fn(&Engine, &Scene)) -> Duration {
    let mut longest = Duration::ZERO;
    for seed in 0..1_000 {
        let mut random = Random::new(seed);
        let scene = Scene::new();
        if random.below(2) == 0 {
            scene.world.other(&Request::Try(scene.key.clone(), token(2), ttl(500 + random.below(20_000)).into()));
        }
        // From every third request to every hundredth.
        let calm = 3 + seed % 97;
        for _ in 0..100 {
            let fate = match random.below(calm) {
                0 => Fate::RequestLost,
                1 => Fate::ReplyLost,
                _ => Fate::Answered,
            };
            let connecting = if random.below(3) == 0 { random.below(1_000) } else { 0 };
            let step = fate.taking(ms(random.below(505)), ms(random.below(505)));
            scene.script([step.connecting(ms(connecting))]);
        }
        let start = scene.world.now();
        call(&scene.engine(), &scene);
        let took = scene.world.now().since(start);
        assert!(took <= ms(wait + 3_000), "seed {seed}: {took:?}");
        for sent in scene.line.0.sent.take() {
            // To give up what was got too late is tried all the same; the store then says what it can.
            assert!(sent.at < sent.until || sent.request.name() == "leave", "seed {seed}: {:?}", sent.request);
        }
        longest = longest.max(took);
    }
    longest
}

#[test]
fn an_acquire_ends_in_time() {
    for wait in [0, 1_000, 10_000] {
        let longest = longest(wait, |engine, scene| {
            drop(engine.acquire(
                &scene.lease(1),
                &Acquire { terms: ttl(900).into(), ..waiting(scene, ms(wait)) },
                &mut None,
            ));
        });
        assert!(longest > ms(wait) + World::LIMITS.command, "no test of the bound: {longest:?}");
    }
}

#[test]
fn calls_that_do_not_wait_end_in_time() {
    let release = longest(0, |engine, scene| drop(engine.release(&scene.lease(2), engine.deadline())));
    let refresh = longest(0, |engine, scene| drop(engine.refresh(&scene.lease(2), ttl(900))));
    let holder = longest(0, |engine, scene| drop(engine.holder(&scene.key)));
    let evict = longest(0, |engine, scene| drop(engine.evict(&scene.key, None)));
    for longest in [release, refresh, holder, evict] {
        assert!(longest > World::LIMITS.command, "no test of the bound: {longest:?}");
    }
}
