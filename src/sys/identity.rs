//! Tokens: randomness of the operating system, and who we are.

use std::{ffi::CStr, time::SystemTime};

use rand::{TryRng, rngs::SysRng};

use crate::lock::token::Token;

use super::fork::PerProcess;

/// `host:pid:`, which stay the same for a process.
struct Process(String);

impl Default for Process {
    fn default() -> Self {
        Self(format!("{}:{}:", host(), std::process::id()))
    }
}

/// A new token. The randomness comes from the system each time: a generator in this process would repeat itself in
/// forked children.
pub fn draw_token(identify: bool) -> Result<Token, String> {
    static PROCESS: PerProcess<Process> = PerProcess::new();
    let random = random()?;
    if !identify {
        return Ok(Token::new(random, None));
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(Token::new(random, Some((&PROCESS.get().0, since))))
}

/// A name that no other process draws, of 16 hex digits.
pub fn draw_name() -> Result<String, String> {
    random::<8>().map(|random| format!("{:016x}", u64::from_ne_bytes(random)))
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], String> {
    let mut random = [0; BYTES];
    SysRng.try_fill_bytes(&mut random).map_err(|error| format!("the operating system gave no randomness: {error}"))?;
    Ok(random)
}

/// The host's name, in visible ASCII without the separator.
fn host() -> String {
    let mut name = [0_u8; 65];
    // SAFETY: the buffer is valid for its length, of which the last byte stays 0.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let name = CStr::from_bytes_until_nul(&name).map_or("".into(), CStr::to_string_lossy);
    if failed || name.is_empty() {
        return "unknown".into();
    }
    name.chars().map(|c| if c.is_ascii_graphic() && c != ':' { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::lock::token::Holder;

    #[test]
    fn tokens_differ_and_name_this_process() {
        let tokens: HashSet<_> = (0..100).map(|_| draw_token(true).unwrap().as_bytes().to_vec()).collect();
        assert_eq!(tokens.len(), 100);
        for token in tokens {
            let identity = Holder::of(&token, None).identity.unwrap();
            assert_eq!((identity.host, identity.pid), (host(), std::process::id()));
            assert!(identity.since > 1_700_000_000);
        }
    }

    #[test]
    fn an_identity_can_be_withheld() {
        let token = draw_token(false).unwrap();
        assert_eq!((token.as_bytes().len(), token.as_bytes().last()), (33, Some(&b':')));
    }
}
