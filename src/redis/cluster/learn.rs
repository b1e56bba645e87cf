//! Asking the nodes of a cluster, one after another, who serves what.

use redis::Value;

use crate::{
    lock::{
        options::Limits,
        ports::{Call, Cause, Fault},
    },
    redis::hosts::Host,
};

/// Until one gives an answer that `take` can use. Each has a share of the time, so that some is left for those after it,
/// and for what is to be asked of who serves the slot. `name`: the cluster's.
pub fn learn(
    name: &str,
    hosts: &[Host],
    call: &Call,
    ask: impl Fn(&Host, &Call, &[&[u8]]) -> Result<Value, Fault>,
    mut take: impl FnMut(&Value, &Host) -> Option<()>,
) -> Result<(), Fault> {
    let fault = |cause| Fault { server: name.into(), cause };
    let (mut in_vain, mut may_pass, mut refusal) = (Vec::new(), false, None);
    let was_stopped = call.interrupt.stopped();
    for (host, left) in hosts.iter().zip((1..=hosts.len()).rev()) {
        if call.interrupt.stopped() && !was_stopped {
            break;
        }
        match ask(host, &share(call, left + 1), &[b"CLUSTER", b"SLOTS"]) {
            Ok(answer) => match take(&answer, host) {
                Some(()) => return Ok(()),
                None => in_vain.push(format!("redis://{host} gave no answer to CLUSTER SLOTS")),
            },
            Err(Fault { cause: Cause::Forked, .. }) => return Err(fault(Cause::Forked)),
            // It is no cluster, or does not tell us. Nor will the others, unless it was told to leave theirs.
            Err(fault @ Fault { cause: Cause::Answered(_), .. }) => refusal = refusal.or(Some(fault)),
            Err(fault) => {
                may_pass |= fault.may_pass();
                in_vain.push(fault.to_string());
            }
        }
    }
    // One that is no cluster must not hide that the others are down.
    if let Some(refusal) = refusal.filter(|_| !may_pass) {
        return Err(refusal);
    }
    let why = format!("no node says who serves what: {}", in_vain.join("; "));
    Err(fault(if may_pass { Cause::Unreachable(why) } else { Cause::TurnedAway(why) }))
}

fn share<'a>(call: &Call<'a>, parts: usize) -> Call<'a> {
    let now = call.clock.now();
    let limit = call.until.since(now) / u32::try_from(parts).unwrap_or(u32::MAX);
    let Limits { connect, command } = call.limits;
    Call {
        until: now.plus(limit),
        limits: Limits { connect: connect.min(limit), command: command.min(limit) },
        ..*call
    }
}
