--TEST--
Signals: handlers run during a wait, as soon as outside of it
--DESCRIPTION--
A worker that waits for a lock must hear SIGTERM at once, not when the wait is over; and the wait goes on after it.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
occupy('invoice');

pcntl_async_signals(true);
$handled = [];
pcntl_signal(SIGUSR1, function () use (&$handled) {
    $handled[] = now();
});

$sender = signals(...array_fill(0, 9, [0.12, SIGUSR1]));
$waited = seconds(function () use (&$got) {
    $got = (new RedisLock('invoice'))->acquire(wait: 1.5);
});

$late = array_map(fn (float $sent, float $seen) => $seen - $sent, sentAt($sender), $handled);
sort($late);
same('each signal was handled', 9, count($handled));
// 100 ms are promised.
check('the usual one in time', $late[4] < 0.2, $late);
check('the latest one soon', $late[8] < 0.6, $late);
same('the answer is busy', false, $got);
check('after the whole wait', $waited >= 1.5 && $waited < 4.0, $waited);
?>
--EXPECT--
each signal was handled: yes
the usual one in time: yes
the latest one soon: yes
the answer is busy: yes
after the whole wait: yes
