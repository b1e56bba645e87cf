<?php

/*
 * What a lock costs that nobody contends: acquire and release over a Unix socket, beside phpredis doing the same two
 * commands by hand, on one server, in one run. Short rounds take turns, so that what else the machine does hits both
 * alike; each pair of rounds gives a ratio, and the median of the ratios is the result.
 *
 * Usage: php uncontended.php SOCKET [ROUNDS [LOCKS A ROUND]]
 */

[$socket, $rounds, $locks] = [$argv[1], (int) ($argv[2] ?? 400), (int) ($argv[3] ?? 250)];

$lock = new RedisLock('bench:ours', servers: "unix://$socket");
$ours = static function () use ($lock, $locks): int {
    $start = hrtime(true);
    for ($i = 0; $i < $locks; $i++) {
        $lock->acquire();
        $lock->release();
    }

    return hrtime(true) - $start;
};

$redis = new Redis();
$redis->connect($socket);
$release = $redis->script('load', <<<'LUA'
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0
    LUA);
$byHand = static function () use ($redis, $release, $locks): int {
    $start = hrtime(true);
    for ($i = 0; $i < $locks; $i++) {
        $token = bin2hex(random_bytes(16));
        $redis->set('bench:byhand', $token, ['NX', 'PX' => 30000]);
        $redis->evalSha($release, ['bench:byhand', $token], 1);
    }

    return hrtime(true) - $start;
};

$ours();
$byHand();
$requests = $redis->info('stats')['total_reads_processed'];
$ours();
$requests = $redis->info('stats')['total_reads_processed'] - $requests - 1;

$times = ['ours' => [], 'by hand' => []];
$ratios = [];
for ($round = 0; $round < $rounds; $round++) {
    [$a, $b] = $round % 2 ? [$ours(), $byHand()] : array_reverse([$byHand(), $ours()]);
    $times['ours'][] = $a / $locks / 1e3;
    $times['by hand'][] = $b / $locks / 1e3;
    $ratios[] = $a / $b;
}

/** The value below which a share of all values is. */
$quantile = static function (array $values, float $share): float {
    sort($values);

    return $values[(int) (($share * (count($values) - 1)))];
};

printf("acquire + release over a Unix socket, %d pairs of rounds of %d\n", $rounds, $locks);
foreach ($times as $name => $values) {
    printf("  %-8s median %6.1f µs   (10 %%: %.1f, 90 %%: %.1f)\n", $name, $quantile($values, .5), $quantile($values, .1), $quantile($values, .9));
}
printf("  ratio    median %6.3f      (10 %%: %.3f, 90 %%: %.3f)\n", $quantile($ratios, .5), $quantile($ratios, .1), $quantile($ratios, .9));
printf("  requests of ours, each acquire + release: %.3f\n", $requests / $locks);
