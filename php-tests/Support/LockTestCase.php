<?php

namespace RedisLock\Tests\Support;

use PHPUnit\Framework\TestCase;

/** What most tests need: servers to choose from, settings that go back, and bounds for time. */
abstract class LockTestCase extends TestCase
{
    /** Seconds that a busy machine may add to a bounded call. */
    protected const SLACK = 1.5;

    /** @var array<string, string> what they were before the test */
    private array $settings = [];

    protected function setUp(): void
    {
        RedisServer::flushShared();
    }

    protected function tearDown(): void
    {
        array_map(ini_set(...), array_keys($this->settings), $this->settings);
        $this->settings = [];
    }

    /** Every way to a store; what holds for one holds for all. */
    public static function backends(): array
    {
        return ['TCP' => ['tcp'], 'Unix socket' => ['unix'], 'TLS' => ['tls'], 'memory' => ['memory']];
    }

    /** The same without the one inside the process. */
    public static function transports(): array
    {
        return array_diff_key(self::backends(), ['memory' => 0]);
    }

    /** The address of a shared server. */
    protected static function address(string $backend): string
    {
        return match ($backend) {
            'tcp' => RedisServer::shared()->tcp(),
            'unix' => RedisServer::shared()->unix(),
            'tls' => RedisServer::sharedTls()->tls(),
            'memory' => 'memory://',
        };
    }

    /** A key that no other test uses. */
    protected static function key(): string
    {
        return 'test:' . bin2hex(random_bytes(6));
    }

    /** Sets redis_lock.$name until the test ends. */
    protected function setting(string $name, string|int|float $value): void
    {
        $before = ini_set("redis_lock.$name", (string) $value);
        self::assertNotFalse($before, "redis_lock.$name can be set");
        $this->settings += ["redis_lock.$name" => $before];
    }

    protected static function caught(callable $call): \Throwable
    {
        try {
            $call();
        } catch (\Throwable $e) {
            return $e;
        }
        self::fail('Nothing was thrown.');
    }

    /** @return array{mixed, list<string>} what $call returned, and the warnings that it raised */
    protected static function withWarnings(callable $call): array
    {
        $warnings = [];
        set_error_handler(static function (int $level, string $message) use (&$warnings): bool {
            self::assertSame(E_WARNING, $level, $message);
            $warnings[] = $message;

            return true;
        });
        try {
            return [$call(), $warnings];
        } finally {
            restore_error_handler();
        }
    }

    /** @return array{mixed, float} what $call returned, and the seconds that it took */
    protected static function timed(callable $call): array
    {
        $start = hrtime(true);
        $value = $call();

        return [$value, (hrtime(true) - $start) / 1e9];
    }

    /** Runs $call, which must end within wait + connect_timeout + 2 × command_timeout, however the server behaves. */
    protected static function withinDeadline(callable $call, float $wait = 0.0): mixed
    {
        [$outcome, $seconds] = self::timed(static function () use ($call) {
            try {
                return [$call(), null];
            } catch (\Throwable $e) {
                return [null, $e];
            }
        });
        $bound = $wait + (float) ini_get('redis_lock.connect_timeout')
            + 2 * (float) ini_get('redis_lock.command_timeout') + self::SLACK;
        self::assertLessThan($bound, $seconds, 'The call must keep its deadline.');

        return $outcome[1] === null ? $outcome[0] : throw $outcome[1];
    }

    /** Waits for something that must come soon. */
    protected static function eventually(callable $condition, string $what, float $timeout = 20.0): void
    {
        for ($until = microtime(true) + $timeout; !$condition(); usleep(2_000)) {
            if (microtime(true) > $until) {
                self::fail("It did not come in $timeout s: $what");
            }
        }
    }
}
