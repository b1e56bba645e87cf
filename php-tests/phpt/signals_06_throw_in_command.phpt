--TEST--
Signals: an exception of a handler in the middle of a command leaves no key behind
--DESCRIPTION--
The server has the SET already when the handler throws. The caller never learns that it was granted, so nobody would
release it.
--INI--
redis_lock.command_timeout=20
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function () use (&$handled) {
    $handled = now();
    throw new DomainException('stop');
});

// Has a connection and the scripts, so that the first thing sent below is the command.
$lock = new RedisLock('invoice', ttl: 60);
$lock->acquire();
$lock->refresh();
$lock->release();

$interrupted = function (string $name, callable $call) use (&$handled) {
    $handled = INF;
    stopServer();
    $sender = signals([0.2, SIGUSR1], [0.4, SIGCONT, server()->pid()]);
    same("$name throws it", 'DomainException: stop', outcome($call));
    check('  the handler ran before the reply', $handled < sentAt($sender)[1], $handled);
};

$interrupted('acquire()', fn () => $lock->acquire());
same('  nothing is acquired', [false, null], [$lock->isAcquired(), $lock->getToken()]);
check('  no key is left', eventually(fn () => keys() === []), keys());

$interrupted('synchronized()', fn () => $lock->synchronized(fn () => print("never to be called\n")));
same('  nothing is acquired', [false, null], [$lock->isAcquired(), $lock->getToken()]);
check('  no key is left', eventually(fn () => keys() === []), keys());

$lock->acquire();
$interrupted('release()', fn () => $lock->release());
same('  it is released all the same', false, $lock->isAcquired());
check('  no key is left', eventually(fn () => keys() === []), keys());

$lock->acquire();
$interrupted('refresh()', fn () => $lock->refresh());
same('  the lock is still held', [true, $lock->getToken()], [$lock->isAcquired(), server()->command('GET', 'invoice')]);
$interrupted('getHolder()', fn () => $lock->getHolder());
same('  the lock is still held', [true, $lock->getToken()], [$lock->isAcquired(), server()->command('GET', 'invoice')]);
same('it can be released', true, $lock->release());
same('nothing is left', [], keys());
?>
--EXPECT--
acquire() throws it: yes
  the handler ran before the reply: yes
  nothing is acquired: yes
  no key is left: yes
synchronized() throws it: yes
  the handler ran before the reply: yes
  nothing is acquired: yes
  no key is left: yes
release() throws it: yes
  the handler ran before the reply: yes
  it is released all the same: yes
  no key is left: yes
refresh() throws it: yes
  the handler ran before the reply: yes
  the lock is still held: yes
getHolder() throws it: yes
  the handler ran before the reply: yes
  the lock is still held: yes
it can be released: yes
nothing is left: yes
