--TEST--
Interrupt: storm of nested locks, fibers, generators, handlers and forks, in which locks are lost at random
--DESCRIPTION--
What the other tests do at chosen moments happens here at any moment, for some seconds, in compiled code too. A lock that
was lost must have said so, by its exception or in a warning, one that was not must not have, and stats() counted the
same; and everything that cleans up came to its end.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
class Guard
{
    public static int $begun = 0;
    public static int $ended = 0;

    public function __destruct()
    {
        self::$begun++;
        spin(mt_rand(0, 5) / 1000);
        self::$ended++;
    }
}
$cleaned = [0, 0];
function numbers(array &$cleaned): Generator
{
    try {
        for ($i = 0; $i < 5; $i++) {
            yield $i;
            spin(0.002);
        }
    } finally {
        $cleaned[0]++;
        spin(0.002);
        $cleaned[1]++;
    }
}
/** Whether it says that a lock was lost, which is noted then. */
function note(string $message): bool
{
    global $told;
    preg_match('/The lock "(.*?)" was lost before (its holder had|the exception that ended its holder)/', $message, $match);
    if ($match !== []) {
        $told[$match[1]] = true;
    }

    return $match !== [];
}
pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function () use (&$handled) {
    $handled++;
});
$ways = [
    fn () => spin(0.03),
    fn () => usleep(mt_rand(0, 30_000)),
    function () use (&$cleaned) {
        $guard = new Guard();
        foreach (numbers($cleaned) as $number) {
            spin(0.003);
            if ($number === 3 && mt_rand(0, 1)) {
                break;
            }
        }
    },
    function () use (&$cleaned) {
        try {
            spin(mt_rand(0, 30) / 1000);
        } finally {
            $cleaned[0]++;
            new Guard();
            $cleaned[1]++;
        }
    },
    function () use (&$work) {
        $fiber = new Fiber(fn () => Fiber::suspend() ?? spin(0.01));
        $fiber->start();
        $work(1);
        $fiber->resume();
    },
    function () use (&$work) {
        (new Fiber($work))->start(1);
    },
    function () use (&$work) {
        $work(1);
    },
    function () use (&$work) {
        try {
            $work(1);
        } catch (Throwable $swallowed) {
            note($swallowed->getMessage());
        }
        spin(0.005);
    },
    fn () => throw new DomainException('of the callable'),
    function () use (&$children) {
        $child = pcntl_fork();
        if ($child === 0) {
            // Its own, which it keeps.
            exit((new RedisLock('of ' . getmypid(), ttl: 60, renew: true, interrupt: true))->synchronized(fn () => spin(0.005) ?? 7));
        }
        $children[] = $child;
    },
];
$wrong = $told = $over = [];
$locks = $lost = $thrown = 0;
$work = function (int $depth = 0) use (&$work, &$ways, &$wrong, &$over, &$locks, &$lost, &$thrown): void {
    $lock = new RedisLock('key ' . ++$locks, ttl: mt_rand(20, 80) / 1000, renew: false, interrupt: true);
    $way = $ways[mt_rand(0, count($ways) - ($depth < 3 ? 1 : 7))];
    $returned = $began = $came = false;
    $e = null;
    try {
        $lock->synchronized(function () use ($way, &$returned, &$began) {
            $began = true;
            $way();
            $returned = true;
        }, wait: 5);
        $came = true;
    } catch (RedisLock\LockLostException $e) {
        $lost++;
        if (str_contains($e->getMessage(), '"' . $lock->getKey() . '"') && !$lock->isExpired()) {
            $wrong[] = "lost, but not over: {$e->getMessage()}";
        }
        if ($depth > 0 && !str_contains($e->getMessage(), '"' . $lock->getKey() . '"')) {
            throw $e;
        }
    } catch (DomainException) {
        $thrown++;
    } catch (RedisLock\ConnectionException $e) {
        // A short ttl may be over before the answer is there, on a busy machine.
        str_contains($e->getMessage(), 'used up the lease') || $wrong[] = $e->getMessage();
    } finally {
        // Here, where the loss of an outer lock does not come between.
        note((string) $e?->getMessage());
        if ($lock->isExpired()) {
            $over[$lock->getKey()] = true;
        }
    }
    if ($came && !$returned) {
        $wrong[] = 'it ended well, but its callable did not';
    }
};
set_error_handler(function (int $level, string $message) use (&$wrong) {
    note($message) || $wrong[] = $message;

    return true;
});
$rain = rain(SIGUSR1, 0.003, getmypid());
$handled = $rounds = 0;
$much = function () use (&$rounds, &$lost, &$thrown, &$handled): bool {
    return $rounds > 10 && $lost > 5 && $thrown > 0 && $handled > 20 && RedisLock::stats()['interrupts'] > 5;
};
// On a busy machine much takes longer.
for ($start = now(); now() < $start + 1.5 || (!$much() && now() < $start + 20); $rounds++) {
    $work();
}
$rain->kill();
foreach ($children ?? [] as $child) {
    pcntl_waitpid($child, $status);
    pcntl_wifexited($status) && pcntl_wexitstatus($status) === 7 || $wrong[] = "a child ended with $status";
}
$stats = RedisLock::stats();
same('nothing went wrong', [], $wrong);
ksort($over);
ksort($told);
same('who was lost has said so, and nobody else', array_keys($over), array_keys($told));
same('stats() counts the same', count($told), $stats['lost']);
same('what cleans up came to its end', [Guard::$begun, $cleaned[0]], [Guard::$ended, $cleaned[1]]);
$seen = [$rounds, $lost, $thrown, $handled, $stats];
check('much happened', $much(), $seen);
check('no more was thrown than was lost', $stats['interrupts'] <= $stats['lost'], $stats);
same('nothing is looked after any more', 0, $stats['kept']);
PHP);
?>
--EXPECT--
nothing went wrong: yes
who was lost has said so, and nobody else: yes
stats() counts the same: yes
what cleans up came to its end: yes
much happened: yes
no more was thrown than was lost: yes
nothing is looked after any more: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
