--TEST--
Nested: synchronized() of one lock within that of another
--DESCRIPTION--
Each frees its own on the way out, in whatever order; the same lock twice is refused, not counted.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$outer = new RedisLock('outer', ttl: 300);
$inner = new RedisLock('inner', ttl: 300);

same('the value comes through both', 'value', $outer->synchronized(fn () => $inner->synchronized(function () {
    same('both are held', ['inner', 'outer'], keys());

    return 'value';
})));
same('both are free', [], keys());

same('the exception comes through both', 'DomainException: x', outcome(
    fn () => $outer->synchronized(fn () => $inner->synchronized(fn () => throw new DomainException('x'))),
));
same('both are free', [], keys());

$outer->synchronized(function () use ($inner) {
    outcome(fn () => $inner->synchronized(fn () => throw new DomainException('x')));
    same('caught between the two: the inner one is free, the outer one held', ['outer'], keys());
});
same('then that too', [], keys());

// The same object, and another one with the same key.
same('no second time on one object', 'LogicException', $outer->synchronized(function () use ($outer) {
    $said = strtok(outcome(fn () => $outer->synchronized(fn () => print("never to be called\n"))), ':');
    same('the first one holds on', [true, ['outer']], [$outer->isAcquired(), keys()]);

    return $said;
}));
same('nor with another object, after its wait', RedisLock\LockTimeoutException::class, $outer->synchronized(
    fn () => strtok(outcome(fn () => (new RedisLock('outer'))->synchronized(fn () => print("never to be called\n"), wait: 0.1)), ':'),
));
same('all is free', [], keys());

// The inner one outlives the outer one: interleaved by hand.
$outer->acquire();
$inner->acquire();
$outer->release();
same('the first can go first', ['inner'], keys());
$inner->release();
same('then the second', [], keys());
?>
--EXPECT--
both are held: yes
the value comes through both: yes
both are free: yes
the exception comes through both: yes
both are free: yes
caught between the two: the inner one is free, the outer one held: yes
then that too: yes
the first one holds on: yes
no second time on one object: yes
nor with another object, after its wait: yes
all is free: yes
the first can go first: yes
then the second: yes
