<?php

/*
 * What a quorum costs beside one server: acquire and release of a lock that nobody contends, over TCP on this machine, in
 * short rounds that take turns. Of five nodes, one is silent in the end: what the first call costs that meets it, and
 * what all later ones do.
 *
 * Usage: php quorum.php SOCKET [SECONDS]
 */

use RedisLock\Tests\Support\RedisServer;

require __DIR__ . '/shared.php';
require __DIR__ . '/../php-tests/bootstrap.php';

const LOCKS = 100; // a round

$seconds = (float) ($argv[2] ?? 12);
$servers = array_map(static fn () => new RedisServer(), range(1, 5));
$addresses = array_map(static fn (RedisServer $server) => $server->tcp(), $servers);
$timeout = (float) ini_get('redis_lock.command_timeout') * 1e6;

$locks = [
    'one server' => new RedisLock('bench', servers: $addresses[0]),
    'quorum of 3' => new RedisLock('bench', servers: array_slice($addresses, 0, 3)),
    'quorum of 5' => new RedisLock('bench', servers: $addresses),
];

/** Microseconds that one acquire and release takes. */
function pairs(RedisLock $lock, int $count): float
{
    $start = hrtime(true);
    for ($i = 0; $i < $count; $i++) {
        $lock->acquire() && $lock->release() || throw new RuntimeException('The lock was not had.');
    }

    return (hrtime(true) - $start) / $count / 1e3;
}

/** @param array<string, RedisLock> $locks @return array<string, list<float>> */
function rounds(array $locks, float $seconds): array
{
    $times = array_fill_keys(array_keys($locks), []);
    array_map(static fn (RedisLock $lock) => pairs($lock, LOCKS), $locks);
    $end = hrtime(true) + $seconds * 1e9;
    for ($round = 0; hrtime(true) < $end; $round++) {
        foreach (inTurn(array_keys($locks), $round) as $name) {
            $times[$name][] = pairs($locks[$name], LOCKS);
        }
    }

    return $times;
}

$healthy = rounds($locks, $seconds / 2);
printf("Quorum: acquire + release, %d rounds of %d each\n", count($healthy['one server']), LOCKS);
foreach ($healthy as $name => $values) {
    tell("$name, time", $values, 'µs');
}
tell('time, quorum of 3 / one server', ratios($healthy['quorum of 3'], $healthy['one server']), most: 1.6);

$servers[4]->kill(SIGSTOP);
$first = pairs($locks['quorum of 5'], 1);
tell('one of 5 silent, first call', $first, 'µs', most: $timeout);
$after = rounds(['one server' => $locks['one server'], 'quorum of 5' => $locks['quorum of 5']], $seconds / 2);
$servers[4]->kill(SIGCONT);
tell('one of 5 silent, time', $after['quorum of 5'], 'µs');
// One server tells how much slower the machine was meanwhile.
$drift = quantile($after['one server'], .5) / quantile($healthy['one server'], .5);
tell('the same / healthy', quantile($after['quorum of 5'], .5) / quantile($healthy['quorum of 5'], .5) / $drift, most: 1.3);
