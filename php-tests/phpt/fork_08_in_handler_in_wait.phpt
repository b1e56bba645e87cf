--TEST--
Fork: in a signal handler that runs during a wait
--DESCRIPTION--
The child exits there, or comes back into the wait, which then goes on in two processes. One token for both
would give both of them the lock.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
$lock = new RedisLock('invoice', ttl: 300);

// The child exits in the handler.
pcntl_signal(SIGUSR1, function () use (&$fork) {
    $fork = new Fork();
    if ($fork->pid === 0) {
        exit(5);
    }
});
signals([0.2, SIGUSR1]);
occupy('invoice', ttl: 1.0);
same('the parent\'s wait goes on to its end', true, $lock->acquire(wait: 20));
same('the child ended', 5, $fork->status());
same('the parent holds', [true, $lock->getToken()], [$lock->isAcquired(), server()->command('GET', 'invoice')]);
$lock->release();

// The child takes a lock in the handler.
pcntl_signal(SIGUSR1, function () use (&$fork) {
    $fork = Fork::run(fn () => (new RedisLock('own', ttl: 300))->synchronized(fn () => 'done'));
});
signals([0.2, SIGUSR1]);
occupy('invoice', ttl: 1.0);
same('the parent\'s wait goes on to its end', true, $lock->acquire(wait: 20));
same('the child could lock', 'done', $fork->wait());
same('the parent holds', [true, $lock->getToken()], [$lock->isAcquired(), server()->command('GET', 'invoice')]);
$lock->release();

// Both go on waiting.
pcntl_signal(SIGUSR1, function () use (&$fork) {
    $fork = new Fork();
});
signals([0.2, SIGUSR1]);
occupy('invoice', ttl: 1.0);
$got = outcome(fn () => $lock->acquire(wait: 20));
if ($got === true) {
    $token = $lock->getToken();
    // Long enough for the other one to see that it is busy.
    usleep(400_000);
    $right = server()->connect()->command('GET', 'invoice') === $token && $lock->isAcquired();
    $released = $lock->release();
}
if ($fork->pid === 0) {
    $fork->report([$got, $token ?? null, $right ?? null, $released ?? null]);
}
$seen = $fork->wait();
same('the parent had it alone', [true, true, true], [$got, $right, $released]);
check('the child too', is_array($seen) && [$seen[0], $seen[2], $seen[3]] === [true, true, true], $seen);
check('with different tokens', ($seen[1] ?? null) !== $token, $seen);
same('nothing is left', [], keys());
?>
--EXPECT--
the parent's wait goes on to its end: yes
the child ended: yes
the parent holds: yes
the parent's wait goes on to its end: yes
the child could lock: yes
the parent holds: yes
the parent had it alone: yes
the child too: yes
with different tokens: yes
nothing is left: yes
