--TEST--
Wait: a handler drops other locks meanwhile, which are listened for over the same connection
--DESCRIPTION--
After a wait that got the lock, its object goes on listening, for the next time. The end of one object's listening must
not be the end of another's, nor take the message that a wait is out for.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);

/** A lock that was had by waiting, and is free again. */
function waited(string $key): RedisLock
{
    $lock = new RedisLock($key, ttl: 60);
    $partner = holdUntil($key, fn () => queued($key) !== []);
    [$got, $released] = [$lock->acquire(wait: 20), $lock->release()];
    $got && $released && $partner->wait() === true || throw new RuntimeException("It did not get $key.");

    return $lock;
}
/** The keys that are listened for. */
$listened = fn () => array_map(fn (string $channel) => strtok($channel, '{'), channels());

foreach ([
    'dropped' => function () use (&$locks) {
        unset($locks['b'], $locks['d again']);
    },
    'taken and dropped' => function () use (&$locks) {
        $locks['b']->acquire();
        $locks['d again']->acquire();
        unset($locks['b'], $locks['d again']);
    },
    'dropped in another wait' => function () use (&$locks) {
        $partner = holdUntil('e', fn () => queued('e') !== []);
        $locks['e'] = new RedisLock('e', ttl: 60);
        $locks['e']->acquire(wait: 20) && $locks['e']->release() && $partner->wait();
        unset($locks['b'], $locks['e'], $locks['d again']);
    },
] as $how => $drop) {
    $late = [];
    for ($round = 0; $round < 3; $round++) {
        $locks = ['a' => waited('a'), 'b' => waited('b'), 'c' => waited('c'), 'd again' => waited('d')];
        $kept = $listened();
        $holder = new RedisLock('d', ttl: 60);
        $holder->acquire();
        $lock = new RedisLock('d', ttl: 60);
        pcntl_signal(SIGUSR1, function () use ($drop, $holder, &$released) {
            $drop();
            $released = now();
            $holder->release();
        });
        $sender = signalWhenQueued('d');
        $got[$round] = [$lock->acquire(wait: 20), holder('d') === getmypid()];
        $late[] = now() - $released;
        check("$how: the others were listened for", array_unique($kept) === ['a', 'b', 'c', 'd'], $kept);
        check('  those that are left still are', eventually(fn () => array_unique($listened()) == [0 => 'a', 1 => 'c', 2 => 'd']), $listened());
        $locks = null;
        check('  and nothing else in the end', eventually(fn () => array_unique($listened()) === ['d']), $listened());
        $lock->release();
        $lock = null;
        check('  and nothing at all', eventually(fn () => left() === []), left());
        $sender->wait();
    }
    same("$how: the wait got its lock", array_fill(0, 3, [true, true]), $got);
    check('  and lost no message', min($late) < 0.4, $late);
}
same('one connection was enough for all that', 1, count(subscribers()));
?>
--EXPECT--
dropped: the others were listened for: yes
  those that are left still are: yes
  and nothing else in the end: yes
  and nothing at all: yes
dropped: the others were listened for: yes
  those that are left still are: yes
  and nothing else in the end: yes
  and nothing at all: yes
dropped: the others were listened for: yes
  those that are left still are: yes
  and nothing else in the end: yes
  and nothing at all: yes
dropped: the wait got its lock: yes
  and lost no message: yes
taken and dropped: the others were listened for: yes
  those that are left still are: yes
  and nothing else in the end: yes
  and nothing at all: yes
taken and dropped: the others were listened for: yes
  those that are left still are: yes
  and nothing else in the end: yes
  and nothing at all: yes
taken and dropped: the others were listened for: yes
  those that are left still are: yes
  and nothing else in the end: yes
  and nothing at all: yes
taken and dropped: the wait got its lock: yes
  and lost no message: yes
dropped in another wait: the others were listened for: yes
  those that are left still are: yes
  and nothing else in the end: yes
  and nothing at all: yes
dropped in another wait: the others were listened for: yes
  those that are left still are: yes
  and nothing else in the end: yes
  and nothing at all: yes
dropped in another wait: the others were listened for: yes
  those that are left still are: yes
  and nothing else in the end: yes
  and nothing at all: yes
dropped in another wait: the wait got its lock: yes
  and lost no message: yes
one connection was enough for all that: yes
