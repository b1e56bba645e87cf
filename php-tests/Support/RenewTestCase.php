<?php

namespace RedisLock\Tests\Support;

/** Tests of leases that keep themselves: processes that hold one, and looks at what it costs and how the key lives. */
abstract class RenewTestCase extends WaitTestCase
{
    private const SETUP = '
        // Works for as long as it may: when it last could believe so, and when it knew better.
        $believe = function (float $upTo = INF) use (&$lock): array {
            $now = 0.0;
            do {
                $last = $now;
                usleep(300);
                $now = hrtime(true) / 1e9;
            } while ($now < $upTo && $lock->isAcquired());
            return [$last, $now];
        };
        // All that the object says of its lease without asking the server.
        $look = fn (): array => [$lock->isAcquired(), $lock->isExpired(), $lock->getRemainingLifetime()];
    ';

    /** What $look gives of a lease that is over before its release. */
    protected const LOST = [false, true, 0.0];

    /** A process that holds the key, and whose lease is renewed. $options: more arguments of its lock, as PHP code. */
    protected function keeper(string $address, float $ttl, string $key = 'key', string $options = '', string $setup = ''): Contender
    {
        $keeper = $this->renewing($address, $ttl, $key, $options, $setup);
        self::assertSame('held', $keeper->ask('acquire'));

        return $keeper;
    }

    /** The same before it acquires. */
    protected function renewing(string $address, float $ttl, string $key = 'key', string $options = '', string $setup = ''): Contender
    {
        $lock = "\$lock = new RedisLock(\$key, (float) \$ttl, servers: \$address, renew: true, $options);";

        return $this->contender($address, $key, $ttl, $lock . self::SETUP . $setup);
    }

    /** @return array<string, int> */
    protected static function stats(Contender $contender): array
    {
        return (array) $contender->ask('run return RedisLock::stats();');
    }

    /** @return list<string> the names of its threads but for the one that runs PHP */
    protected static function threads(Contender $contender): array
    {
        return PhpProcess::threads($contender->process->pid());
    }

    /** It counts them right after it knows of them, and looks after them no longer. */
    protected static function assertHasLost(Contender $contender, int $leases): void
    {
        self::eventually(static fn () => self::stats($contender)['lost'] === $leases, "$leases lost");
        self::assertSame(0, self::stats($contender)['kept']);
    }

    /** A thread of its own opens a connection, and each has its name a moment after it began. */
    protected static function assertHasOneThread(Contender $contender): void
    {
        self::eventually(static fn () => self::threads($contender) === ['redis_lock'], 'one thread');
    }

    /** The least time, in seconds, that any of the keys had left until the condition held; negative if one was gone. */
    protected static function leastLeft(RedisServer $server, callable $until, string ...$keys): float
    {
        $least = INF;
        $script = 'local least = math.huge
            for _, key in ipairs(KEYS) do least = math.min(least, redis.call("PTTL", key)) end
            return least';
        do {
            $over = $until();
            $least = min($least, $server->command('EVAL', $script, count($keys), ...$keys) / 1_000);
            usleep(2_000);
        } while (!$over);

        return $least;
    }

    protected static function after(float $seconds): \Closure
    {
        $until = self::now() + $seconds;

        return static fn () => self::now() >= $until;
    }
}
