--TEST--
Signals: a handler runs while synchronized() frees the lock beside the exception of its callable
--DESCRIPTION--
While an exception is pending, the engine takes a signal off its queue and calls no handler: the signal would be lost,
and a worker that was told to end would go on. So the exception is laid aside meanwhile.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

$server = server();
ini_set('redis_lock.command_timeout', '10');
pcntl_async_signals(true);
$heard = 0;
pcntl_signal(SIGUSR1, function () use (&$heard): void {
    $heard++;
});
pcntl_signal(SIGUSR2, function (): void {
    throw new DomainException('of the handler');
});

foreach ([SIGUSR1 => 'a handler that returns', SIGUSR2 => 'a handler that throws'] as $signal => $which) {
    echo "$which\n";
    $lock = new RedisLock('key', ttl: 60);
    $seen = outcome(fn () => $lock->synchronized(function () use ($server, $signal) {
        $server->command('CLIENT', 'PAUSE', 1000);
        signals([0.3, $signal]);
        throw new LengthException('of the callable');
    }));
    same('  the exception of the callable gets through', 'LengthException: of the callable', $seen);
    same('  the lock is free', [], keys());
}
same('the handler ran once', 1, $heard);
?>
--EXPECT--
a handler that returns
  the exception of the callable gets through: yes
  the lock is free: yes
a handler that throws
  the exception of the callable gets through: yes
  the lock is free: yes
the handler ran once: yes
