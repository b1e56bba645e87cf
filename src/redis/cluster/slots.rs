//! Which node of a cluster serves which slot, as far as is known. What is known may be wrong: the node that is asked
//! says so, and says who does.

use redis::Value;

use crate::{
    lock::{
        ports::{Cause, Fault},
        slot::SLOTS,
    },
    redis::hosts::Host,
};

#[derive(Clone)]
pub struct Slots {
    seeds: Vec<Host>,
    /// Who answered last who serves what.
    any: Host,
    /// Those that serve slots, in the order in which they were named, and their replicas.
    nodes: Vec<Host>,
    replicas: Vec<Host>,
    /// By slot, the index of the node. Empty: nothing is known.
    serving: Vec<u16>,
    doubt: Doubt,
    /// The one that failed last.
    failed: Option<Host>,
    /// How often it was asked who is to be asked.
    turn: usize,
}

/// Whether the nodes are to be asked anew who serves what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    None,
    /// A slot has moved. Where to is known; others may have, too.
    Moved,
    /// One has failed, or nothing is known.
    Failed,
}

/// Where a node sends us.
#[derive(Debug, PartialEq, Eq)]
pub enum Redirect {
    /// For good.
    Moved(Host),
    /// This time: the slot is about to be moved, and its keys are moved one by one.
    Ask(Host),
}

const NOBODY: u16 = u16::MAX;

impl Slots {
    pub fn new(seeds: Vec<Host>) -> Self {
        // An address names at least one.
        let any = seeds.first().cloned().unwrap_or_default();
        let (nodes, replicas, serving) = (Vec::new(), Vec::new(), Vec::new());
        Self { seeds, any, nodes, replicas, serving, doubt: Doubt::Failed, failed: None, turn: 0 }
    }

    /// Who serves the slot. Or else any of them: it says who does, if anybody does.
    pub fn host(&self, slot: u16) -> &Host {
        let node = self.serving.get(usize::from(slot)).and_then(|node| self.nodes.get(usize::from(*node)));
        node.unwrap_or(&self.any)
    }

    pub fn serves(&self, host: &Host) -> bool {
        self.nodes.contains(host)
    }

    pub fn doubt(&self) -> Doubt {
        self.doubt
    }

    /// It did not answer, or not as one that serves the slot.
    pub fn failed(&mut self, host: &Host) {
        self.doubt = Doubt::Failed;
        self.failed = Some(host.clone());
    }

    pub fn moved(&mut self, slot: u16, to: &Host) {
        self.doubt = self.doubt.max(Doubt::Moved);
        if self.serving.is_empty() {
            self.serving = vec![NOBODY; usize::from(SLOTS)];
        }
        let node = index(&mut self.nodes, to);
        if let Some(serving) = self.serving.get_mut(usize::from(slot)) {
            *serving = node;
        }
    }

    /// Who is to be asked, one after another. Each time another is the first: what one that was cut off from the others
    /// believes is not believed for ever. The one that failed is the last.
    pub fn candidates(&mut self) -> Vec<Host> {
        let mut hosts = self.nodes.clone();
        if !hosts.is_empty() {
            let first = self.turn % hosts.len();
            hosts.rotate_left(first);
        }
        self.turn = self.turn.wrapping_add(1);
        for host in self.seeds.iter().chain(&self.replicas) {
            index(&mut hosts, host);
        }
        hosts.sort_by_key(|host| Some(host) == self.failed.as_ref());
        hosts
    }

    /// Takes what `asked` answered to CLUSTER SLOTS. None: that is no answer to it.
    pub fn learn(&mut self, answer: &Value, asked: &Host) -> Option<()> {
        let Value::Array(ranges) = answer else { return None };
        let (mut nodes, mut replicas, mut serving) = (Vec::new(), Vec::new(), vec![NOBODY; usize::from(SLOTS)]);
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(start), Value::Int(end), node, others @ ..] = range.as_slice() else { return None };
            let node = index(&mut nodes, &host(node, asked)?);
            let range = usize::try_from(*start).ok()?..=usize::try_from(*end).ok()?;
            serving.get_mut(range)?.fill(node);
            for replica in others {
                index(&mut replicas, &host(replica, asked)?);
            }
        }
        (self.nodes, self.replicas, self.serving) = (nodes, replicas, serving);
        self.any = asked.clone();
        (self.doubt, self.failed) = (Doubt::None, None);
        Some(())
    }
}

/// Its index, after it was added if it was missing.
fn index(hosts: &mut Vec<Host>, host: &Host) -> u16 {
    let index = hosts.iter().position(|known| known == host).unwrap_or_else(|| {
        hosts.push(host.clone());
        hosts.len() - 1
    });
    u16::try_from(index).unwrap_or(NOBODY)
}

/// `[name, port, …]`; a node that does not know its own name is where it was asked.
fn host(node: &Value, asked: &Host) -> Option<Host> {
    let Value::Array(parts) = node else { return None };
    let [name, Value::Int(port), ..] = parts.as_slice() else { return None };
    let name = match name {
        Value::BulkString(name) => std::str::from_utf8(name).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    Some(named(name, u16::try_from(*port).ok()?, asked))
}

fn named(name: &str, port: u16, asked: &Host) -> Host {
    let name = if matches!(name, "" | "?") { &asked.name } else { name };
    Host { name: name.into(), port }
}

impl Redirect {
    /// From the answer of `asked`: `MOVED 3999 127.0.0.1:6381`.
    pub fn of(fault: &Fault, asked: &Host) -> Option<Self> {
        let Cause::NotNow(text) = &fault.cause else { return None };
        let mut words = text.split(' ');
        let kind = match words.next()? {
            "MOVED" => Self::Moved,
            "ASK" => Self::Ask,
            _ => return None,
        };
        let (name, port) = words.nth(1)?.rsplit_once(':')?;
        Some(kind(named(name, port.parse().ok()?, asked)))
    }
}

/// Whether the keys of a request are not all on one node, for its slot is being moved.
pub fn are_apart(fault: &Fault) -> bool {
    matches!(&fault.cause, Cause::NotNow(text) if text.starts_with("ASK ") || text.starts_with("TRYAGAIN"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, port: u16) -> Host {
        Host { name: name.into(), port }
    }

    fn value(reply: &str) -> Value {
        redis::parse_redis_value(reply.replace(' ', "\r\n").as_bytes()).unwrap()
    }

    /// Two nodes, the first of which has two ranges and a replica, and does not know its own name.
    fn learned() -> Slots {
        let mut slots = Slots::new(vec![at("seed", 1)]);
        let answer = "*3 *4 :0 :5 *3 $0  :7001 $1 a *3 $1 r :7004 $1 d *3 :6 :16382 *4 $1 b :7002 $1 b *0 \
                      *3 :16383 :16383 *3 $-1 :7001 $1 a ";
        slots.learn(&value(answer), &at("asked", 7009)).unwrap();
        slots
    }

    #[test]
    fn who_serves_what_is_learned() {
        let mut slots = Slots::new(vec![at("seed", 1)]);
        assert_eq!((slots.host(5), slots.doubt()), (&at("seed", 1), Doubt::Failed));
        slots = learned();
        let expected =
            [(0, "asked", 7001), (5, "asked", 7001), (6, "b", 7002), (16382, "b", 7002), (16383, "asked", 7001)];
        for (slot, name, port) in expected {
            assert_eq!(slots.host(slot), &at(name, port), "{slot}");
        }
        assert_eq!(slots.doubt(), Doubt::None);
        assert!(slots.serves(&at("b", 7002)) && !slots.serves(&at("r", 7004)));
    }

    #[test]
    fn a_slot_that_has_moved_is_elsewhere_and_the_others_are_not() {
        let mut slots = learned();
        slots.moved(6, &at("c", 7003));
        assert_eq!((slots.host(6), slots.host(7)), (&at("c", 7003), &at("b", 7002)));
        assert_eq!(slots.doubt(), Doubt::Moved);
        slots.failed(&at("b", 7002));
        slots.moved(7, &at("c", 7003));
        assert_eq!(slots.doubt(), Doubt::Failed);
        // Also where nothing was known.
        let mut slots = Slots::new(vec![at("seed", 1)]);
        slots.moved(6, &at("c", 7003));
        assert_eq!(slots.host(6), &at("c", 7003));
    }

    #[test]
    fn all_are_asked_and_never_the_same_first() {
        let mut slots = learned();
        let [a, b, seed, replica] = [at("asked", 7001), at("b", 7002), at("seed", 1), at("r", 7004)];
        assert_eq!(slots.candidates(), [a.clone(), b.clone(), seed.clone(), replica.clone()]);
        assert_eq!(slots.candidates(), [b.clone(), a.clone(), seed.clone(), replica.clone()]);
        slots.failed(&a);
        assert_eq!(slots.candidates(), [b, seed, replica, a]);
        assert_eq!(Slots::new(vec![at("seed", 1)]).candidates(), [at("seed", 1)]);
    }

    #[test]
    fn what_is_no_answer_changes_nothing() {
        let mut slots = learned();
        for bad in [
            "+OK ",
            "*1 :5 ",
            "*1 *2 :0 :5 ",
            "*1 *3 :0 :5 *1 $1 a ",
            "*1 *3 :0 :16384 *2 $1 a :1 ",
            "*1 *3 :9 :-1 *2 $1 a :1 ",
            "*1 *3 :9 :2 *2 $1 a :1 ",
            "*1 *3 :0 :5 *2 $1 a :65536 ",
        ] {
            assert_eq!(slots.learn(&value(bad), &at("x", 1)), None, "{bad}");
        }
        assert_eq!(slots.host(0), &at("asked", 7001));
        // A cluster that serves nothing yet.
        slots.learn(&value("*0 "), &at("x", 1)).unwrap();
        assert_eq!(slots.host(0), &at("x", 1));
    }

    #[test]
    fn redirects_are_told_from_other_answers() {
        let fault = |text: &str| Fault { server: "s".into(), cause: Cause::NotNow(text.into()) };
        let redirect = |text| Redirect::of(&fault(text), &at("asked", 1));
        assert_eq!(redirect("MOVED 3999 127.0.0.1:6381"), Some(Redirect::Moved(at("127.0.0.1", 6381))));
        assert_eq!(redirect("MOVED 3999 ::1:6381"), Some(Redirect::Moved(at("::1", 6381))));
        assert_eq!(redirect("MOVED 3999 :6381"), Some(Redirect::Moved(at("asked", 6381))));
        assert_eq!(redirect("ASK 3999 node.internal:6381"), Some(Redirect::Ask(at("node.internal", 6381))));
        for other in [
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "MOVED",
            "MOVED 1",
            "MOVED 1 a",
            "ASK 1 a:b",
            "",
        ] {
            assert_eq!(redirect(other), None, "{other}");
        }
        assert!(are_apart(&fault("ASK 1 a:1")) && are_apart(&fault("TRYAGAIN x")) && !are_apart(&fault("MOVED 1 a:1")));
    }
}
