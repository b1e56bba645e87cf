<?php

/*
 * What the keeper costs: a thousand renewed leases of 10 s, taken over a third of their ttl, so that as few as can be
 * are due together; and how long after a loss its exception comes into a loop, with and without the JIT.
 *
 * Usage: php keeper.php SOCKET [SECONDS | losses]
 */

require __DIR__ . '/shared.php';

const LEASES = 1000;
const TTL = 10.0;
const LOSSES = 100;

/** @return array{float, int} of the keeper's thread: CPU time in ms, and how often it fell asleep */
function thread(): array
{
    foreach (glob('/proc/self/task/*') as $task) {
        if (trim(file_get_contents("$task/comm")) === 'redis_lock') {
            preg_match('/^voluntary_ctxt_switches:\s*(\d+)/m', file_get_contents("$task/status"), $sleeps);

            return [(int) file_get_contents("$task/schedstat") / 1e6, (int) $sleeps[1]];
        }
    }
    throw new RuntimeException('There is no thread.');
}

/** Loses LOSSES locks in a loop. @return array<string, list<int|float>> for each "late", in ms, and "rounds" of the loop */
function losses(string $socket): array
{
    $losses = ['late' => [], 'rounds' => []];
    while (count($losses['late']) < LOSSES) {
        $lock = new RedisLock('lost', ttl: 0.1, interrupt: true, servers: "unix://$socket");
        try {
            $lock->synchronized(function () use ($lock, &$losses): never {
                $end = hrtime(true) + $lock->getRemainingLifetime() * 1e9;
                try {
                    for ($i = 0;; $i++) {
                    }
                } finally {
                    $losses['late'][] = (hrtime(true) - $end) / 1e6;
                    $losses['rounds'][] = $i;
                }
            });
        } catch (RedisLock\LockLostException) {
        } catch (RedisLock\ConnectionException $e) {
            // On a busy machine the answer may take longer than the lock lives.
            str_contains($e->getMessage(), 'used up the lease') || throw $e;
        }
    }

    return $losses;
}

/** In a process of its own, so that it can have another JIT. It runs this file: what php -r runs is not compiled. */
function lossesWith(string $socket, string $jit): array
{
    $options = ['-d', 'opcache.enable_cli=1', '-d', 'opcache.jit_buffer_size=32M', '-d', "opcache.jit=$jit",
        // A file that is new is not compiled otherwise.
        '-d', 'opcache.file_update_protection=0'];
    $process = proc_open([PHP_BINARY, ...$options, __FILE__, $socket, 'losses'], [1 => ['pipe', 'w']], $pipes);
    $losses = json_decode(stream_get_contents($pipes[1]), true, flags: JSON_THROW_ON_ERROR);
    proc_close($process);

    return $losses;
}

if (($argv[2] ?? '') === 'losses') {
    echo json_encode(losses($argv[1]));
    exit;
}

[$socket, $seconds] = [$argv[1], (float) ($argv[2] ?? 60)];
printf("Keeper: %d renewed leases of %s s, %s s\n", LEASES, TTL, $seconds);

$redis = new Redis();
$redis->connect($socket);
$before = [count(glob('/proc/self/task/*')), (int) $redis->info('clients')['connected_clients']];
foreach (range(1, LEASES) as $number) {
    $locks[] = $lock = new RedisLock("kept$number", ttl: TTL, renew: true, servers: "unix://$socket");
    $lock->acquire() || throw new RuntimeException('It is held already.');
    usleep((int) (TTL / 3 / LEASES * 1e6));
}
sleep(1);
[$cpu, $sleeps] = thread();
$least = INF;
for ($start = microtime(true); microtime(true) < $start + $seconds; usleep(200_000)) {
    foreach (range(1, LEASES, 50) as $number) {
        $least = min($least, $redis->pttl("kept$number") / 1e3 / TTL);
    }
}
$took = microtime(true) - $start;
[$cpu, $sleeps] = [thread()[0] - $cpu, thread()[1] - $sleeps];
$after = [count(glob('/proc/self/task/*')), (int) $redis->info('clients')['connected_clients']];

tell('CPU time of the thread', $cpu / $took / 10, '% of a core', most: 0.2);
tell('wake-ups a second', $sleeps / $took, most: 20);
tell('threads more', $after[0] - $before[0], most: 1);
tell('connections more, with that of the locks', $after[1] - $before[1], most: 2);
tell('least that was left of a ttl', $least * 100, '%', least: 100 / 3);
tell('leases lost', RedisLock::stats()['lost'], most: 0);
unset($locks, $lock);

[$interpreted, $compiled] = [lossesWith($socket, 'off'), lossesWith($socket, 'tracing')];
// By the best of each, which others on the machine disturbed least.
$faster = max($compiled['rounds']) / max($interpreted['rounds']);
$faster >= 3 || throw new RuntimeException("The loop was not compiled: with the JIT it ran $faster times as fast.");
foreach (['without the JIT' => $interpreted, 'with the JIT' => $compiled] as $how => ['late' => $late]) {
    tell("losses that were thrown, $how", count($late), least: LOSSES);
    tell('  loss to exception, p50', quantile($late, 0.5), 'ms');
    tell('  loss to exception, p99', quantile($late, 0.99), 'ms', most: 50);
}
