--TEST--
Fork: in a signal handler that runs in the middle of a command
--DESCRIPTION--
The reply belongs to the parent. The child, which comes back into the same call, must neither read it nor believe that
it got the lock.
--INI--
redis_lock.command_timeout=20
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function () use (&$fork) {
    $fork = new Fork();
});
$lock = new RedisLock('invoice', ttl: 300);
$lock->acquire();
$lock->release();

foreach ([
    'acquire()' => fn () => $lock->acquire(),
    'refresh()' => fn () => $lock->refresh(),
    'release()' => fn () => $lock->release(),
] as $name => $call) {
    stopServer();
    $sender = signals([0.1, SIGUSR1], [0.4, SIGCONT, server()->pid()]);
    $said = outcome($call);
    if ($fork->pid === 0) {
        $fork->report([$said, $lock->isAcquired()]);
    }
    $seen = $fork->wait();
    same("$name: the parent's succeeds", true, $said);
    // Busy, not mine, or an exception.
    check('  the child has no part in it', is_array($seen) && $seen[0] !== true && $seen[1] === false, $seen);
    same('  the parent\'s state is right', server()->command('GET', 'invoice'), $lock->getToken());
    $sender->wait();
}
same('nothing is left', [], keys());
?>
--EXPECT--
acquire(): the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
refresh(): the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
release(): the parent's succeeds: yes
  the child has no part in it: yes
  the parent's state is right: yes
nothing is left: yes
