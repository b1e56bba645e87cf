//! A private `redis-server`, or the program that REDIS_SERVER names, on a Unix socket in a temporary folder. It ends,
//! and the folder goes, with the value.

use std::{
    env, fs, io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio, id},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use redis::{Client, Connection, FromRedisValue, ToRedisArgs};
use redis_lock::redis::{
    Single,
    servers::{Server, Servers},
};

use super::ms;

pub struct RedisServer {
    folder: PathBuf,
    process: Child,
    control: Mutex<Option<Connection>>,
}

impl RedisServer {
    const TIME_TO_START: Duration = Duration::from_secs(20);

    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// `options` as redis-server takes them.
    pub fn start_with(options: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("redis_lock-test-{}-{}", id(), COUNT.fetch_add(1, SeqCst));
        let folder = env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let mut command = Command::new(env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into()));
        command
            .current_dir(&folder)
            .args(["--port", "0", "--unixsocket", "socket", "--save", "", "--loglevel", "warning"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        #[cfg(target_os = "linux")]
        // SAFETY: prctl(2) may be called between fork and exec. The server ends with the thread of its test, also
        // where that is killed.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        let process = match command.spawn() {
            Ok(process) => process,
            Err(error) => {
                fs::remove_dir(&folder).unwrap();
                panic!("this test needs redis-server (Debian's package redis-server), which cannot be run: {error}");
            }
        };
        let mut server = Self { folder, process, control: Mutex::new(None) };
        server.wait_until_it_answers();
        server
    }

    fn wait_until_it_answers(&mut self) {
        let client = Client::open(self.address()).unwrap();
        let start = Instant::now();
        loop {
            if let Ok(connection) = client.get_connection() {
                *self.control.get_mut().unwrap() = Some(connection);
                return;
            }
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none() && start.elapsed() < Self::TIME_TO_START, "redis-server does not start: {ended:?}");
            thread::sleep(ms(5));
        }
    }

    /// As users write it.
    pub fn address(&self) -> String {
        format!("unix://{}/socket", self.folder.display())
    }

    /// With connections of its own.
    pub fn store(&self) -> Single {
        store(&self.address())
    }

    /// What the tests themselves ask; the store does not see this connection.
    pub fn query<T: FromRedisValue>(&self, words: impl ToRedisArgs) -> T {
        let mut control = self.control.lock().unwrap();
        redis::Cmd::new().arg(words).query(control.as_mut().unwrap()).unwrap()
    }

    /// How often it has run a command, however that was sent to it.
    pub fn calls(&self, command: &str) -> u64 {
        let stats: String = self.query(&["INFO", "commandstats"]);
        let line = format!("cmdstat_{command}:calls=");
        stats.lines().find_map(|stat| stat.strip_prefix(&line)).map_or(0, |rest| {
            let (calls, _) = rest.split_once(',').unwrap();
            calls.parse().unwrap()
        })
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Neither may panic: this also runs while a failed test unwinds.
        let _ = self.process.kill().and_then(|()| self.process.wait());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub fn server(address: &str) -> Server {
    match Servers::parse(address) {
        Ok(Servers::Redis(server)) => *server,
        other => panic!("{address}: {other:?}"),
    }
}

pub fn store(address: &str) -> Single {
    Single::new(server(address))
}
