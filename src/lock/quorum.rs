//! What a majority of independent nodes says (Redlock, https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
//!
//! An outcome is told as soon as it is certain, whatever the nodes that have not answered yet may say.

/// How many of so many nodes are a majority: two of them have a node in common.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// How a question to all nodes stands. Those that are in none of the numbers gave no answer, and will give none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub nodes: usize,
    pub yes: usize,
    pub no: usize,
    pub pending: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It depends on answers that have not come yet.
    Open,
    Yes,
    No,
    /// Too few have answered.
    NoQuorum,
}

impl Tally {
    /// Whether a key was won. No: a majority has answered, and it was not.
    pub fn won(&self) -> Outcome {
        let majority = majority(self.nodes);
        if self.yes >= majority {
            Outcome::Yes
        } else if self.yes + self.no + self.pending < majority {
            Outcome::NoQuorum
        } else if self.yes + self.pending >= majority || self.yes + self.no < majority {
            Outcome::Open
        } else {
            Outcome::No
        }
    }

    /// Whether a key that was won is still held. No: so many say no that the others are no majority.
    pub fn held(&self) -> Outcome {
        let majority = majority(self.nodes);
        if self.yes >= majority {
            Outcome::Yes
        } else if self.nodes - self.no < majority {
            Outcome::No
        } else if self.yes + self.pending >= majority || self.nodes - self.no - self.pending < majority {
            Outcome::Open
        } else {
            Outcome::NoQuorum
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(nodes: usize, yes: usize, no: usize, pending: usize) -> Tally {
        Tally { nodes, yes, no, pending }
    }

    /// All ways in which a question can stand.
    fn all() -> impl Iterator<Item = Tally> {
        (1..8).flat_map(|nodes| {
            let upto = move |most| 0..=most;
            upto(nodes).flat_map(move |yes| {
                upto(nodes - yes)
                    .flat_map(move |no| upto(nodes - yes - no).map(move |pending| Tally { nodes, yes, no, pending }))
            })
        })
    }

    /// What it may come to, however those that are pending answer, or do not.
    fn ends(tally: Tally, outcome: fn(&Tally) -> Outcome) -> Vec<Outcome> {
        let mut ends = Vec::new();
        for yes in 0..=tally.pending {
            for no in 0..=tally.pending - yes {
                let end = outcome(&Tally { yes: tally.yes + yes, no: tally.no + no, pending: 0, ..tally });
                if !ends.contains(&end) {
                    ends.push(end);
                }
            }
        }
        ends
    }

    #[test]
    fn it_is_open_until_it_is_certain_and_no_longer() {
        for tally in all() {
            for outcome in [Tally::won, Tally::held] {
                let ends = ends(tally, outcome);
                assert!(!ends.contains(&Outcome::Open), "{tally:?}");
                match ends.as_slice() {
                    [certain] => assert_eq!(outcome(&tally), *certain, "{tally:?}"),
                    _ => assert_eq!(outcome(&tally), Outcome::Open, "{tally:?}: {ends:?}"),
                }
            }
        }
    }

    #[test]
    fn two_cannot_win() {
        for a in all().filter(|tally| tally.won() == Outcome::Yes) {
            // What one node granted to the one it does not grant to the other.
            let b = Tally { nodes: a.nodes, yes: a.nodes - a.yes, no: a.yes, pending: 0 };
            assert_eq!(b.won(), Outcome::No);
        }
    }

    #[test]
    fn busy_is_said_by_a_majority_and_down_is_none() {
        assert_eq!(tally(3, 2, 0, 1).won(), Outcome::Yes);
        assert_eq!(tally(3, 0, 2, 1).won(), Outcome::No);
        assert_eq!(tally(3, 1, 1, 0).won(), Outcome::No, "one of two that answered is no majority of three");
        assert_eq!(tally(3, 1, 0, 0).won(), Outcome::NoQuorum);
        assert_eq!(tally(3, 0, 1, 0).won(), Outcome::NoQuorum);
        assert_eq!(tally(3, 1, 1, 1).won(), Outcome::Open);
        assert_eq!(tally(5, 0, 2, 0).won(), Outcome::NoQuorum);
    }

    #[test]
    fn a_lease_is_lost_only_where_no_majority_can_hold_it() {
        assert_eq!(tally(3, 2, 1, 0).held(), Outcome::Yes);
        assert_eq!(tally(3, 1, 2, 0).held(), Outcome::No);
        assert_eq!(tally(3, 0, 2, 1).held(), Outcome::No);
        assert_eq!(tally(3, 1, 1, 0).held(), Outcome::NoQuorum, "the third may hold it");
        assert_eq!(tally(3, 0, 0, 0).held(), Outcome::NoQuorum);
    }
}
