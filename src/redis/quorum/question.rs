//! A request that goes to all nodes of a quorum, packed once.

use std::sync::Arc;

use crate::{
    lock::token::Token,
    redis::{request, scripts::Script},
};

pub struct Question {
    packed: Vec<u8>,
    script: Option<Arc<Script>>,
    /// What follows the script, and how many words that are.
    rest: Vec<u8>,
    words: usize,
    /// Whose lease it ends, whenever it runs.
    pub ends: Option<Token>,
}

impl Question {
    pub fn command(words: &[&[u8]]) -> Self {
        let mut packed = Vec::new();
        request::pack(words.iter().copied(), &mut packed);
        Self { packed, script: None, rest: Vec::new(), words: 0, ends: None }
    }

    pub fn script(script: &Arc<Script>, keys: &[&[u8]], arguments: &[&[u8]]) -> Self {
        let mut rest = Vec::new();
        request::add(&[b'0' + keys.len() as u8], &mut rest);
        keys.iter().chain(arguments).for_each(|word| request::add(word, &mut rest));
        let words = 1 + keys.len() + arguments.len();
        let mut question = Self { packed: Vec::new(), script: Some(script.clone()), rest, words, ends: None };
        question.packed = question.run(b"EVALSHA", script.sha());
        question
    }

    /// A release of this token.
    pub fn that_ends(self, token: &Token) -> Self {
        Self { ends: Some(token.clone()), ..self }
    }

    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// For a server that may not know the script.
    pub fn with_text(&self) -> Vec<u8> {
        self.script.as_ref().map_or_else(|| self.packed.clone(), |script| self.run(b"EVAL", script.text()))
    }

    /// The same, unless the script is one of these; it is from now on.
    pub fn unless_known(&self, known: &mut Vec<Arc<Script>>) -> Option<Vec<u8>> {
        let script = self.script.as_ref()?;
        if known.iter().any(|one| Arc::ptr_eq(one, script)) {
            return None;
        }
        known.push(script.clone());
        Some(self.with_text())
    }

    fn run(&self, command: &[u8], script: &str) -> Vec<u8> {
        let mut packed = Vec::with_capacity(64 + script.len() + self.rest.len());
        request::begin(2 + self.words, &mut packed);
        request::add(command, &mut packed);
        request::add(script.as_bytes(), &mut packed);
        packed.extend_from_slice(&self.rest);
        packed
    }
}
