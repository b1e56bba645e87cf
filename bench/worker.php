<?php

/*
 * A worker of the benchmark: php worker.php LIBRARY SOCKET
 *
 * It makes one lock of one library and keeps it, as a queue worker would. Then it says so, and reads orders, one a line, as JSON:
 * [what, [argument...]], and answers each with one line of JSON. Moments are those of hrtime(), which all processes share.
 */

require __DIR__ . '/shared.php';

ini_set('display_errors', 'stderr');
[, $library, $socket] = $argv;

/** Seconds after which a lock ends; Symfony's default. */
const TTL = 300;
/** Seconds that a waiter waits: nobody gives up here. */
const PATIENCE = 100;

$connect = static function () use ($socket): Redis {
    $redis = new Redis();
    $redis->connect($socket);

    return $redis;
};

/*
 * Each is [take it without waiting, wait for it, free it]. The libraries are used as their documentation shows, and
 * with their defaults: Symfony tries every 90 to 110 ms, Laravel every 250 ms. The poller tries every 10 ms.
 */
[$try, $wait, $release] = match ($library) {
    OURS, OTHER_BUILD, FENCED => (static function () use ($socket, $library): array {
        // The other build may be one that knows no fences.
        $options = $library === FENCED ? ['fencing' => true] : [];
        $lock = new RedisLock(...['key' => 'bench:ours', 'ttl' => TTL, 'servers' => "unix://$socket"] + $options);

        return [
            static fn () => $lock->acquire(),
            static fn () => $lock->acquire(PATIENCE),
            static fn () => $lock->release(),
        ];
    })(),
    PHPREDIS => (static function () use ($connect): array {
        $redis = $connect();
        $script = $redis->script('load', <<<'LUA'
            if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
            return 0
            LUA);
        $token = null;
        $try = static function () use ($redis, &$token): bool {
            $token = bin2hex(random_bytes(16));

            return $redis->set('bench:phpredis', $token, ['NX', 'PX' => TTL * 1000]);
        };
        $wait = static function () use ($try): bool {
            while (!$try()) {
                usleep(10_000);
            }

            return true;
        };

        return [$try, $wait, static function () use ($redis, $script, &$token): bool {
            return $redis->evalSha($script, ['bench:phpredis', $token], 1) === 1;
        }];
    })(),
    SYMFONY => (static function () use ($connect): array {
        require 'Symfony/Component/Lock/autoload.php';
        $store = new Symfony\Component\Lock\Store\RedisStore($connect());
        $lock = (new Symfony\Component\Lock\LockFactory($store))->createLock('bench:symfony');

        return [
            static fn () => $lock->acquire(),
            static fn () => $lock->acquire(true),
            static fn () => $lock->release() ?? true,
        ];
    })(),
    LARAVEL => (static function () use ($socket): array {
        require 'Illuminate/Cache/autoload.php';
        require_once 'Illuminate/Redis/autoload.php';
        $redis = new Illuminate\Redis\RedisManager(null, 'phpredis', ['default' => ['host' => $socket, 'port' => 0]]);
        $lock = (new Illuminate\Cache\RedisStore($redis))->lock('bench:laravel', TTL);

        return [
            static fn () => $lock->get(),
            static fn () => $lock->block(PATIENCE),
            static fn () => $lock->release(),
        ];
    })(),
};

$sleepUntil = static fn (int $moment) => usleep(max(0, intdiv($moment - hrtime(true), 1000)));
$sure = static fn (bool $done) => $done ?: throw new RuntimeException("A lock of \"$library\" failed.");

$orders = [
    'acquire' => $wait,
    'release' => $release,

    'doze' => static function (float $seconds): void {
        for ($i = 0; $i < $seconds * 20; $i++) {
            usleep(50_000);
        }
    },

    /* Nanoseconds that so many locks take that nobody else wants. */
    'pairs' => static function (int $locks) use ($try, $release, $sure): int {
        $start = hrtime(true);
        for ($i = 0; $i < $locks; $i++) {
            $sure($try());
            $release();
        }

        return hrtime(true) - $start;
    },

    /*
     * Takes, holds, frees and pauses for a random time, again and again between two moments; hold and the longest
     * pause in µs. Answers how many it got in that time, and all that it waited, in µs.
     */
    'turns' => static function (int $start, int $end, int $hold, int $pause) use ($wait, $release, $sure, $sleepUntil): array {
        $sleepUntil($start);
        $got = 0;
        $waits = [];
        while (true) {
            if ($pause > 0) {
                usleep(mt_rand(0, $pause));
            }
            $asked = hrtime(true);
            if ($asked >= $end) {
                return [$got, $waits];
            }
            $sure($wait());
            $taken = hrtime(true);
            usleep($hold);
            $sure($release());
            $got += (int) ($taken < $end);
            $waits[] = intdiv($taken - $asked, 1000);
        }
    },

    /*
     * The same for two workers that pass the lock to and fro: each holds it until the other has waited a while.
     * In the middle of that, after a calm of the same length as before the release, it measures a bare round trip.
     * Answers, of each turn, the moments: asked, taken, freed, and the length of the trip.
     */
    'hand-overs' => static function (int $start, int $end, int $calm) use ($wait, $release, $sure, $sleepUntil, $socket): array {
        $bare = stream_socket_client("unix://$socket");
        $sleepUntil($start);
        $turns = [];
        do {
            $asked = hrtime(true);
            $sure($wait());
            $taken = hrtime(true);
            usleep($calm);
            $sent = hrtime(true);
            fwrite($bare, "PING\r\n");
            fgets($bare);
            $trip = hrtime(true) - $sent;
            usleep($calm);
            $freed = hrtime(true);
            $sure($release());
            $turns[] = [$asked, $taken, $freed, $trip];
            usleep(2_000); // the other one is to have the machine and the server to itself
        } while ($freed < $end);
        fclose($bare);

        return $turns;
    },
];

echo "true\n"; // ready
while (($line = fgets(STDIN)) !== false) {
    [$what, $arguments] = json_decode($line, true);
    echo json_encode($orders[$what](...$arguments)), "\n";
}
