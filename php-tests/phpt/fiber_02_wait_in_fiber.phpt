--TEST--
Fibers: a wait in a fiber, with signals
--DESCRIPTION--
Handlers run on the fiber's own stack then. The engine does not let them switch fibers: that is an exception, which
gets out of the wait as any other.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
$wait = fn () => new Fiber(fn () => outcome(fn () => (new RedisLock('invoice', ttl: 300))->synchronized(fn () => 'done', wait: 20)));

pcntl_signal(SIGUSR1, function () use (&$handled) {
    $lock = new RedisLock('other key', ttl: 300);
    $handled = [$lock->acquire(), $lock->release()];
});
signals([0.2, SIGUSR1]);
occupy('invoice', ttl: 0.8);
$fiber = $wait();
$fiber->start();
same('the wait ends with the lock', 'done', $fiber->getReturn());
same('the handler locked meanwhile', [true, true], $handled);
same('nothing is left', [], keys());

occupy('invoice');
pcntl_signal(SIGUSR1, function () {
    Fiber::suspend();
});
signals([0.2, SIGUSR1]);
$fiber = $wait();
$took = seconds(fn () => $fiber->start());
check('a handler cannot suspend the wait', str_starts_with($fiber->getReturn(), 'FiberError: '), $fiber->getReturn());
check('the wait ends at once', $took < 3.0, $took);
same('only the other one is left', ['invoice'], keys());
?>
--EXPECT--
the wait ends with the lock: yes
the handler locked meanwhile: yes
nothing is left: yes
a handler cannot suspend the wait: yes
the wait ends at once: yes
only the other one is left: yes
