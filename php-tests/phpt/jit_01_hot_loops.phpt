--TEST--
JIT: signals, time limit and exceptions in hot loops that lock
--DESCRIPTION--
Compiled code looks at the engine's interrupt flag at other places than interpreted code, and jumps out of native
calls in other ways.
--INI--
opcache.enable_cli=1
opcache.jit=tracing
opcache.jit_buffer_size=32M
--SKIPIF--
<?php
if (!function_exists('opcache_get_status')) {
    die('skip there is no opcache');
}
if (PHP_ZTS || !in_array(php_uname('m'), ['x86_64', 'aarch64'], true)) {
    die('skip there is no JIT for this machine, or another signal for the time limit');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
same('the JIT is on', true, opcache_get_status(false)['jit']['on'] ?? null);

function work(RedisLock $lock, int $rounds): int
{
    $sum = 0;
    for ($i = 0; $i < $rounds; $i++) {
        $sum += $lock->synchronized(fn () => $i) + (int) $lock->acquire();
        $lock->release();
    }

    return $sum;
}

function failing(RedisLock $lock, int $rounds): int
{
    $caught = 0;
    for ($i = 0; $i < $rounds; $i++) {
        try {
            $lock->synchronized(fn () => throw new DomainException((string) $i));
        } catch (DomainException $e) {
            $caught += (int) ($e->getMessage() === (string) $i);
        }
    }

    return $caught;
}

$lock = new RedisLock('key', ttl: 300);
same('the work is right', 499_500 + 1000, work($lock, 1000));
same('exceptions come through', 1000, failing($lock, 1000));
same('nothing is left', [], keys());

pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function () use (&$handled) {
    $handled++;
});
$handled = 0;
$sender = signals(...array_fill(0, 1000, [0.0005, SIGUSR1]));
for ($right = $rounds = 0; $sender->isRunning(); $rounds++) {
    $right += (int) (work($lock, 100) === 4950 + 100) + (int) (failing($lock, 100) === 100);
}
check('signals come in', $handled > 300, $handled);
same('and disturb nothing', 2 * $rounds, $right);

occupy('key', ttl: 60);
pcntl_signal(SIGUSR1, function () {
    throw new DomainException('stop');
});
signals([0.3, SIGUSR1]);
$took = seconds(function () use ($lock, &$said) {
    $said = outcome(function () use ($lock) {
        while (!$lock->acquire(wait: 0.05)) {
        }
    });
});
same('a handler throws out of a loop of waits', 'DomainException: stop', $said);
check('at once', $took < 2.0, $took);
same('only the other one is left', ['key'], keys());
server()->flush();

signals([0.3, SIGUSR1]);
same('and out of the work', 'DomainException: stop', outcome(fn () => $lock->synchronized(function () {
    for ($i = 0, $until = now() + 20; now() < $until; $i++) {
    }
})));
same('nothing is left', [], keys());

endEachWay(
    'set_time_limit(60);
    for ($i = 0; ; $i++) {
        if ($i === 10000) {
            posix_kill(getmypid(), SIGPROF);
        }
    }',
    says: 'Maximum execution time of 60 seconds exceeded',
    ini: ['opcache.enable_cli' => 1, 'opcache.jit' => 'tracing', 'opcache.jit_buffer_size' => '32M'],
);
?>
--EXPECT--
the JIT is on: yes
the work is right: yes
exceptions come through: yes
nothing is left: yes
signals come in: yes
and disturb nothing: yes
a handler throws out of a loop of waits: yes
at once: yes
only the other one is left: yes
and out of the work: yes
nothing is left: yes
in synchronized(): free
in synchronized(), autoRelease off: free
in synchronized() within another: free
in synchronized() within a fiber: free
in synchronized() of a suspended fiber: free
in a variable: free
in a local variable of a suspended fiber: free
in a static property: free
in a cycle: free
autoRelease off: left to its ttl
