--TEST--
Wait: a handler that runs in it waits itself; each wait is told what is its own
--DESCRIPTION--
Both are told over one connection, and the inner wait reads what is meant for the outer one. Lost, it would cost the
outer one most of a second each time.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
$own = getmypid();

// Another key. The outer wait is told first, or the inner one, while the inner one is under way.
foreach ([
    'the outer wait is told first' => [fn () => queued('two') !== [], fn () => holder('one') === $own],
    'the inner wait is told first' => [fn () => holder('two') === $own, fn () => queued('two') !== []],
] as $which => [$endOfOne, $endOfTwo]) {
    $late = [];
    for ($round = 0; $round < 3; $round++) {
        $partners = [holdUntil('one', $endOfOne), holdUntil('two', $endOfTwo)];
        $one = new RedisLock('one', ttl: 60);
        pcntl_signal(SIGUSR1, function () use (&$inner, &$told) {
            $two = new RedisLock('two', ttl: 60);
            $inner = [$two->acquire(wait: 20), holder('two') === getmypid()];
            eventually(fn () => holder('one') === getmypid());
            $inner[] = $two->release();
            $told = now();
        });
        $partners[] = signalWhenQueued('one');
        $outer[$round] = [$one->acquire(wait: 20), holder('one') === $own, $one->release()];
        $late[] = now() - $told;
        $all[$round] = [$inner, array_map(fn (Fork $partner) => $partner->wait(), $partners)];
    }
    same("$which: both get theirs", array_fill(0, 3, [true, true, true]), $outer);
    same('  and the inner one releases it', array_fill(0, 3, [[true, true, true], [true, true, true]]), $all);
    check('  the outer one lost no message', min($late) < 0.4, $late);
    $one = null;
    same('  nothing is left', [], left());
}

// The same key. The key is offered to the outer wait, which cannot take it before the handler ends.
$partner = holdUntil('invoice', fn () => queued('invoice') === [$own, $own]);
$lock = new RedisLock('invoice', ttl: 60);
pcntl_signal(SIGUSR1, function () use (&$inner) {
    $another = new RedisLock('invoice', ttl: 60);
    $inner = [$another->acquire(wait: 20), holder('invoice') === getmypid(), $another->release()];
});
$sender = signalWhenQueued('invoice');
same('the same key: the outer wait gets it', [true, true], [$lock->acquire(wait: 20), $lock->isAcquired()]);
same('  after the inner one', [true, true, true], $inner);
same('  and releases it', [true, true, true], [$partner->wait(), $lock->release(), $sender->wait()]);

// The same key, and an inner wait in vain.
$holder = new RedisLock('invoice', ttl: 60);
$holder->acquire();
pcntl_signal(SIGUSR1, function () use (&$inner, $holder, &$next) {
    $next = waiter('invoice');
    $another = new RedisLock('invoice', ttl: 60);
    $inner = [$another->acquire(wait: 0.1), queued('invoice'), count(channels())];
    $holder->release();
});
$sender = signalWhenQueued('invoice');
same('the same key, an inner wait in vain: the outer one gets it', [true, $own], [$lock->acquire(wait: 20), holder('invoice')]);
same('  it kept its place and its channel', [false, [$own, $next->pid()], 2], $inner);
same('  then the next one', [true, 'got it', 0], [$lock->release(), $next->readLine(), dismiss($next)]);
$sender->wait();

// The very object: refused, or in its own right; all stays whole.
$holder->acquire();
pcntl_signal(SIGUSR1, function () use (&$inner, $holder, $lock) {
    $inner = [outcome(fn () => $lock->acquire(wait: 0.1))];
    $holder->release();
    $inner[] = outcome(fn () => $lock->acquire(wait: 0.1));
});
$sender = signalWhenQueued('invoice');
$got = outcome(fn () => $lock->acquire(wait: 20));
check('the very object: one of its waits gets the key', in_array(true, [$got, ...$inner], true), [$got, $inner]);
check('  the others are busy or refused', [] === array_filter(
    [$got, ...$inner],
    fn ($said) => !is_bool($said) && !str_starts_with($said, 'LogicException: '),
), [$got, $inner]);
same('  it knows its token', [true, $lock->getToken()], [$lock->isAcquired(), server()->command('GET', 'invoice')]);
same('  and releases it', [true, true], [$lock->release(), $sender->wait()]);
pcntl_signal(SIGUSR1, SIG_DFL);
$lock = $holder = null;
same('nothing is left', [], left());
same('one connection was enough for all that', 1, count(subscribers()));
?>
--EXPECT--
the outer wait is told first: both get theirs: yes
  and the inner one releases it: yes
  the outer one lost no message: yes
  nothing is left: yes
the inner wait is told first: both get theirs: yes
  and the inner one releases it: yes
  the outer one lost no message: yes
  nothing is left: yes
the same key: the outer wait gets it: yes
  after the inner one: yes
  and releases it: yes
the same key, an inner wait in vain: the outer one gets it: yes
  it kept its place and its channel: yes
  then the next one: yes
the very object: one of its waits gets the key: yes
  the others are busy or refused: yes
  it knows its token: yes
  and releases it: yes
nothing is left: yes
one connection was enough for all that: yes
