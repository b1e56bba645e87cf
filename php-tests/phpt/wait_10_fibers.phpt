--TEST--
Wait: in a fiber, while another fiber holds the lock
--DESCRIPTION--
A wait stops all fibers of the process, so only a handler can release what another fiber holds. And a fiber that is
dropped takes its lock along, with what listens for it.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
$lock = null;
$start = function (?callable $then = null, float $wait = 20) use (&$lock): Fiber {
    $fiber = new Fiber(function () use ($then, $wait, &$lock) {
        $lock = new RedisLock('invoice', ttl: 60);

        return $lock->synchronized($then ?? Fiber::suspend(...), wait: $wait);
    });
    $fiber->start();

    return $fiber;
};

$holding = $start();
$said = outcome(fn () => $start(wait: 0.1));
check('a wait in vain, in another fiber', str_starts_with($said, RedisLock\LockTimeoutException::class), $said);
same('  leaves the first one where it was', [getmypid(), [], ['invoice']], [holder('invoice'), queued('invoice'), left()]);
$holding->resume('value');
same('  which ends well', ['value', []], [$holding->getReturn(), left()]);

// The first fiber's lock is released by hand, in a handler, while the second one waits.
$holding = new Fiber(function () use (&$held) {
    $held = new RedisLock('invoice', ttl: 60);
    $held->acquire();
    Fiber::suspend();

    return $held->release();
});
$holding->start();
pcntl_signal(SIGUSR1, function () use (&$held, &$next) {
    $next = waiter('invoice');
    $held->release();
});
$sender = signalWhenQueued('invoice');
$waiting = $start();
same('a fiber gets what another fiber held', [getmypid(), [$next->pid()]], [holder('invoice'), queued('invoice')]);
$holding->resume();
same('  which has it no more', [false, getmypid()], [$holding->getReturn(), holder('invoice')]);
$sender->wait();

// Dropped while it holds what it has waited for: the next one is told.
$lock = null;
unset($waiting);
gc_collect_cycles();
same('a fiber that is dropped hands over', [$next->pid(), [], 'got it'], [holder('invoice'), queued('invoice'), $next->readLine()]);
check('  and nothing listens for it', eventually(fn () => count(channels()) === 1), channels());
same('  the next one ends well', 0, dismiss($next));
check('  nothing is left', eventually(fn () => left() === []), left());

// An exception of a handler, in a wait in a fiber in synchronized() of another fiber.
$holder = new RedisLock('invoice', ttl: 60);
$holder->acquire();
pcntl_signal(SIGUSR1, function () use ($holder, &$next) {
    $next = waiter('invoice');
    $holder->release();
    throw new DomainException('stop');
});
$sender = signalWhenQueued('invoice');
$outer = new Fiber(fn () => (new RedisLock('other key', ttl: 60))->synchronized(fn () => outcome(fn () => $start())));
$outer->start();
same('an exception gets out of it', 'DomainException: stop', $outer->getReturn());
same('  and the next one has the key', [$next->pid(), 'got it', 0], [holder('invoice'), $next->readLine(), dismiss($next)]);
$sender->wait();
$lock = null;
check('  nothing is left', eventually(fn () => left() === []), left());
?>
--EXPECT--
a wait in vain, in another fiber: yes
  leaves the first one where it was: yes
  which ends well: yes
a fiber gets what another fiber held: yes
  which has it no more: yes
a fiber that is dropped hands over: yes
  and nothing listens for it: yes
  the next one ends well: yes
  nothing is left: yes
an exception gets out of it: yes
  and the next one has the key: yes
  nothing is left: yes
