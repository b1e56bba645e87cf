//! The options of a lock that constructors and factories have in common, in their order: ttl, renew, maxHold, interrupt,
//! fencing, autoRelease, minReplicas, restartGuard.

use std::time::Duration;

use ext_php_rs::{args::Arg, flags::DataType};

use super::{
    args::Args,
    method::{Stop, optional},
    settings,
    stores::SharedStore,
};
use crate::lock::{
    error::BadValue,
    options::{Options, Terms, guard_from_seconds, max_hold_from_seconds, min_replicas},
    ttl::Ttl,
};

/// What stands for an argument that was not given.
#[derive(Clone, Copy)]
pub enum Otherwise {
    Settings,
    Factory,
}

pub struct LockArgs {
    /// The position of ttl.
    first: u32,
    ttl: Option<Ttl>,
    renew: Option<bool>,
    max_hold: Option<Duration>,
    interrupt: Option<bool>,
    fencing: Option<bool>,
    auto_release: Option<bool>,
    min_replicas: Option<u32>,
    restart_guard: Option<Duration>,
}

impl LockArgs {
    pub const COUNT: u32 = 8;

    pub fn list(otherwise: Otherwise) -> [Arg<'static>; Self::COUNT as usize] {
        let flag = |name, default| {
            let default = match (otherwise, default) {
                (Otherwise::Factory, _) => "null",
                (Otherwise::Settings, false) => "false",
                (Otherwise::Settings, true) => "true",
            };
            optional(name, DataType::Bool, default)
        };
        [
            optional("ttl", DataType::Double, "null"),
            optional("renew", DataType::Bool, "null"),
            optional("maxHold", DataType::Double, "null"),
            flag("interrupt", Options::INTERRUPT),
            flag("fencing", Options::FENCING),
            flag("autoRelease", Options::AUTO_RELEASE),
            optional("minReplicas", DataType::Long, if matches!(otherwise, Otherwise::Factory) { "null" } else { "0" }),
            optional("restartGuard", DataType::Double, "null"),
        ]
    }

    /// From the position of ttl on.
    pub fn read(args: &mut Args, first: u32, otherwise: Otherwise) -> Result<Self, Stop> {
        let flag = |args: &mut Args, position, default| match otherwise {
            Otherwise::Factory => args.optional_bool(position),
            Otherwise::Settings => args.bool(position, default).map(Some),
        };
        Ok(Self {
            first,
            ttl: ttl(args, first)?,
            renew: args.optional_bool(first + 1)?,
            max_hold: match args.optional_float(first + 2)? {
                None => None,
                Some(seconds) => Some(args.check(first + 2, max_hold_from_seconds(seconds))?),
            },
            interrupt: flag(args, first + 3, Options::INTERRUPT)?,
            fencing: flag(args, first + 4, Options::FENCING)?,
            auto_release: flag(args, first + 5, Options::AUTO_RELEASE)?,
            min_replicas: match otherwise {
                Otherwise::Factory => args.optional_int(first + 6)?,
                Otherwise::Settings => args.int(first + 6, 0).map(Some)?,
            }
            .map(|number| args.check(first + 6, min_replicas(number)))
            .transpose()?,
            restart_guard: match args.optional_float(first + 7)? {
                None => None,
                Some(seconds) => Some(args.check(first + 7, guard_from_seconds(seconds))?),
            },
        })
    }

    /// With the settings for what was not asked for.
    pub fn over_settings(self, args: &Args, store: &SharedStore) -> Result<Options, Stop> {
        let options = settings::options(self.ttl)?;
        self.over(args, options, store)
    }

    /// With a factory's options for what was not asked for.
    pub fn over(self, args: &Args, options: Options, store: &SharedStore) -> Result<Options, Stop> {
        let options = Options {
            terms: Terms {
                ttl: self.ttl.unwrap_or(options.terms.ttl),
                fencing: self.fencing.unwrap_or(options.terms.fencing),
                min_replicas: self.min_replicas.unwrap_or(options.terms.min_replicas),
                restart_guard: self.restart_guard.or(options.terms.restart_guard),
            },
            renew: self.renew.unwrap_or(options.renew),
            max_hold: self.max_hold.unwrap_or(options.max_hold),
            interrupt: self.interrupt.unwrap_or(options.interrupt),
            auto_release: self.auto_release.unwrap_or(options.auto_release),
            ..options
        };
        if self.max_hold.is_some() && !options.renew {
            // Taken for a limit of the lease, it would be none.
            args.check(self.first + 2, Err(BadValue("needs renew: true".into())))?;
        }
        if options.terms.min_replicas > 0 && !store.may_have_replicas() {
            let bad = BadValue("must be 0 with several servers and with memory://".into());
            args.check(self.first + 6, Err(bad))?;
        }
        if options.terms.restart_guard.is_some_and(|guard| guard < options.terms.ttl.as_duration()) {
            let bad = BadValue("must be at least as long as the ttl".into());
            if self.restart_guard.is_some() {
                args.check(self.first + 7, Err(bad))?;
            } else {
                args.check(self.first, Err(BadValue("must not be greater than the factory's restartGuard".into())))?;
            }
        }
        if options.is_too_short_to_renew() {
            let bad = BadValue("must be at least 0.1 where the lease is renewed".into());
            if self.ttl.is_some() {
                args.check(self.first, Err(bad))?;
            } else if self.renew.is_some() {
                let bad = BadValue("must not be true where the ttl is less than 0.1".into());
                args.check(self.first + 1, Err(bad))?;
            } else {
                return Err(settings::refuse_ttl(&bad));
            }
        }
        Ok(options)
    }
}

pub fn ttl(args: &mut Args, position: u32) -> Result<Option<Ttl>, Stop> {
    match args.optional_float(position)? {
        None => Ok(None),
        Some(seconds) => args.check(position, Ttl::from_seconds(seconds)).map(Some),
    }
}
