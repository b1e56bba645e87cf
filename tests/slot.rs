//! The slots of a cluster, as the server sees them.
#![cfg(test)]

mod support;

use redis_lock::lock::{keys::Key, slot};
use support::{Random, redis_server::RedisServer};

#[test]
fn the_server_finds_all_of_a_lock_in_the_slot_that_we_find() {
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
        let slots = [&name, key.queue(), &key.fence()].map(slot_of);
        assert_eq!(slots, [slot::of(&name); 3], "{}", key.queue().escape_ascii());
        // To draw one takes time.
        if count % 25 == 0 {
            let ear = key.ear_in_slot(&format!("{count:016x}")).unwrap();
            assert_eq!(slot_of(&key.channel(&ear)), slot::of(&name), "{}", key.channel(&ear).escape_ascii());
        }
    }
}
