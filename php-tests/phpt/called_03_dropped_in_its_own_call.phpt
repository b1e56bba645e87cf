--TEST--
Called from everywhere: an object is dropped, or used again, by the code that it calls
--DESCRIPTION--
The last reference goes away while a method of the object runs: in the callable, in a signal handler during a wait,
in an error handler.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$lock = new RedisLock('key', ttl: 300);
same('dropped in the callable', 'value', $lock->synchronized(function () use (&$lock) {
    $lock = null;
    gc_collect_cycles();
    same('  it is held to the end', ['key'], keys());

    return 'value';
}));
same('  then free', [], keys());

pcntl_async_signals(true);
$lock = new RedisLock('key', ttl: 300);
pcntl_signal(SIGUSR1, function () use (&$lock) {
    $lock = null;
    gc_collect_cycles();
});
signals([0.2, SIGUSR1]);
occupy('key', ttl: 0.8);
same('dropped in a handler during a wait', true, $lock->acquire(wait: 20));
same('  it goes with the end of the call', [null, []], [$lock, keys()]);

$lock = new RedisLock('key', ttl: 300);
same('used again in the callable', [true, true, true], $lock->synchronized(
    fn () => [$lock->release(), $lock->acquire(), $lock->isAcquired()],
));
check('  nothing is left once it goes', (function () use (&$lock) {
    $lock = null;

    return keys() === [];
})(), keys());
?>
--EXPECT--
  it is held to the end: yes
dropped in the callable: yes
  then free: yes
dropped in a handler during a wait: yes
  it goes with the end of the call: yes
used again in the callable: yes
  nothing is left once it goes: yes
