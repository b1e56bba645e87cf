--TEST--
Fibers: switching inside of synchronized() and between waits
--DESCRIPTION--
Fibers suspend in each other's critical sections and end in another order than they began. What the extension keeps
for a running synchronized() must not be a stack.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$names = ['a', 'b', 'c', 'd'];
$fiber = fn (string $name) => new Fiber(fn () => (new RedisLock($name, ttl: 300))->synchronized(function () use ($name) {
    $in = Fiber::suspend();
    if ($in === 'throw') {
        throw new DomainException("of $name");
    }

    return "$name got $in";
}));
$fibers = array_combine($names, array_map($fiber, $names));
foreach ($fibers as $one) {
    $one->start();
}
same('all are held', $names, keys());

$fibers['b']->resume('x');
same('b is done', ['b got x', ['a', 'c', 'd']], [$fibers['b']->getReturn(), keys()]);
same('d throws', ['DomainException: of d', ['a', 'c']], [outcome(fn () => $fibers['d']->resume('throw')), keys()]);
unset($fibers['a']);
gc_collect_cycles();
same('a is dropped', ['c'], keys());
$fibers['c']->resume('y');
same('c is done', ['c got y', []], [$fibers['c']->getReturn(), keys()]);

// A lock that is taken in one fiber and released in another.
$lock = new RedisLock('a', ttl: 300);
(new Fiber(fn () => $lock->acquire()))->start();
same('it is held after the fiber that took it', [true, ['a']], [$lock->isAcquired(), keys()]);
$fiber = new Fiber(fn () => $lock->release());
$fiber->start();
same('another one releases it', [true, []], [$fiber->getReturn(), keys()]);

// A fiber that is suspended for good while it holds; the next one waits for it in vain.
$holder = new Fiber(fn () => (new RedisLock('a', ttl: 300))->synchronized(Fiber::suspend(...)));
$holder->start();
$waiter = new Fiber(fn () => (new RedisLock('a', ttl: 300))->acquire(wait: 0.2));
$waiter->start();
same('it is busy for another fiber', false, $waiter->getReturn());
$holder->resume('z');
same('and is free in the end', ['z', []], [$holder->getReturn(), keys()]);
?>
--EXPECT--
all are held: yes
b is done: yes
d throws: yes
a is dropped: yes
c is done: yes
it is held after the fiber that took it: yes
another one releases it: yes
it is busy for another fiber: yes
and is free in the end: yes
