--TEST--
Wait: a fork in it; the parent keeps its place, and a child that goes on waiting has one of its own behind it
--DESCRIPTION--
The child has a copy of all that its parent knows: the place in the queue, the channel, the token. If it used any of
them, the key would be two processes', or the parent would never be told.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
$parent = getmypid();
$holder = new RedisLock('invoice', ttl: 60);
$lock = new RedisLock('invoice', ttl: 60);

foreach ([
    'the child exits in it' => fn () => exit(0),
    'the child throws in it' => fn () => throw new DomainException('of the child'),
    'the child dies in it' => fn () => trigger_error('of the child', E_USER_ERROR),
    'the child is killed in it' => fn () => posix_kill(getmypid(), SIGKILL),
    'the child locks something else' => fn () => (new RedisLock('own'))->acquire(wait: 1) && exit(0),
    'the child drops the lock that waits' => function () use (&$lock) {
        $lock = null;
        exit(0);
    },
] as $how => $end) {
    $holder->acquire();
    pcntl_signal(SIGUSR1, function () use ($holder, $end, &$fork, &$seen) {
        $fork = new Fork();
        if ($fork->pid === 0) {
            $end();
        }
        $fork->status();
        $seen = [queued('invoice'), count(channels())];
        $holder->release();
        $seen[] = holder('invoice');
    });
    $sender = signalWhenQueued('invoice');
    $got = outcome(fn () => $lock->acquire(wait: 20));
    if (getmypid() !== $parent) {
        exit(0);
    }
    same("$how: the parent's place is its own", [[$parent], 1, $parent], $seen);
    same('  the parent gets it', [true, true, true], [$got, $lock->isAcquired(), $lock->release()]);
    $sender->wait();
}
$lock = null;
check('nothing is left', left() === [], left());

foreach ([
    'the child goes on with the wait' => fn () => null,
    'the child begins a wait of its own' => fn (Fork $fork) => $fork->report([
        ($own = new RedisLock('invoice', ttl: 60))->acquire(wait: 20), holder('invoice') === getmypid(), $own->release(),
    ]),
] as $how => $child) {
    $holder->acquire();
    $lock = new RedisLock('invoice', ttl: 60);
    pcntl_signal(SIGUSR1, function () use ($holder, $child, &$fork, &$between, &$before, $parent) {
        $between = waiter('invoice');
        $fork = new Fork();
        if ($fork->pid === 0) {
            $child($fork);
        } else {
            eventually(fn () => count(queued('invoice')) === 3);
            $before = queued('invoice');
            $holder->release();
        }
    });
    $sender = signalWhenQueued('invoice');
    $got = outcome(fn () => $lock->acquire(wait: 20));
    if (getmypid() !== $parent) {
        $fork->report([$got, holder('invoice') === getmypid(), $lock->release()]);
    }
    same("$how: it is the last of three", [$parent, $between->pid(), $fork->pid], $before);
    same('  the parent gets it first', [true, $parent, [$between->pid(), $fork->pid]], [$got, holder('invoice'), queued('invoice')]);
    $lock->release();
    same('  then the one between', ['got it', $between->pid(), [$fork->pid]], [$between->readLine(), holder('invoice'), queued('invoice')]);
    same('  then the child', [0, [true, true, true]], [dismiss($between), $fork->wait()]);
    $sender->wait();
    $lock = null;
    check('  nothing is left', eventually(fn () => left() === []), left());
}
?>
--EXPECT--
the child exits in it: the parent's place is its own: yes
  the parent gets it: yes
the child throws in it: the parent's place is its own: yes
  the parent gets it: yes
the child dies in it: the parent's place is its own: yes
  the parent gets it: yes
the child is killed in it: the parent's place is its own: yes
  the parent gets it: yes
the child locks something else: the parent's place is its own: yes
  the parent gets it: yes
the child drops the lock that waits: the parent's place is its own: yes
  the parent gets it: yes
nothing is left: yes
the child goes on with the wait: it is the last of three: yes
  the parent gets it first: yes
  then the one between: yes
  then the child: yes
  nothing is left: yes
the child begins a wait of its own: it is the last of three: yes
  the parent gets it first: yes
  then the one between: yes
  then the child: yes
  nothing is left: yes
