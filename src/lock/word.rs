//! State, validity and who is at a lease, as one word: they change together.

use super::time::Moment;

/// What is known of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Not known to be ours: not asked for yet, or the answer did not come, or restored.
    Unsure,
    /// Ours; for how long, says the validity.
    Held,
    /// A release was sent while it was ours, and its answer did not come.
    Releasing,
    /// Given up, and not known to be free.
    Abandoned,
    /// Its validity ended, and its holder was told so; the key may still hold our token.
    Overdue,
    /// Ended before it was released.
    Lost,
    /// Free, or never ours.
    Settled,
}

impl State {
    const ALL: [Self; 7] =
        [Self::Unsure, Self::Held, Self::Releasing, Self::Abandoned, Self::Overdue, Self::Lost, Self::Settled];
}

/// Bits 0 to 2: the state; 3 to 6: flags; the rest: until when it is surely ours, in nanoseconds, rounded down.
#[derive(Clone, Copy)]
pub struct Word(u64);

impl Word {
    const STATE: u64 = 0b111;
    /// A request of its holder that may prolong it is under way.
    pub const PROLONGED: u64 = 1 << 3;
    /// A renewal of the keeper's is.
    pub const RENEWED: u64 = 1 << 4;
    /// A release is.
    pub const LEAVING: u64 = 1 << 5;
    /// The keeper was told meanwhile that it is not ours.
    pub const REFUSED: u64 = 1 << 6;
    const NO_TIME: u64 = 0b111_1111;

    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u64 {
        self.0
    }

    pub fn state(self) -> State {
        usize::try_from(self.0 & Self::STATE).ok().and_then(|at| State::ALL.get(at)).copied().unwrap_or(State::Unsure)
    }

    pub fn with_state(self, state: State) -> Self {
        Self(self.0 & !Self::STATE | state as u64)
    }

    pub fn valid_until(self) -> Moment {
        Moment::from_nanos(self.0 & !Self::NO_TIME)
    }

    pub fn with_valid_until(self, moment: Moment) -> Self {
        Self(self.0 & Self::NO_TIME | moment.as_nanos() & !Self::NO_TIME)
    }

    pub fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    pub fn with(self, flags: u64) -> Self {
        Self(self.0 | flags)
    }

    pub fn without(self, flags: u64) -> Self {
        Self(self.0 & !flags)
    }

    pub fn was_ever_valid(self) -> bool {
        self.0 & !Self::NO_TIME != 0
    }

    pub fn is_valid(self, now: Moment) -> bool {
        self.state() == State::Held && now < self.valid_until()
    }

    /// Whether it was ours and ended before it was released.
    pub fn is_expired(self, now: Moment) -> bool {
        match self.state() {
            State::Held => now >= self.valid_until(),
            State::Abandoned => self.was_ever_valid() && now >= self.valid_until(),
            State::Overdue | State::Lost => true,
            State::Unsure | State::Releasing | State::Settled => false,
        }
    }
}
