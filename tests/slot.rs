//! The slots of a cluster, as the server sees them.
#![cfg(test)]

mod support;

use redis_lock::lock::{keys::Key, slot};
use support::{Random, redis_server::RedisServer};

#[test]
fn the_server_finds_key_and_queue_in_the_slot_that_we_find() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let slot_of = |key: &[u8]| server.query::<u16>(&[b"CLUSTER", b"KEYSLOT", key]);
    let mut random = Random::new(1);
    let mut byte = || {
        let any = random.below(256) as u8;
        random.one_of(&[b'{', b'}', any, any])
    };
    for count in 0..3_000 {
        let name: Vec<u8> = (0..=count % 12).map(|_| byte()).collect();
        let key = Key::new(b"", &name).unwrap();
        let slots = [slot_of(&name), slot_of(key.queue())];
        assert_eq!(slots, [slot::of(&name); 2], "{}", key.queue().escape_ascii());
    }
}
