--TEST--
Interrupt: a wait for another lock, in the callable of a lock that is lost, ends; nothing of it stays in Redis
--DESCRIPTION--
The wait was to last 30 s. What it left behind, a place in the queue say, would get the key when its turn comes, for a
process that does not look for it any more.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

server();
$holder = new RedisLock('busy', ttl: 60);
$waits = [
    'acquire()' => fn () => (new RedisLock('busy'))->acquire(wait: 30),
    'a wait without end' => fn () => (new RedisLock('busy'))->acquire(wait: INF),
    'synchronized()' => fn () => (new RedisLock('busy'))->synchronized(fn () => print("never to be called\n"), wait: 30),
    'synchronized() that can be interrupted' => fn () =>
        (new RedisLock('busy', interrupt: true))->synchronized(fn () => print("never to be called\n"), wait: 30),
    'in a fiber' => fn () => (new Fiber(fn () => doomed('inner')->synchronized(
        fn () => (new RedisLock('busy'))->acquire(wait: 30),
    )))->start(),
    'the third one' => fn () => (new RedisLock('kept', ttl: 60, renew: true, interrupt: true))->synchronized(
        fn () => (new RedisLock('busy'))->acquire(wait: 30),
    ),
];
foreach ($waits as $name => $wait) {
    $holder->acquire();
    $lock = new RedisLock('key', ttl: 0.6, renew: true, interrupt: true);
    $took = seconds(function () use ($lock, $wait, &$seen) {
        $seen = run($lock, function () use ($wait) {
            // Seen at the next renewal, when the wait is under way.
            server()->command('SET', 'key', 'somebody else');
            $wait();
        });
    });
    $lost = $name === 'in a fiber' ? 'inner was lost' : 'key was lost';
    same("$name: it ends", [$lost, 1], [$seen[0], $seen['thrown']]);
    check('  soon', $took < 2.5, $took);
    check('  nothing stands in line or listens', eventually(fn () => left() === ['busy', 'key']), left());
    same('  the other ones have their keys', [getmypid(), 'somebody else'], [holder('busy'), server()->command('GET', 'key')]);
    $holder->release();
    same('  and nobody comes late', ['key'], left());
    server()->flush();
}

// Held back, the wait is not disturbed.
$holder->acquire();
$lock = doomed();
$took = seconds(function () use ($lock, &$seen, &$got) {
    $seen = run($lock, function () use (&$got) {
        try {
            spin(0.01);
        } finally {
            $got = (new RedisLock('busy'))->acquire(wait: 0.5);
        }
        spin(10);
    });
});
same('in a finally it lasts', [INTERRUPTED, false], [$seen, $got]);
check('  as long as it was to', $took > 0.5 && $took < 2.0, $took);
same('  nothing is left but the other one', ['busy'], left());

// It gets the lock before the other one is lost, and frees it on its way out.
$inner = new RedisLock('busy', ttl: 60);
$seen = run(doomed(ttl: 0.3), function () use ($holder, $inner) {
    pcntl_async_signals(true);
    pcntl_signal(SIGUSR1, fn () => $holder->release());
    signalWhenQueued('busy');
    $inner->synchronized(fn () => spin(10), wait: 30);
});
same('a wait that came to its end', INTERRUPTED, $seen);
unset($inner);
check('  nothing is left', eventually(fn () => left() === []), left());

// The server is silent, which loses the lock in the middle of another one's command. What that may set in the end, it
// takes back, or it is gone by its ttl.
$lock = new RedisLock('key', ttl: 0.6, renew: true, interrupt: true);
$seen = run($lock, function () use (&$took, &$caught) {
    stopServer();
    try {
        $took = seconds(function () use (&$caught) {
            $caught = outcome(fn () => (new RedisLock('another', ttl: 2))->acquire());
        });
    } finally {
        server()->kill(SIGCONT);
    }

    return 'value';
});
check('thrown into a command that hangs', str_starts_with($caught, RedisLock\LockLostException::class), $caught);
check('  in its time', $took < 5.0, $took);
same('  and the end says so', ['key was lost; the callable returned: "value"', 1, 1], [$seen[0], $seen['losses'], $seen['thrown']]);
check('  nothing is left', eventually(fn () => left() === []), left());
?>
--EXPECT--
acquire(): it ends: yes
  soon: yes
  nothing stands in line or listens: yes
  the other ones have their keys: yes
  and nobody comes late: yes
a wait without end: it ends: yes
  soon: yes
  nothing stands in line or listens: yes
  the other ones have their keys: yes
  and nobody comes late: yes
synchronized(): it ends: yes
  soon: yes
  nothing stands in line or listens: yes
  the other ones have their keys: yes
  and nobody comes late: yes
synchronized() that can be interrupted: it ends: yes
  soon: yes
  nothing stands in line or listens: yes
  the other ones have their keys: yes
  and nobody comes late: yes
in a fiber: it ends: yes
  soon: yes
  nothing stands in line or listens: yes
  the other ones have their keys: yes
  and nobody comes late: yes
the third one: it ends: yes
  soon: yes
  nothing stands in line or listens: yes
  the other ones have their keys: yes
  and nobody comes late: yes
in a finally it lasts: yes
  as long as it was to: yes
  nothing is left but the other one: yes
a wait that came to its end: yes
  nothing is left: yes
thrown into a command that hangs: yes
  in its time: yes
  and the end says so: yes
  nothing is left: yes
