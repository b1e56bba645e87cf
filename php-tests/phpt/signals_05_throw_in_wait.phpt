--TEST--
Signals: an exception of a handler ends the wait, and nothing of it stays in Redis
--DESCRIPTION--
If the waiter left its token (or a place in a queue) behind, the key would go to somebody who is not there any more.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
occupy('invoice');

pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function () {
    throw new DomainException('stop');
});

$lock = new RedisLock('invoice');
foreach ([
    'acquire()' => fn () => $lock->acquire(wait: 20),
    'synchronized()' => fn () => $lock->synchronized(fn () => print("never to be called\n"), wait: 20),
    'a wait without end' => fn () => $lock->acquire(wait: INF),
] as $name => $wait) {
    signals([0.2, SIGUSR1]);
    $start = now();
    same("$name throws it", 'DomainException: stop', outcome($wait));
    check('  at once', now() - $start < 2.0, now() - $start);
    same('  nothing is acquired', [false, false, null], [$lock->isAcquired(), $lock->isExpired(), $lock->getToken()]);
    same('  in Redis is only the other one', ['invoice'], keys());
}

same('the other one frees it', 1, server()->command('DEL', 'invoice'));
usleep(400_000);
same('nobody comes late', [], keys());

same('the object can be used again', true, $lock->acquire(wait: 1));
same('and released', true, $lock->release());
same('nothing is left', [], keys());
?>
--EXPECT--
acquire() throws it: yes
  at once: yes
  nothing is acquired: yes
  in Redis is only the other one: yes
synchronized() throws it: yes
  at once: yes
  nothing is acquired: yes
  in Redis is only the other one: yes
a wait without end throws it: yes
  at once: yes
  nothing is acquired: yes
  in Redis is only the other one: yes
the other one frees it: yes
nobody comes late: yes
the object can be used again: yes
and released: yes
nothing is left: yes
