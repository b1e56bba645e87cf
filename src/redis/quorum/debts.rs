//! What one node may hold for us, and what is to be freed there.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use super::question::Question;
use crate::lock::{time::Moment, token::Token};

/// So many of each are remembered: there are as many at a time as locks that one thread holds or waits for.
const MOST: usize = 256;
/// What was sent on a connection that is closed is not delivered after this: the system gives up.
const LATEST: Duration = Duration::from_secs(300);

#[derive(Default)]
pub struct Debts {
    /// Tokens that it was asked to give a key to, and has not been seen to free since.
    may_hold: VecDeque<Token>,
    /// What frees keys there as soon as there is a connection.
    unfreed: VecDeque<Arc<Question>>,
    /// Tokens that a release, whose connection was lost, may yet free: what is granted to them is not to be believed.
    late: VecDeque<(Token, Moment)>,
}

impl Debts {
    /// It is asked to give a key to this token, after which no earlier release of it is to be sent. True: for the first
    /// time, as far as is known.
    pub fn is_asked(&mut self, token: &Token) -> bool {
        self.unfreed.retain(|free| free.ends.as_ref() != Some(token));
        let is_first = !self.may_hold.contains(token);
        if is_first {
            keep_newest(&mut self.may_hold, token.clone());
        }
        is_first
    }

    /// It has answered to a release of this token.
    pub fn has_freed(&mut self, token: &Token) {
        self.may_hold.retain(|held| held != token);
    }

    /// Whether it may yet take back what it grants to this token.
    pub fn may_take_back(&self, token: &Token, now: Moment) -> bool {
        self.late.iter().any(|(late, sent)| late == token && now.since(*sent) < LATEST)
    }

    /// A release that could not be sent, of what it may hold.
    pub fn is_to_be_freed(&mut self, free: &Arc<Question>) {
        if free.ends.as_ref().is_some_and(|token| self.may_hold.contains(token)) {
            keep_newest(&mut self.unfreed, free.clone());
        }
    }

    /// A release that was sent on a connection that was lost: it may run whenever it likes.
    pub fn may_be_late(&mut self, free: Arc<Question>, now: Moment) {
        if let Some(token) = &free.ends {
            keep_newest(&mut self.late, (token.clone(), now));
            keep_newest(&mut self.unfreed, free);
        }
    }

    /// All that is to be sent on a new connection, before anything else.
    pub fn take_unfreed(&mut self) -> VecDeque<Arc<Question>> {
        mem::take(&mut self.unfreed)
    }
}

fn keep_newest<T>(list: &mut VecDeque<T>, one: T) {
    list.push_back(one);
    if list.len() > MOST {
        list.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u8) -> Token {
        Token::from_bytes(&[number])
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    fn free(number: u8) -> Arc<Question> {
        Arc::new(Question::command(&[b"DEL", &[number]]).that_ends(&token(number)))
    }

    #[test]
    fn only_what_it_may_hold_is_freed_later() {
        let mut debts = Debts::default();
        assert!(debts.is_asked(&token(1)) && debts.is_asked(&token(2)) && !debts.is_asked(&token(1)));
        debts.has_freed(&token(2));
        (1..=3).for_each(|number| debts.is_to_be_freed(&free(number)));
        assert_eq!(debts.take_unfreed().len(), 1);
        assert!(debts.take_unfreed().is_empty());
        assert!(!debts.may_take_back(&token(1), at(0)));
    }

    #[test]
    fn what_was_sent_and_lost_is_sent_again_and_its_token_not_believed() {
        let mut debts = Debts::default();
        debts.may_be_late(free(7), at(10));
        assert_eq!(debts.take_unfreed().len(), 1);
        assert!(debts.may_take_back(&token(7), at(10)) && !debts.may_take_back(&token(8), at(10)));
        assert!(debts.may_take_back(&token(7), at(309)) && !debts.may_take_back(&token(7), at(310)));
    }

    #[test]
    fn who_is_asked_anew_is_not_told_to_free_it_afterwards() {
        let mut debts = Debts::default();
        debts.is_asked(&token(1));
        debts.is_to_be_freed(&free(1));
        debts.is_asked(&token(1));
        assert!(debts.take_unfreed().is_empty());
    }

    #[test]
    fn others_do_not_push_it_out() {
        let mut debts = Debts::default();
        debts.is_asked(&token(1));
        // What was never put to it is not remembered, however often it is freed elsewhere.
        (0..1_000).for_each(|_| debts.is_to_be_freed(&free(2)));
        debts.is_to_be_freed(&free(1));
        assert_eq!(debts.take_unfreed().len(), 1);
    }
}
