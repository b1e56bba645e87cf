//! The scripts that run inside the server. Each is safe to run twice or late.

pub struct Script {
    text: String,
    sha: String,
}

impl Script {
    /// Computes the hash: once, and not for each request.
    fn new(text: &str) -> Self {
        let text = text.replace("--[[offer.lua]]", include_str!("offer.lua"));
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

impl Scripts {
    pub fn new() -> Self {
        Self {
            ask: Script::new(include_str!("ask.lua")),
            leave: Script::new(include_str!("leave.lua")),
            refresh: Script::new(include_str!("refresh.lua")),
            occupant: Script::new(include_str!("occupant.lua")),
        }
    }
}
