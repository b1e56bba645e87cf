--TEST--
Signals: a handler that runs in the middle of a command uses locks itself, on the same server
--DESCRIPTION--
The outer command's reply is still to come. If the handler's commands went over the same connection, one of the two
would read the other's reply.
--INI--
redis_lock.command_timeout=20
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);

$outer = new RedisLock('invoice', ttl: 60);
$inner = new RedisLock('other key', ttl: 60);
foreach ([$outer, $inner] as $lock) {
    $lock->acquire();
    $lock->refresh();
    $lock->getHolder();
    $lock->release();
}

$seen = [];
pcntl_signal(SIGUSR1, function () use ($inner, &$seen, &$at) {
    $at = now();
    $same = new RedisLock('invoice');
    $seen = [
        'acquire' => $inner->acquire(),
        'refresh' => $inner->refresh(),
        'holder' => $inner->getHolder()['pid'] === getmypid(),
        'release' => $inner->release(),
        'synchronized' => $inner->synchronized(fn () => 'done'),
        'same key' => is_bool($same->acquire()) && is_bool($same->release()),
    ];
});

foreach ([
    'acquire' => fn () => $outer->acquire(wait: 5),
    'refresh' => fn () => $outer->refresh(),
    'getHolder' => fn () => $outer->getHolder()['pid'] === getmypid(),
    'release' => fn () => $outer->release(),
] as $name => $call) {
    $seen = [];
    stopServer();
    $sender = signals([0.2, SIGUSR1], [0.4, SIGCONT, server()->pid()]);
    same("$name: succeeds", true, outcome($call));
    check('  the handler came in the middle', $at < sentAt($sender)[1], $at);
    same('  all went well in it', [
        'acquire' => true, 'refresh' => true, 'holder' => true, 'release' => true, 'synchronized' => 'done', 'same key' => true,
    ], $seen);
    same('  the token is right', $outer->getToken(), server()->command('GET', 'invoice'));
}
same('nothing is left', [], keys());
?>
--EXPECT--
acquire: succeeds: yes
  the handler came in the middle: yes
  all went well in it: yes
  the token is right: yes
refresh: succeeds: yes
  the handler came in the middle: yes
  all went well in it: yes
  the token is right: yes
getHolder: succeeds: yes
  the handler came in the middle: yes
  all went well in it: yes
  the token is right: yes
release: succeeds: yes
  the handler came in the middle: yes
  all went well in it: yes
  the token is right: yes
nothing is left: yes
