--TEST--
Signals: an exception of a handler that runs in the callable of synchronized() gets through, and the lock is freed
--DESCRIPTION--
As any exception of the callable, wherever it was at that moment.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function () {
    throw new DomainException('stop');
});

$lock = new RedisLock('invoice', ttl: 60);
signals([0.2, SIGUSR1]);
same('it gets through', 'DomainException: stop', outcome(fn () => $lock->synchronized(function () {
    same('the lock is held', ['invoice'], keys());
    for ($until = now() + 20; now() < $until; ) {
    }
})));
same('the lock is free', [], keys());
same('the object knows', [false, false, null], [$lock->isAcquired(), $lock->isExpired(), $lock->getToken()]);
?>
--EXPECT--
the lock is held: yes
it gets through: yes
the lock is free: yes
the object knows: yes
