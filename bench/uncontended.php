<?php

/*
 * What a lock costs that nobody contends: acquire and release over a Unix socket, beside phpredis doing the same two
 * commands by hand, beside a lock with a fence, and on request beside another build of the extension. Short rounds
 * take turns, so that what else the machine does hits all alike; each gives a ratio, and the median of the ratios is
 * the result. New processes take over now and then: where the system lays a process in memory makes it a little faster
 * or slower.
 *
 * Usage: php uncontended.php SOCKET [SECONDS]
 */

require __DIR__ . '/shared.php';

const LOCKS = 100; // a round
const GENERATIONS = 10;

[$socket, $seconds] = [$argv[1], (float) ($argv[2] ?? 12)];
$libraries = [...builds(), FENCED, PHPREDIS];
$times = array_fill_keys($libraries, []);
$round = 0;

for ($generation = 0; $generation < GENERATIONS; $generation++) {
    $workers = array_map(static fn (string $library) => new Worker($library, $socket), $libraries);
    foreach ($workers as $worker) {
        together([$worker], 'pairs', LOCKS);
    }
    $before = requests($socket);
    together([$workers[0]], 'pairs', LOCKS);
    $requests = (requests($socket) - $before) / LOCKS;

    $end = hrtime(true) + $seconds * 1e9 / GENERATIONS;
    do {
        foreach (inTurn($workers, $round++) as $worker) {
            $times[$worker->library][] = together([$worker], 'pairs', LOCKS)[0] / LOCKS / 1e3;
        }
    } while (hrtime(true) < $end);
}

printf("Uncontended: acquire + release, %d rounds of %d each, in %d processes\n", $round, LOCKS, GENERATIONS);
foreach ($times as $library => $values) {
    tell("$library, time", $values, 'µs');
}
tell('time, ours / phpredis', ratios($times[OURS], $times[PHPREDIS]), most: 0.95);
tell('time, with a fence / without', ratios($times[FENCED], $times[OURS]), most: 1.35);
if (isset($times[OTHER_BUILD])) {
    tell('rate, ours / other build', ratios($times[OTHER_BUILD], $times[OURS]), least: 0.97);
}
tell('requests of ours, each acquire + release', $requests, most: 2);
