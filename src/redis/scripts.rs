//! The scripts that run inside the server. Each is safe to run twice or late.
//!
//! What is the same in every request stands in their text, and is not sent: each argument costs the server time.

use std::sync::Arc;

use crate::lock::{
    fence::Fence,
    queue::{DROPPED_AT_ONCE, OFFER, OFFER_UNTOLD, QUEUE_TTL},
};

pub struct Script {
    text: String,
    sha: String,
}

impl Script {
    fn new(text: &str) -> Self {
        Self::with(text, |text| text)
    }

    /// The same for a cluster, where channels are of two kinds, and the queue may be out of reach.
    fn of_cluster(text: &str) -> Self {
        Self::with(text, |text| {
            text.replace("redis.pcall('PUBSUB', 'NUMSUB', ", "numsub(")
                .replace("redis.pcall('PUBLISH', ", "publish(")
                .replace("redis.pcall('EXISTS', KEYS[2])", "(KEYS[2] and redis.pcall('EXISTS', KEYS[2]) or 0)")
                .replace("--[[channels.lua]]", include_str!("cluster/channels.lua"))
        })
    }

    /// Computes the hash: once, and not for each request.
    fn with(text: &str, change: impl FnOnce(String) -> String) -> Self {
        let text = text
            .replace("--[[offer.lua]]", include_str!("offer.lua"))
            .replace("--[[not_ours.lua]]", include_str!("not_ours.lua"))
            .replace("{DROPPED_AT_ONCE}", &DROPPED_AT_ONCE.to_string())
            .replace("{OFFER}", &OFFER.as_millis().to_string())
            .replace("{OFFER_UNTOLD}", &OFFER_UNTOLD.as_millis().to_string())
            .replace("{REMEMBERED}", &Fence::REMEMBERED.as_millis().to_string())
            .replace("{QUEUE_TTL}", &QUEUE_TTL.as_millis().to_string());
        let text = change(text);
        let sha = redis::Script::new(&text).get_hash().into();
        Self { text, sha }
    }

    pub fn sha(&self) -> &str {
        &self.sha
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

pub struct Scripts {
    pub ask: Script,
    pub leave: Script,
    pub refresh: Script,
    pub occupant: Script,
}

/// Those of a quorum, beside which `ask`, `refresh`, `renew` and `occupant` serve as they are.
pub struct QuorumScripts {
    pub ask: Arc<Script>,
    pub free: Arc<Script>,
    pub refresh: Arc<Script>,
    pub occupant: Arc<Script>,
    pub raise: Arc<Script>,
}

impl QuorumScripts {
    pub fn new() -> Self {
        let Scripts { ask, leave: _, refresh, occupant } = Scripts::new();
        Self {
            ask: Arc::new(ask),
            free: Arc::new(Script::new(include_str!("free.lua"))),
            refresh: Arc::new(refresh),
            occupant: Arc::new(occupant),
            raise: Arc::new(Script::new(include_str!("raise.lua"))),
        }
    }
}

/// The keeper's.
pub fn renew() -> Script {
    Script::new(include_str!("renew.lua"))
}

impl Scripts {
    pub fn new() -> Self {
        Self::by(Script::new)
    }

    pub fn of_cluster() -> Self {
        Self::by(Script::of_cluster)
    }

    fn by(script: fn(&str) -> Script) -> Self {
        Self {
            ask: script(include_str!("ask.lua")),
            leave: script(include_str!("leave.lua")),
            refresh: script(include_str!("refresh.lua")),
            occupant: script(include_str!("occupant.lua")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_is_left_to_be_filled() {
        let (Scripts { ask, leave, refresh, occupant }, quorum) = (Scripts::new(), QuorumScripts::new());
        let cluster = Scripts::of_cluster();
        let all = [ask, leave, refresh, occupant, cluster.ask, cluster.leave, cluster.refresh, renew()];
        for text in all.iter().map(Script::text).chain([quorum.free.text(), quorum.raise.text()]) {
            let is_hole =
                |window: &[u8]| window[0] == b'{' && window[1].is_ascii_uppercase() && window[2].is_ascii_uppercase();
            assert!(!text.as_bytes().windows(3).any(is_hole), "{text}");
            assert!(!text.contains("--[[offer") && !text.contains("--[[not_ours"), "{text}");
        }
    }

    /// What is replaced by its text: a change there that is none here must not go unseen.
    #[test]
    fn in_a_cluster_both_kinds_of_channels_are_counted_and_told() {
        let Scripts { ask, leave, .. } = Scripts::of_cluster();
        for script in [ask, leave] {
            let text = script.text();
            let rest = text.replace(include_str!("cluster/channels.lua"), "");
            assert!(rest.len() < text.len() && rest.contains("numsub("), "{text}");
            assert!(!rest.contains("'NUMSUB'") && !rest.contains("'PUBLISH'"), "{text}");
            assert!(!rest.contains("redis.pcall('EXISTS', KEYS[2]) ~="), "{text}");
        }
    }
}
