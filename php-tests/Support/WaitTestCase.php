<?php

namespace RedisLock\Tests\Support;

/** Tests of waiting: a server and processes of their own for each, and looks at the queue of a key. */
abstract class WaitTestCase extends LockTestCase
{
    /** @var list<RedisServer> */
    private array $servers = [];
    /** @var list<PhpProcess> */
    private array $processes = [];

    protected function tearDown(): void
    {
        foreach ($this->processes as $process) {
            $process->kill();
        }
        foreach ($this->servers as $server) {
            $server->stop();
        }
        [$this->processes, $this->servers] = [[], []];
        parent::tearDown();
    }

    /** A new server; what is in it, and who asks it, is of this test alone. */
    protected function server(array $config = [], bool $tls = false): RedisServer
    {
        return $this->servers[] = new RedisServer($config + ($tls ? ['tls-auth-clients' => 'no'] : []), $tls);
    }

    /** @param array<string, string|int|float> $ini */
    protected function contender(string $address, string $key = 'key', float $ttl = 30, string $setup = '', array $ini = []): Contender
    {
        $contender = new Contender($address, $key, $ttl, $setup, $ini);
        $this->processes[] = $contender->process;

        return $contender;
    }

    /** @return list<Contender> */
    protected function contenders(int $number, string $address, string $key = 'key'): array
    {
        return array_map(fn () => $this->contender($address, $key), range(1, $number));
    }

    /** One that holds the key. */
    protected function holder(string $address, string $key = 'key'): Contender
    {
        $holder = $this->contender($address, $key);
        self::assertSame('held', $holder->ask('acquire'));

        return $holder;
    }

    /**
     * Lets them wait for the key one after another, each once the one before stands in the queue.
     *
     * @param list<Contender> $contenders
     */
    protected static function lineUp(RedisServer $server, array $contenders, string $order = 'acquire 30', string $key = 'key'): void
    {
        foreach ($contenders as $contender) {
            $length = count(self::queue($server, $key));
            $contender->tell($order);
            self::eventuallyQueued($server, $length + 1, $key);
        }
    }

    protected static function eventuallyQueued(RedisServer $server, int $length, string $key = 'key'): void
    {
        self::eventually(static fn () => count(self::queue($server, $key)) === $length, "$length in the queue of $key");
    }

    /** @return list<int> the process ids of those who wait for a key (without braces), the first to be served first */
    protected static function queue(RedisServer $server, string $key = 'key'): array
    {
        $names = $server->command('KEYS', "$key{????}:redis_lock:queue");
        $entries = $names === [] ? [] : $server->command('ZRANGE', $names[0], 0, -1);

        // An entry ends with the token, and that with "pid:seconds".
        return array_map(static fn (string $entry) => (int) array_slice(explode(':', $entry), -2)[0], $entries);
    }

    /** @param list<Contender> $contenders */
    protected static function pids(array $contenders): array
    {
        return array_map(static fn (Contender $contender) => $contender->process->pid(), $contenders);
    }

    /** @return list<string> without that on which Sentinels meet */
    protected static function channels(RedisServer $server): array
    {
        return array_values(array_diff($server->command('PUBSUB', 'CHANNELS'), ['__sentinel__:hello']));
    }

    /** @return list<string> the ids of the connections that are subscribed to something now */
    protected static function subscribers(RedisServer $server): array
    {
        $subscribed = array_filter($server->clients(), static fn (array $client) => str_contains($client['flags'], 'P'));

        return array_column($subscribed, 'id');
    }

    /** How many errors the server answered with since the start, but for scripts that it did not know yet. */
    protected static function errors(RedisServer $server): int
    {
        preg_match_all('/^errorstat_(?!NOSCRIPT)\w+:count=(\d+)/m', $server->command('INFO', 'errorstats'), $counts);

        return array_sum($counts[1]);
    }

    protected static function assertNothingIsLeft(RedisServer $server): void
    {
        self::assertSame([], $server->command('KEYS', '*'), 'no key, and no queue');
        self::eventually(static fn () => self::channels($server) === [], 'no channel');
    }

    /** @param non-empty-list<float> $numbers */
    protected static function median(array $numbers): float
    {
        sort($numbers);

        return $numbers[intdiv(count($numbers), 2)];
    }

    /** Now, by the clock of the contenders. */
    protected static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
