--TEST--
Storm: signals whose handlers throw, lock, fork and exit, at any moment of any call; nobody loses a lock
--DESCRIPTION--
What the other tests do at chosen moments happens here at random ones, for some seconds, beside another process that
wants the same keys. A key can only pass to a second holder by a release that is not its holder's own, so it is enough
that no holder ever finds its lock gone.
--INI--
; A handler that throws within "new" leaves PHP itself memory to report, in a debug build.
report_memleaks=0
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
set_error_handler(function (int $level, string $message) use (&$wrong) {
    $wrong[] = $message;

    return true;
});
class Stop extends Exception
{
}

$work = function (int $choice, string $key) use (&$wrong): void {
    $lock = new RedisLock($key, ttl: 60);
    $right = match ($choice) {
        0 => !$lock->acquire(wait: 0.02)
            || ($lock->refresh() && $lock->isAcquired() && $lock->getHolder()['pid'] === getmypid() && $lock->release()),
        1 => $lock->synchronized(fn () => usleep(200) ?? true, wait: 10),
        2 => $lock->synchronized(fn () => !(new RedisLock($key, ttl: 60))->acquire(wait: 0.01), wait: 10),
        3 => (function () use ($key) {
            $fiber = new Fiber(fn () => (new RedisLock($key, ttl: 60))->synchronized(Fiber::suspend(...), wait: 10));
            $fiber->start();
            $fiber->resume(true);

            return $fiber->getReturn();
        })(),
        4 => (function () use ($key) {
            // Dropped while it holds.
            $fiber = new Fiber(fn () => (new RedisLock($key, ttl: 60))->synchronized(Fiber::suspend(...), wait: 10));
            $fiber->start();

            return true;
        })(),
    };
    $right || $wrong[] = "work $choice";
};
$keys = ['one', 'two'];

// The other one, whom no signal disturbs.
$rival = Fork::run(function () use ($work, $keys, &$wrong) {
    for ($until = now() + 6; now() < $until; usleep(500)) {
        $work(mt_rand(0, 4), $keys[mt_rand(0, 1)]);
    }

    return $wrong;
});

pcntl_async_signals(true);
$handled = ['throw' => 0, 'lock' => 0, 'exit' => 0, 'come back' => 0, 'nothing' => 0];
$children = [];
// Set where an exception is caught.
$mayThrow = false;
$parent = getmypid();
pcntl_signal(SIGUSR1, function () use (&$handled, &$children, &$wrong, &$mayThrow) {
    $what = array_rand($handled);
    $handled[$what]++;
    if ($what === 'throw' && $mayThrow) {
        $mayThrow = false;
        throw new Stop();
    } elseif ($what === 'lock') {
        $lock = new RedisLock('of the handler ' . getmypid(), ttl: 60);
        $lock->acquire() && $lock->refresh() && $lock->release() || $wrong[] = 'handler';
    } elseif ($what === 'exit' || $what === 'come back') {
        $child = pcntl_fork();
        if ($child !== 0) {
            $children[] = $child;
        } elseif ($what === 'exit') {
            exit(0);
        } else {
            // Goes on with what its parent was doing; ends as soon as it is out of it.
            pcntl_signal(SIGUSR1, SIG_IGN);
        }
    }
});
$sender = signals(...array_map(fn () => [mt_rand(300, 4000) / 1e6, SIGUSR1], range(1, 2500)));
$rounds = $stopped = 0;
for ($until = now() + 5; getmypid() === $parent && now() < $until; $rounds++) {
    try {
        $mayThrow = true;
        $work(mt_rand(0, 4), $keys[mt_rand(0, 1)]);
        $mayThrow = false;
    } catch (Stop) {
        $stopped++;
    } catch (Throwable $thrown) {
        $wrong[] = $thrown::class . ": {$thrown->getMessage()}";
    }
}
pcntl_signal(SIGUSR1, SIG_IGN);
if (getmypid() !== $parent) {
    // What a call says that its parent began is no matter here.
    exit(0);
}
$sender->kill();

foreach ($children as $child) {
    pcntl_waitpid($child, $status);
    if ($status !== 0) {
        $wrong[] = "a child ended with $status";
    }
}
same('nothing went wrong', null, $wrong);
same('nor for the other one', null, $rival->wait());
check('much happened', $rounds > 100 && $stopped > 10 && min($handled) > 10, [$rounds, $stopped, $handled]);
same('nothing is left', [], keys());
?>
--EXPECT--
nothing went wrong: yes
nor for the other one: yes
much happened: yes
nothing is left: yes
