//! The requests of the store port as values, so that a test can stand between an engine and its store.

use std::fmt;

use redis_lock::lock::{
    keys::Key,
    options::Terms,
    ports::{Call, Fault, Freed, Occupant, Renewal, Store, Subscription, Vote},
    queue::Place,
    token::Token,
    ttl::Ttl,
};

#[derive(Clone)]
pub enum Request {
    Try(Key, Token, Terms),
    Ask(Key, Token, Terms, Option<Place>),
    Leave(Key, Token, Option<Place>),
    Refresh(Key, Token, Ttl),
    Occupant(Key),
}

#[derive(Debug)]
pub enum Answer {
    Vote(Vote),
    Freed(Freed),
    Renewal(Renewal),
    Occupant(Result<Option<Occupant>, Fault>),
}

impl Request {
    /// Without the queue.
    pub fn alone(&self) -> Self {
        match self.clone() {
            Self::Ask(key, token, terms, _) => Self::Ask(key, token, terms, None),
            Self::Leave(key, token, _) => Self::Leave(key, token, None),
            other => other,
        }
    }

    pub fn send(&self, store: &dyn Store, call: &Call) -> Answer {
        match self {
            Self::Try(key, token, terms) => Answer::Vote(store.try_acquire(key, token, *terms, call)),
            Self::Ask(key, token, terms, place) => Answer::Vote(store.ask(key, token, *terms, place.as_ref(), call)),
            Self::Leave(key, token, place) => Answer::Freed(store.leave(key, token, place.as_ref(), call)),
            Self::Refresh(key, token, ttl) => Answer::Renewal(store.refresh(key, token, *ttl, call)),
            Self::Occupant(key) => Answer::Occupant(store.occupant(key, call)),
        }
    }

    /// The answer that did not come.
    pub fn unknown(&self, fault: Fault) -> Answer {
        match self {
            Self::Try(..) | Self::Ask(..) => Answer::Vote(Vote::Unknown(fault)),
            Self::Leave(..) => Answer::Freed(Freed::Unknown(fault)),
            Self::Refresh(..) => Answer::Renewal(Renewal::Unknown(fault)),
            Self::Occupant(..) => Answer::Occupant(Err(fault)),
        }
    }

    pub const fn name(&self) -> &'static str {
        match self {
            Self::Try(..) => "try",
            Self::Ask(..) => "ask",
            Self::Leave(..) => "leave",
            Self::Refresh(..) => "refresh",
            Self::Occupant(..) => "occupant",
        }
    }

    pub const fn key(&self) -> &Key {
        match self {
            Self::Try(key, ..) | Self::Ask(key, ..) | Self::Leave(key, ..) | Self::Refresh(key, ..) => key,
            Self::Occupant(key) => key,
        }
    }

    pub const fn token(&self) -> Option<&Token> {
        match self {
            Self::Try(_, token, _) | Self::Ask(_, token, ..) | Self::Refresh(_, token, _) => Some(token),
            Self::Leave(_, token, _) => Some(token),
            Self::Occupant(_) => None,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        write!(f, "{} {}", self.name(), text(self.key().as_bytes()))?;
        if let Some(token) = self.token() {
            write!(f, " {}", text(token.as_bytes()))?;
        }
        match self {
            Self::Refresh(.., ttl) => write!(f, " {}", ttl.as_millis()),
            Self::Try(.., terms) => write!(f, " {terms:?}"),
            Self::Ask(.., terms, place) => write!(f, " {terms:?} {place:?}"),
            Self::Leave(.., place) => write!(f, " {place:?}"),
            Self::Occupant(..) => Ok(()),
        }
    }
}

/// A store that a test answers for.
pub struct Interposed<T>(pub T);

pub trait Interpose {
    fn request(&self, request: Request, call: &Call) -> Answer;

    fn subscription(&self, key: &Key) -> Result<Box<dyn Subscription>, Fault>;

    fn fails_over(&self) -> bool {
        false
    }
}

impl<T: Interpose> Interposed<T> {
    fn vote(&self, request: Request, call: &Call) -> Vote {
        match self.0.request(request, call) {
            Answer::Vote(vote) => vote,
            other => panic!("{other:?}"),
        }
    }
}

impl<T: Interpose> Store for Interposed<T> {
    fn name(&self) -> &str {
        "redis://interposed:6379"
    }

    fn fails_over(&self) -> bool {
        self.0.fails_over()
    }

    fn try_acquire(&self, key: &Key, token: &Token, terms: Terms, call: &Call) -> Vote {
        self.vote(Request::Try(key.clone(), token.clone(), terms), call)
    }

    fn ask(&self, key: &Key, token: &Token, terms: Terms, place: Option<&Place>, call: &Call) -> Vote {
        self.vote(Request::Ask(key.clone(), token.clone(), terms, place.cloned()), call)
    }

    fn leave(&self, key: &Key, token: &Token, place: Option<&Place>, call: &Call) -> Freed {
        match self.0.request(Request::Leave(key.clone(), token.clone(), place.cloned()), call) {
            Answer::Freed(freed) => freed,
            other => panic!("{other:?}"),
        }
    }

    fn refresh(&self, key: &Key, token: &Token, ttl: Ttl, call: &Call) -> Renewal {
        match self.0.request(Request::Refresh(key.clone(), token.clone(), ttl), call) {
            Answer::Renewal(renewal) => renewal,
            other => panic!("{other:?}"),
        }
    }

    fn occupant(&self, key: &Key, call: &Call) -> Result<Option<Occupant>, Fault> {
        match self.0.request(Request::Occupant(key.clone()), call) {
            Answer::Occupant(occupant) => occupant,
            other => panic!("{other:?}"),
        }
    }

    fn subscription(&self, key: &Key) -> Result<Box<dyn Subscription>, Fault> {
        self.0.subscription(key)
    }
}
