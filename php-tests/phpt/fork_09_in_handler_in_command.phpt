--TEST--
Fork: in a signal handler that runs in the middle of a command
--DESCRIPTION--
The reply belongs to the parent. The child, which comes back into the same call or leaves it, must neither read it,
nor believe that it got the lock, nor take back what its parent asked for.
--INI--
redis_lock.command_timeout=20
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
$lock = new RedisLock('invoice', ttl: 300);
$lock->acquire();
$lock->release();

$calls = [
    'acquire()' => fn () => $lock->acquire(),
    'refresh()' => fn () => $lock->refresh(),
    'release()' => fn () => $lock->release(),
];
foreach ([
    'the child comes back' => fn () => null,
    'the child exits in it' => fn () => exit(0),
    'the child throws in it' => fn () => throw new DomainException('of the child'),
] as $how => $child) {
    pcntl_signal(SIGUSR1, function () use (&$fork, $child) {
        $fork = new Fork();
        if ($fork->pid === 0) {
            $child();
        }
    });
    foreach ($calls as $name => $call) {
        stopServer();
        $sender = signals([0.2, SIGUSR1], [0.4, SIGCONT, server()->pid()]);
        $said = outcome($call);
        if ($fork->pid === 0) {
            $fork->report([$said, $lock->isAcquired()]);
        }
        $seen = $fork->wait();
        same("$name, $how: the parent's succeeds", true, $said);
        // Busy, not mine, or an exception.
        check('  the child has no part in it', !is_array($seen) || ($seen[0] !== true && $seen[1] === false), $seen);
        same('  the parent\'s state is right', server()->command('GET', 'invoice'), $lock->getToken());
        $sender->wait();
    }
}
same('nothing is left', [], keys());
?>
--EXPECT--
acquire(), the child comes back: the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
refresh(), the child comes back: the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
release(), the child comes back: the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
acquire(), the child exits in it: the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
refresh(), the child exits in it: the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
release(), the child exits in it: the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
acquire(), the child throws in it: the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
refresh(), the child throws in it: the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
release(), the child throws in it: the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
nothing is left: yes
