//! The scripts that run inside the server. Each is safe to run twice or late.

pub struct Script(redis::Script, &'static str);

impl Script {
    /// Computes the hash: once, and not for each request.
    fn new(text: &'static str) -> Self {
        Self(redis::Script::new(text), text)
    }

    pub fn sha(&self) -> &str {
        self.0.get_hash()
    }

    pub fn text(&self) -> &str {
        self.1
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
            ask: Script::new(concat!(include_str!("offer.lua"), include_str!("ask.lua"))),
            leave: Script::new(concat!(include_str!("offer.lua"), include_str!("leave.lua"))),
            refresh: Script::new(include_str!("refresh.lua")),
            occupant: Script::new(include_str!("occupant.lua")),
        }
    }
}
