<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\RedisServer;

/** A worker that runs for days: neither memory nor sockets grow. */
final class EnduranceTest extends LockTestCase
{
    /** Resident memory may differ by so much between two looks: the allocator's moods, not a leak per call. */
    private const MOODS_KB = 768;

    private const LOOKS = '
        $resident = function (): int {
            preg_match("/^VmRSS:\s+(\d+)/m", file_get_contents("/proc/self/status"), $match);
            return (int) $match[1];
        };
        $sockets = fn (): int => count(array_filter(
            scandir("/proc/self/fd"),
            fn (string $fd) => str_starts_with((string) @readlink("/proc/self/fd/$fd"), "socket:"),
        ));
        $inherited = $sockets();
    ';

    public static function loads(): array
    {
        $new = 'new RedisLock("key", servers: $argv[1])';

        return [
            'one object' => [100_000, "\$lock = $new;", '$lock->acquire(); $lock->release();'],
            'many objects' => [20_000, '', "\$lock = $new; \$lock->acquire();"],
            'synchronized' => [20_000, "\$lock = $new;", '$lock->synchronized(fn () => str_repeat("value", 500), 1);'],
            'callables that throw' => [20_000, "\$lock = $new;", 'try { $lock->synchronized(fn () => throw new Exception()); } catch (Exception) {}'],
            'lost locks' => [10_000, "\$lock = $new; \$operator = $new;", '
                try {
                    $lock->synchronized(function () use ($operator) { $operator->forceRelease(); return str_repeat("value", 500); });
                    exit(9);
                } catch (RedisLock\LockLostException $e) {
                }'],
            'busy keys' => [20_000, "\$holder = $new; \$holder->acquire(); \$lock = $new;", '$lock->acquire(); $lock->getHolder(); $lock->release();'],
            'many keys' => [20_000, '', '$lock = new RedisLock("key" . random_int(0, PHP_INT_MAX), servers: $argv[1], prefix: "p:"); $lock->acquire();'],
            'handles' => [20_000, '', '$lock = RedisLock::restore("key", "token", servers: $argv[1]); $lock->acquire(); $lock->refresh(9); $lock->release();'],
            'wrong arguments' => [20_000, "\$lock = $new; \$lock->acquire(); \$lock->release();", '
                $calls = [fn () => $lock->acquire(-1), fn () => $lock->acquire([]), fn () => new RedisLock("")];
                foreach ([...$calls, fn () => $lock->synchronized("nope")] as $call) {
                    try { $call(); } catch (Error) {}
                }'],
            'servers that are down' => [10_000, "\$lock = $new; \$lock->acquire(); \$lock->release();", '
                try {
                    (new RedisLock("key", servers: "redis://127.0.0.1:1"))->acquire();
                    exit(9);
                } catch (RedisLock\ConnectionException $e) {
                }'],
            'a factory' => [20_000, '$factory = new RedisLockFactory($argv[1], "p:");', '$factory->createLock("key", 5)->acquire();'],
        ];
    }

    /** @dataProvider loads */
    #[DataProvider('loads')]
    public function testResidentMemoryIsFlatAndOneSocketIsEnough(int $times, string $before, string $step): void
    {
        $server = RedisServer::shared();
        $connections = $server->info('total_connections_received');
        $process = PhpProcess::code(self::LOOKS . $before . '
            for ($i = 1; $i <= (int) $argv[2]; $i++) {
                ' . $step . '
                if ($i === 1_000) {
                    $early = $resident();
                }
            }
            $late = $resident();
            echo json_encode(["grown" => $late - $early, "sockets" => $sockets() - $inherited]);
        ', [$server->unix(), $times]);
        self::assertSame(0, $process->wait(600), $process->output() . $process->errorOutput());
        $seen = json_decode($process->output(), true);

        self::assertLessThan(self::MOODS_KB, $seen['grown'], 'kilobytes more than after the first 1,000');
        self::assertSame(1, $seen['sockets']);
        self::assertSame($connections + 1, $server->info('total_connections_received'));
    }

    public function testTheStoreInsideTheProcessForgetsWhatExpired(): void
    {
        $process = PhpProcess::code(self::LOOKS . '
            for ($i = 1; $i <= 300_000; $i++) {
                $lock = new RedisLock("key$i", 0.05, autoRelease: false, servers: "memory://");
                try {
                    $lock->acquire();
                } catch (RedisLock\ConnectionException) {
                    // A busy machine stopped us for longer than the ttl.
                }
                if ($i === 20_000) {
                    $early = $resident();
                }
            }
            echo $resident() - $early;
        ');
        self::assertSame(0, $process->wait(600), $process->errorOutput());
        self::assertLessThan(12_000, (int) $process->output(), 'kilobytes; all of the keys would take 40,000 and more');
    }
}
