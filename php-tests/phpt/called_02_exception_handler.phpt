--TEST--
Called from everywhere: the handler of uncaught exceptions
--DESCRIPTION--
When it runs, the lock whose holder threw is free already.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
set_exception_handler(function (Throwable $thrown) {
    $lock = new RedisLock('key', ttl: 300);
    same('the exception is the holder\'s', 'of the callable', $thrown->getMessage());
    same('its lock is free', [], keys());
    same('the handler can lock', [true, true, 'done'], [$lock->acquire(), $lock->release(), $lock->synchronized(fn () => 'done')]);
    same('nothing is left', [], keys());
});
(new RedisLock('key', ttl: 300))->synchronized(fn () => throw new DomainException('of the callable'));
?>
--EXPECT--
the exception is the holder's: yes
its lock is free: yes
the handler can lock: yes
nothing is left: yes
