--TEST--
Keeper: under valgrind; renewals, losses and interrupts touch no memory that is not their own
--DESCRIPTION--
One script renews, loses locks in all ways, is interrupted in nested calls, fibers, generators and callbacks, forks, and
drops what is renewed; it ends in two ways, by exit() and by a fatal error in a callable whose lock is lost.
--SKIPIF--
<?php
require __DIR__ . '/valgrind.inc';
Valgrind::skip();
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';
require __DIR__ . '/valgrind.inc';

$script = server()->folder . '/script.php';
file_put_contents($script, <<<'PHP'
<?php
$done = [];
function lock(string $key, float $ttl, bool $renew = false): RedisLock
{
    return new RedisLock($key, ttl: $ttl, renew: $renew, interrupt: true);
}
function lost(callable $call): bool|string
{
    try {
        return 'not lost: ' . json_encode($call());
    } catch (RedisLock\LockLostException $lost) {
        return (string) $lost !== '';
    } catch (RedisLock\ConnectionException $failed) {
        // A short ttl may be over before the answer is there, all the more so in here.
        return str_contains($failed->getMessage(), 'used up the lease') ? lost($call) : $failed->getMessage();
    }
}
function loop(): void
{
    for ($until = hrtime(true) + 20e9; hrtime(true) < $until; ) {
    }
}
function renewals(int $count): bool
{
    for ($until = hrtime(true) + 20e9; RedisLock::stats()['renewals'] < $count && hrtime(true) < $until; usleep(10_000)) {
    }

    return RedisLock::stats()['renewals'] >= $count;
}
function work(int $times): int
{
    for ($i = 0, $sum = 0; $i < $times; $i++) {
        $sum += $i & 1;
    }

    return $sum;
}

// Renewed, at length and at once; dropped, refreshed, released.
$kept = lock('kept', 8, renew: true);
$done[] = $kept->acquire();
$many = array_map(fn (int $i) => lock("of many $i", 8, renew: true), range(1, 20));
foreach ($many as $one) {
    $done[] = $one->acquire();
}
$done[] = renewals(21);
$done[] = $many[0]->release();
$done[] = $many[1]->refresh();
unset($many, $one);
$done[] = RedisLock::stats()['kept'] === 1 && $kept->isAcquired();

// Lost and thrown: into a loop, out of nested calls and callbacks, in a fiber and beside another one.
$done[] = lost(fn () => lock('key', 0.35)->synchronized(loop(...)));
$done[] = lost(fn () => lock('key', 0.6, renew: true)->synchronized(function () {
    (new RedisLock('key'))->forceRelease();
    loop();
}));
$done[] = lost(fn () => lock('outer', 0.35)->synchronized(fn () => lock('inner', 30)->synchronized(
    fn () => array_map(fn () => loop(), [1, 2]),
)));
$fiber = new Fiber(fn () => lock('key', 0.35)->synchronized(fn () => Fiber::suspend() ?? loop()));
$fiber->start();
usleep(450_000);
$done[] = work(10_000) === 5000;
$done[] = lost(fn () => $fiber->resume());

// Held back, swallowed, handled by the end of a fiber.
$done[] = lost(fn () => lock('key', 0.35)->synchronized(function () {
    $generator = (function () {
        try {
            yield 1;
        } finally {
            usleep(450_000);
            work(1000);
        }
    })();
    $generator->current();
    unset($generator);
    loop();
}));
$swallowed = false;
$done[] = lost(fn () => lock('key', 0.35)->synchronized(function () use (&$swallowed) {
    try {
        loop();
    } catch (Throwable) {
        return work(1000);
    }
}));
$dropped = new Fiber(fn () => lock('key', 0.35)->synchronized(Fiber::suspend(...)));
$dropped->start();
usleep(450_000);
unset($dropped);

// A handler, a wait, a child.
pcntl_async_signals(true);
pcntl_signal(SIGALRM, function () use (&$done) {
    $done[] = lost(fn () => lock('of the handler', 0.35)->synchronized(loop(...)));
});
posix_kill(getmypid(), SIGALRM);
$busy = new RedisLock('busy', ttl: 60, renew: true);
$busy->acquire();
$done[] = lost(fn () => lock('key', 0.35)->synchronized(fn () => (new RedisLock('busy'))->acquire(wait: 20)));
if (($pid = pcntl_fork()) === 0) {
    $own = lock('of the child', 3, renew: true);
    exit($own->acquire() && renewals(1) && $own->release() ? 7 : 1);
}
pcntl_waitpid($pid, $status);
$done[] = pcntl_wexitstatus($status) === 7;
$done[] = $busy->release() && $kept->isAcquired();

echo count($done), ' steps', array_unique($done) === [true] ? "\n" : json_encode($done);
$last = lock('at the end', 0.35);
$last->synchronized(function () use ($argv) {
    try {
        work(10);
    } finally {
        usleep(450_000);
        if ($argv[1] === 'error') {
            trigger_error('the end', E_USER_ERROR);
        }
        exit('the end');
    }
});
PHP);

$runs = [new Valgrind($script, 'exit'), new Valgrind($script, 'error')];
foreach ($runs as $run) {
    $run->finish('/^3\d steps\n.*the end/s');
}
check('nothing is left', eventually(fn () => left() === []), left());
?>
--EXPECT--
exit: the script did all its steps: yes
  valgrind was there to the end: yes
  no error has the extension in its stack: yes
error: the script did all its steps: yes
  valgrind was there to the end: yes
  no error has the extension in its stack: yes
nothing is left: yes
