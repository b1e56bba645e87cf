//! Opens the connection to a node in a thread, and knows how soon to try again after that came to nothing.

use std::{
    os::fd::RawFd,
    sync::{Arc, mpsc::TryRecvError},
};

use crate::{
    lock::{
        backoff::Backoff,
        options::{Limits, Poll},
        ports::{Call, Cause, Clock, Fault},
        time::Moment,
    },
    redis::{connection::Connection, endpoint::Endpoint, socket::Attempt},
    sys::{clock::SystemClock, threads::Task},
};

pub struct Opener {
    endpoint: Arc<Endpoint>,
    task: Option<Task<Result<Box<Connection>, Fault>>>,
    /// The bounds of the time between two tries.
    retries: Poll,
    /// Since it was of use.
    backoff: Option<Backoff>,
    not_before: Moment,
}

impl Opener {
    pub fn new(endpoint: Arc<Endpoint>, retries: Poll) -> Self {
        Self { endpoint, task: None, retries, backoff: None, not_before: Moment::from_nanos(0) }
    }

    pub fn fault(&self, cause: Cause) -> Fault {
        self.endpoint.fault(cause)
    }

    /// Whether it is time to try, or to try again.
    pub fn is_due(&self, now: Moment) -> bool {
        now >= self.not_before
    }

    /// Whether what was opened last was of no use, or nothing was.
    pub fn is_in_trouble(&self) -> bool {
        self.backoff.is_some()
    }

    /// `probe`: whether the node is to say something, for one that hangs takes connections still.
    pub fn open(&mut self, probe: bool, limits: Limits) -> Result<(), Fault> {
        let endpoint = self.endpoint.clone();
        let task = Task::start(move |interrupt| {
            let until = SystemClock.now().plus(limits.grace());
            let call = Call { until, limits, clock: &SystemClock, interrupt };
            let mut connection = endpoint.connect(&call)?;
            if probe {
                // Whatever it answers, it answers.
                let attempt = Attempt::unless_stopped(&call, limits.command);
                let answer = connection.request(&attempt, [&b"PING"[..]].into_iter());
                answer.map_err(|trouble| endpoint.fault(Cause::NoAnswer(trouble.to_string())))?;
            }
            Ok(connection)
        });
        self.task = Some(task.map_err(|error| self.fault(Cause::Unreachable(error.to_string())))?);
        Ok(())
    }

    pub fn is_opening(&self) -> bool {
        self.task.is_some()
    }

    /// What came of it. None: nothing yet, or nothing was begun. A failure is followed by a pause.
    pub fn take(&mut self, now: Moment) -> Option<Result<Box<Connection>, Fault>> {
        let opened = match self.task.as_ref()?.take() {
            Err(TryRecvError::Empty) => return None,
            Ok(opened) => opened,
            Err(TryRecvError::Disconnected) => {
                Err(self.fault(Cause::Unreachable("the connection could not be opened".into())))
            }
        };
        self.task = None;
        if opened.is_err() {
            self.pause(now);
        }
        Some(opened)
    }

    /// It is not to be tried for a while, and each time for longer.
    pub fn pause(&mut self, now: Moment) {
        // Processes that a node has left at the same moment do not come back to it at the same moment.
        let seed = || now.as_nanos() ^ u64::from(std::process::id()) << 32;
        let backoff = self.backoff.get_or_insert_with(|| Backoff::new(self.retries, seed()));
        self.not_before = now.plus(backoff.pause());
    }

    /// What was opened is of use.
    pub fn is_of_use(&mut self) {
        self.backoff = None;
    }

    /// What is readable once something has come of it.
    pub fn fd(&self) -> Option<RawFd> {
        self.task.as_ref().map(Task::fd)
    }
}
