<?php

// What a thread of threads.c does: threads.php NUMBER. And what is to be so when all have ended: threads.php end
//
// Threads share one keeper. It renews what each holds, interrupts the one whose lock is lost and no other, and lets go of
// what a thread leaves behind that ends about when its lock does.

use RedisLock\Tests\Support\RawClient;

require __DIR__ . '/../phpt/interrupt.inc';

$redis = new RawClient(ini_get('redis_lock.servers'));

/** Works for so long, in PHP and outside of it, and tells whether the lock was held all the time. */
function work(RedisLock $lock, float $seconds): bool
{
    for ($until = now() + $seconds; now() < $until; usleep(10_000)) {
        spin(0.02);
        if (!$lock->isAcquired()) {
            return false;
        }
    }

    return true;
}

/** Whether a lock that is lost meanwhile is thrown into the callable of its synchronized(), once, and ends that as well. */
function isThrown(RedisLock $lock, callable $lose): bool
{
    $thrown = 0;
    try {
        $lock->synchronized(function () use ($lose, &$thrown) {
            $lose();
            try {
                spin(60);
            } catch (RedisLock\LockLostException) {
                $thrown++;
            }
            spin(0.1);
        });
    } catch (RedisLock\LockLostException) {
        return $thrown === 1;
    }

    return false;
}

// Each gives true. Those that end their thread come no further than that.
$deeds = [
    'is renewed' => fn (string $key) => ($lock = new RedisLock($key, ttl: 4, renew: true, interrupt: true))
        ->synchronized(fn () => work($lock, 3) && $lock->getRemainingLifetime() > 1.2),
    'is not concerned' => fn (string $key) => ($lock = new RedisLock($key, ttl: 60, renew: false, interrupt: true))
        ->synchronized(fn () => work($lock, 1)),
    'runs out' => fn (string $key) => isThrown(doomed($key, 1.0), fn () => null),
    'is deleted' => function (string $key) use ($redis) {
        $lock = new RedisLock($key, ttl: 2, renew: true, interrupt: true);

        return isThrown($lock, fn () => $redis->command('DEL', $key));
    },
    'ends with its lock' => function (string $key) use ($redis) {
        $redis->command('INCR', 'ends with its lock: done');
        doomed($key, 1.0)->synchronized(fn () => usleep(mt_rand(960_000, 1_010_000)) ?? exit);
    },
    // Nothing of it is unwound after a fatal error, and its lock is lost when the thread has ended.
    'ends with a suspended fiber' => function (string $key) use ($redis) {
        $redis->command('INCR', 'ends with a suspended fiber: done');
        (new Fiber(fn () => doomed($key, 1.0)->synchronized(Fiber::suspend(...))))->start();
        ini_set('display_errors', '0');
        trigger_error('the end', E_USER_ERROR);
    },
    'ends with locks that are renewed' => function (string $key) use ($redis) {
        $redis->command('INCR', 'ends with locks that are renewed: done');
        $GLOBALS['left'] = new RedisLock("$key, left", ttl: 1, renew: true, autoRelease: false);
        $GLOBALS['left']->acquire();
        (new RedisLock($key, ttl: 1, renew: true, interrupt: true))->synchronized(function () {
            usleep(200_000);
            ini_set('display_errors', '0');
            trigger_error('the end', E_USER_ERROR);
        });
    },
];

if ($argv[1] !== 'end') {
    ini_set('display_errors', 'stderr');
    $deed = array_keys($deeds)[$argv[1] % count($deeds)];
    $redis->command('INCR', "$deed: begun");
    $seen = outcome(fn () => $deeds[$deed]("key $argv[1]"));
    if ($seen === true) {
        $redis->command('INCR', "$deed: done");
    } elseif (!str_starts_with($deed, 'ends') || !str_starts_with($seen, 'RedisLock\LockLostException')) {
        $redis->command('RPUSH', 'wrong', "$argv[1], $deed: " . json_encode($seen));
    }
    exit;
}

same('nothing went wrong', [], $redis->command('LRANGE', 'wrong', 0, -1));
$did = [];
foreach (array_keys($deeds) as $deed) {
    $did[$deed] = (int) $redis->command('GET', "$deed: done");
    check("$deed: each of them", $did[$deed] > 0 && $did[$deed] === (int) $redis->command('GET', "$deed: begun"), $did[$deed]);
}
$stats = RedisLock::stats();
$sure = $did['runs out'] + $did['is deleted'];
$most = $sure + $did['ends with its lock'];
check('each loss was counted', $stats['lost'] >= $sure && $stats['lost'] <= $most, [$stats, $sure, $most]);
check('and each interrupt', $stats['interrupts'] >= $sure && $stats['interrupts'] <= $most, [$stats, $sure, $most]);
same('the keeper has nothing left', 0, $stats['kept']);
$threads = fn () => array_map(static fn (string $file) => trim(@file_get_contents($file)), glob('/proc/self/task/*/comm'));
check('it is one thread, and all others have ended', eventually(fn () => count($threads()) === 2)
    && array_count_values($threads())['redis_lock'] === 1, $threads());
check('no key is left', eventually(fn () => $redis->command('KEYS', 'key *') === []), $redis->command('KEYS', '*'));
$clients = fn () => substr_count($redis->command('CLIENT', 'LIST'), "\n");
check('and no connection but the one of the keeper, and ours', eventually(fn () => $clients() === 2), $clients());
same('it goes on', true, $deeds['is renewed']('key of the end'));
