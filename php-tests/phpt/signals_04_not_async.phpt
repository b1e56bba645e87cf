--TEST--
Signals: without pcntl_async_signals() they wait for pcntl_signal_dispatch(), and disturb nothing
--DESCRIPTION--
Calling the handlers is then not the extension's business; the interrupted system calls still are. SIGCHLD comes
to everybody who has children.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(false);
$handled = 0;
pcntl_signal(SIGUSR1, function () use (&$handled) {
    $handled++;
});
pcntl_signal(SIGCHLD, function () use (&$handled) {
    $handled++;
});

$lock = new RedisLock('invoice');
$sender = signals(...array_fill(0, 5, [0.05, SIGUSR1]));
occupy('invoice', ttl: 0.6);
same('the wait ends with the lock', true, $lock->acquire(wait: 20));
// Its end is the SIGCHLD.
$sender->wait();
same('no handler ran', 0, $handled);
pcntl_signal_dispatch();
check('they run when asked for', $handled >= 2, $handled);
same('the lock can be released', true, $lock->release());
?>
--EXPECT--
the wait ends with the lock: yes
no handler ran: yes
they run when asked for: yes
the lock can be released: yes
