--TEST--
Signals: a handler that runs during a wait uses locks itself
--DESCRIPTION--
Its requests and replies must not mix with the wait's own, and no part of the extension may be in the middle of
something when the handler comes in. The handler asks for another key, for the same key, and for the very object.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);

$holder = new RedisLock('invoice', ttl: 60);
$waiter = new RedisLock('invoice', ttl: 60);
$seen = [];
$handler = function () use ($holder, $waiter, &$seen, &$left) {
    $other = new RedisLock('other key');
    $same = new RedisLock('invoice');
    $seen[] = [
        'another key' => [$other->acquire(), $other->refresh(), $other->release()],
        'another key, synchronized' => $other->synchronized(fn () => 'done'),
        'the same key is busy' => [$same->acquire(), $same->acquire(wait: 0.05)],
        'its holder is known' => $same->getHolder()['pid'] === getmypid(),
        'the waiting object holds nothing' => [$waiter->isAcquired(), $waiter->getToken(), $waiter->release()],
    ];
    if (--$left === 0) {
        $seen[] = ['the holder releases' => $holder->release()];
    }
};
pcntl_signal(SIGUSR1, $handler);

$left = 3;
$holder->acquire();
$sender = signals(...array_fill(0, 3, [0.15, SIGUSR1]));
same('the wait ends with the lock', true, $waiter->acquire(wait: 20));
$sender->wait();
$expected = [
    'another key' => [true, true, true],
    'another key, synchronized' => 'done',
    'the same key is busy' => [false, false],
    'its holder is known' => true,
    'the waiting object holds nothing' => [false, null, false],
];
same('the handler saw it all right', [$expected, $expected, $expected, ['the holder releases' => true]], $seen);
same('the lock is the waiter\'s', $waiter->getToken(), server()->command('GET', 'invoice'));
same('and can be released', true, $waiter->release());
same('nothing is left', [], keys());

// The very object that waits. What it may answer is open; that all stays whole is not.
$holder->acquire();
pcntl_signal(SIGUSR1, function () use ($holder, $waiter, &$answer) {
    $holder->release();
    $answer = outcome(fn () => $waiter->acquire());
});
signals([0.2, SIGUSR1]);
$got = outcome(fn () => $waiter->acquire(wait: 2));
check('one of the two calls has it', $got === true || $answer === true, [$got, $answer]);
same('the object knows its token', [true, server()->command('GET', 'invoice')], [$waiter->isAcquired(), $waiter->getToken()]);
same('and can release it', true, $waiter->release());
same('nothing is left', [], keys());
?>
--EXPECT--
the wait ends with the lock: yes
the handler saw it all right: yes
the lock is the waiter's: yes
and can be released: yes
nothing is left: yes
one of the two calls has it: yes
the object knows its token: yes
and can release it: yes
nothing is left: yes
