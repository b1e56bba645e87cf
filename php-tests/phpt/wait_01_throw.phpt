--TEST--
Wait: an exception of a handler ends it; its place in the queue, and an offer of that moment, are the next one's
--DESCRIPTION--
Who leaves without a word would be offered the key later on, or keep it from those behind it until the offer lapses.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
pcntl_async_signals(true);
$holder = new RedisLock('invoice', ttl: 60);
$lock = new RedisLock('invoice', ttl: 60);

foreach ([
    'acquire()' => fn () => $lock->acquire(wait: 20),
    'synchronized()' => fn () => $lock->synchronized(fn () => print("never to be called\n"), wait: 20),
    'a wait without end' => fn () => $lock->acquire(wait: INF),
] as $name => $wait) {
    foreach (['while the key is held' => false, 'while the key is offered to it' => true] as $when => $offered) {
        $holder->acquire();
        pcntl_signal(SIGUSR1, function () use ($holder, $offered, &$next, &$seen) {
            $next = waiter('invoice');
            $seen = [queued('invoice')];
            if ($offered) {
                $holder->release();
                $seen[] = queued('invoice');
            }
            throw new DomainException('stop');
        });
        $sender = signalWhenQueued('invoice');
        same("$name, $when: throws it", 'DomainException: stop', outcome($wait));
        [$own, $other] = [getmypid(), $next->pid()];
        same('  it was the first of two', $offered ? [[$own, $other], [$other]] : [[$own, $other]], $seen);
        same('  the other one is where it was', $offered ? [$other, []] : [$own, [$other]], [holder('invoice'), queued('invoice')]);
        check('  and alone is listened to', count(channels()) === 1, channels());
        same('  nothing is acquired', [false, false, null], [$lock->isAcquired(), $lock->isExpired(), $lock->getToken()]);
        $offered || $holder->release();
        same('  it gets it', 'got it', $next->readLine());
        same('  and ends well', [0, true], [dismiss($next), $sender->wait()]);
        same('  nothing is left', [], left());
    }
}

$partner = holdUntil('invoice', fn () => queued('invoice') !== []);
same('the object can wait again', true, $lock->acquire(wait: 20));
same('and release', [true, true], [$partner->wait(), $lock->release()]);
same('one connection was enough to be told', 1, count(subscribers()));
?>
--EXPECT--
acquire(), while the key is held: throws it: yes
  it was the first of two: yes
  the other one is where it was: yes
  and alone is listened to: yes
  nothing is acquired: yes
  it gets it: yes
  and ends well: yes
  nothing is left: yes
acquire(), while the key is offered to it: throws it: yes
  it was the first of two: yes
  the other one is where it was: yes
  and alone is listened to: yes
  nothing is acquired: yes
  it gets it: yes
  and ends well: yes
  nothing is left: yes
synchronized(), while the key is held: throws it: yes
  it was the first of two: yes
  the other one is where it was: yes
  and alone is listened to: yes
  nothing is acquired: yes
  it gets it: yes
  and ends well: yes
  nothing is left: yes
synchronized(), while the key is offered to it: throws it: yes
  it was the first of two: yes
  the other one is where it was: yes
  and alone is listened to: yes
  nothing is acquired: yes
  it gets it: yes
  and ends well: yes
  nothing is left: yes
a wait without end, while the key is held: throws it: yes
  it was the first of two: yes
  the other one is where it was: yes
  and alone is listened to: yes
  nothing is acquired: yes
  it gets it: yes
  and ends well: yes
  nothing is left: yes
a wait without end, while the key is offered to it: throws it: yes
  it was the first of two: yes
  the other one is where it was: yes
  and alone is listened to: yes
  nothing is acquired: yes
  it gets it: yes
  and ends well: yes
  nothing is left: yes
the object can wait again: yes
and release: yes
one connection was enough to be told: yes
