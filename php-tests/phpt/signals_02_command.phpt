--TEST--
Signals: a handler runs while a command's reply is awaited; the command neither fails nor is sent again
--DESCRIPTION--
A signal interrupts the system call in which the reply is awaited (EINTR). Giving up there would lose a lease that the
server has just granted; sending the command again would do it twice.
--INI--
redis_lock.command_timeout=20
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function () use (&$handled) {
    $handled[] = now();
});

$lock = new RedisLock('invoice', ttl: 60);
$steps = [
    'acquire' => fn () => $lock->acquire(),
    'refresh' => fn () => $lock->refresh(),
    'getHolder' => fn () => $lock->getHolder()['pid'] === getmypid(),
    'release' => fn () => $lock->release(),
    'forceRelease' => fn () => $lock->forceRelease(),
];

$round = function (callable $each) use ($steps) {
    foreach ($steps as $name => $step) {
        if ($name === 'forceRelease') {
            occupy('invoice');
        }
        server()->resetCommandCounts();
        $each($name, $step);
    }
};

// The first round loads the scripts, the second one shows what a calm call sends.
$round(fn ($name, $step) => $step());
$round(function ($name, $step) use (&$calm) {
    $step();
    $calm[$name] = server()->commandCounts();
});

$round(function ($name, $step) use ($calm, &$handled) {
    $handled = [];
    stopServer();
    $sender = signals([0.2, SIGUSR1], [0.1, SIGUSR1], [0.4, SIGCONT, server()->pid()]);
    $result = $step();
    $end = now();
    [, , $resumed] = sentAt($sender);

    same("$name: succeeds", true, $result);
    check('  and not before the server went on', $end >= $resumed, $end - $resumed);
    check('  the handler ran meanwhile, twice', count($handled) === 2 && $handled[1] < $resumed, [$handled, $resumed]);
    same('  the server got what it gets on a calm day', $calm[$name], server()->commandCounts());
});
?>
--EXPECT--
acquire: succeeds: yes
  and not before the server went on: yes
  the handler ran meanwhile, twice: yes
  the server got what it gets on a calm day: yes
refresh: succeeds: yes
  and not before the server went on: yes
  the handler ran meanwhile, twice: yes
  the server got what it gets on a calm day: yes
getHolder: succeeds: yes
  and not before the server went on: yes
  the handler ran meanwhile, twice: yes
  the server got what it gets on a calm day: yes
release: succeeds: yes
  and not before the server went on: yes
  the handler ran meanwhile, twice: yes
  the server got what it gets on a calm day: yes
forceRelease: succeeds: yes
  and not before the server went on: yes
  the handler ran meanwhile, twice: yes
  the server got what it gets on a calm day: yes
