--TEST--
Keeper: signals are for the thread that runs PHP
--DESCRIPTION--
The kernel gives a signal of the process to any thread that does not block it. In the keeper's it would run a handler of
PHP beside PHP, or leave the call that it was to interrupt blocked.
--FILE--
<?php
require __DIR__ . '/keeper.inc';

server();
$before = status(getmypid(), getmypid(), 'SigBlk');
$lock = new RedisLock('key', ttl: 0.1, renew: true);
$lock->acquire();
// Until it has all it needs.
eventually(fn () => RedisLock::stats()['renewals'] > 1);
[$thread] = keepers(getmypid());
// 64 bits in hexadecimal digits, the lowest one for signal 1.
$digits = strrev(status(getmypid(), $thread, 'SigBlk'));
$taken = array_values(array_filter(range(1, 64), fn (int $signal) => (hexdec($digits[intdiv($signal - 1, 4)]) >> ($signal - 1) % 4 & 1) === 0));
// SIGKILL and SIGSTOP cannot be blocked; the C library keeps two for itself.
$faults = [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT];
same('it blocks all but the faults of its own', [], array_values(array_diff($taken, $faults, [SIGKILL, SIGSTOP, 32, 33])));
same('  which it does not block', [SIGSEGV, SIGBUS, SIGFPE, SIGILL], array_values(array_intersect([SIGSEGV, SIGBUS, SIGFPE, SIGILL], $taken)));
same('the thread of PHP blocks what it blocked before', $before, status(getmypid(), getmypid(), 'SigBlk'));

// Handlers run in the thread of PHP, and interrupt what it is in.
pcntl_async_signals(true);
$threads = [];
$handled = [SIGALRM, SIGTERM, SIGHUP, SIGUSR1];
foreach ($handled as $signal) {
    pcntl_signal($signal, function (int $signal) use (&$threads) {
        $threads[] = readlink('/proc/thread-self');
    }, restart_syscalls: false);
}
$slept = [];
foreach ($handled as $signal) {
    $sender = signals([0.05, $signal], [0.05, $signal]);
    $slept[] = seconds(fn () => sleep(5));
    $slept[] = seconds(fn () => sleep(5));
    $sender->wait();
}
check('each interrupts the call that blocks', max($slept) < 2.0, $slept);
check('in the thread of PHP', count($threads) === 8 && array_unique($threads) === [getmypid() . '/task/' . getmypid()], $threads);

$threads = [];
$rain = rain(SIGALRM, 0.0003, getmypid());
$renewals = RedisLock::stats()['renewals'];
for ($until = now() + 1; now() < $until; ) {
    usleep(100_000);
}
$rain->kill();
check('in a rain of them too', count($threads) > 100 && array_unique($threads) === [getmypid() . '/task/' . getmypid()], count($threads));
check('  while it goes on', RedisLock::stats()['renewals'] - $renewals > 10, RedisLock::stats());
same('  the lock is held', true, $lock->release());

// What has no handler does to the process what it always did, at once.
foreach ([SIGTERM => '', SIGINT => '', SIGALRM => 'pcntl_alarm(1);', SIGSEGV => ''] as $signal => $code) {
    $child = script("
        posix_setrlimit(POSIX_RLIMIT_CORE, 0, 0);
        \$lock = new RedisLock('key', ttl: 0.3, renew: true);
        \$lock->synchronized(function () {
            usleep(150_000);
            echo \"held\\n\";
            $code
            for (;;) {
            }
        });
    ");
    $child->readLine();
    if ($code === '') {
        $child->signal($signal);
    }
    $took = seconds(function () use ($child, &$ended) {
        $ended = $child->wait();
    });
    same("signal $signal ends the process", 128 + $signal, $ended);
    check('  at once', $took < 2.5, $took);
    check('  and the lease with it', eventually(fn () => keys() === [], within: 2.0), keys());
}
?>
--EXPECT--
it blocks all but the faults of its own: yes
  which it does not block: yes
the thread of PHP blocks what it blocked before: yes
each interrupts the call that blocks: yes
in the thread of PHP: yes
in a rain of them too: yes
  while it goes on: yes
  the lock is held: yes
signal 15 ends the process: yes
  at once: yes
  and the lease with it: yes
signal 2 ends the process: yes
  at once: yes
  and the lease with it: yes
signal 14 ends the process: yes
  at once: yes
  and the lease with it: yes
signal 11 ends the process: yes
  at once: yes
  and the lease with it: yes
