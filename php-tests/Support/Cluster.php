<?php

namespace RedisLock\Tests\Support;

/**
 * Three primaries with a replica each, on free ports of 127.0.0.1. Who is primary, and of which slots, changes: it is
 * asked when it is needed. A node that was killed comes back with heal().
 */
final class Cluster
{
    private const SLOTS = 16384;

    /** @var non-empty-list<RedisServer> */
    public readonly array $nodes;
    /** @var list<string> their names in the cluster */
    private array $ids;

    private string $version;

    private static ?self $shared = null;

    /** @param array<string, string|int|list<string>> $config lines of redis.conf of all nodes */
    public function __construct(array $config = [])
    {
        $nodes = [];
        foreach (range(0, 5) as $i) {
            $nodes[] = new RedisServer($config + [
                'port' => self::freePort(),
                'cluster-enabled' => 'yes',
                'cluster-node-timeout' => 1_000,
                'cluster-replica-validity-factor' => 0,
                'repl-diskless-sync' => 'yes',
                'repl-ping-replica-period' => 1,
            ]);
        }
        $this->nodes = $nodes;
        $this->version = $nodes[0]->version();
        $this->ids = array_map(static fn (RedisServer $node) => $node->command('CLUSTER', 'MYID'), $nodes);
        foreach ($nodes as $i => $node) {
            $node->command('CLUSTER', 'SET-CONFIG-EPOCH', $i + 1);
            if ($i < 3) {
                $node->command('CLUSTER', 'ADDSLOTS', ...range($i * 5462, min($i * 5462 + 5461, self::SLOTS - 1)));
            }
            if ($i > 0) {
                $node->command('CLUSTER', 'MEET', '127.0.0.1', $nodes[0]->port);
            }
        }
        foreach ([0, 1, 2] as $i) {
            self::eventually(fn () => self::done(fn () => $nodes[$i + 3]->command('CLUSTER', 'REPLICATE', $this->ids[$i])), 'they know each other');
        }
        $this->eventuallyWell();
    }

    /** One for all tests: they leave it whole, though not as it was. */
    public static function shared(): self
    {
        return self::$shared ??= new self();
    }

    /** redis+cluster://…; $login is "user:password" or ":password". */
    public function address(string $login = '', RedisServer ...$seeds): string
    {
        $hosts = array_map(static fn (RedisServer $node) => "127.0.0.1:$node->port", $seeds ?: $this->nodes);

        return 'redis+cluster://' . ($login === '' ? '' : "$login@") . implode(',', $hosts);
    }

    /** Brings back those that were killed or stopped, and waits until all is well. */
    public function heal(): void
    {
        foreach ($this->nodes as $node) {
            $node->isRunning() ? $node->kill(SIGCONT) : $node->start();
        }
        $this->eventuallyWell();
    }

    /** Sets a line of redis.conf in all nodes that run. */
    public function configure(string $name, string|int $value): void
    {
        foreach ($this->running() as $node) {
            $node->command('CONFIG', 'SET', $name, $value);
        }
    }

    /** Empties it. */
    public function flush(): void
    {
        foreach ($this->primaries() as $primary) {
            $primary->flush();
        }
    }

    /** @return list<string> the keys of all nodes */
    public function keys(): array
    {
        return array_merge(...array_map(static fn (RedisServer $node) => $node->command('KEYS', '*'), $this->primaries()));
    }

    /** How many stand in the key's queue. */
    public function waiting(string $key): int
    {
        $queues = preg_grep('/:redis_lock:queue$/', $this->keys());
        $ours = array_filter($queues, static fn (string $queue) => str_starts_with($queue, $key));

        return $ours === [] ? 0 : $this->command($key, 'ZCARD', array_values($ours)[0]);
    }

    /** @return list<string> the channels that are heard on any node */
    public function channels(): array
    {
        $channels = [];
        foreach ($this->nodes as $node) {
            array_push($channels, ...$node->command('PUBSUB', 'CHANNELS'));
            if (self::hasShardedChannels()) {
                array_push($channels, ...$node->command('PUBSUB', 'SHARDCHANNELS'));
            }
        }

        return $channels;
    }

    public static function hasShardedChannels(): bool
    {
        return !str_starts_with(self::shared()->version, '6.');
    }

    public function slot(string $key): int
    {
        return $this->running()[0]->command('CLUSTER', 'KEYSLOT', $key);
    }

    /** A key that is served by this node, or by any. */
    public function key(?RedisServer $node = null): string
    {
        do {
            $key = 'test:' . bin2hex(random_bytes(6));
        } while ($node !== null && $this->serving($key) !== $node);

        return $key;
    }

    /** @return list<RedisServer> those that serve slots, by the view of a node that runs */
    public function primaries(): array
    {
        $primaries = [];
        foreach ($this->running()[0]->command('CLUSTER', 'SLOTS') as [, , [, $port]]) {
            $primaries[$port] = $this->at($port);
        }

        return array_values($primaries);
    }

    /** Who serves the key. */
    public function serving(string $key): RedisServer
    {
        $slot = $this->slot($key);
        foreach ($this->running()[0]->command('CLUSTER', 'SLOTS') as [$first, $last, [, $port]]) {
            if ($slot >= $first && $slot <= $last) {
                return $this->at($port);
            }
        }
        throw new \RuntimeException("Nobody serves $key.");
    }

    /** The replica of a primary. */
    public function replica(RedisServer $primary): RedisServer
    {
        foreach ($this->running()[0]->command('CLUSTER', 'SLOTS') as [, , [, $port], [, $replica]]) {
            if ($port === $primary->port) {
                return $this->at($replica);
            }
        }
        throw new \RuntimeException('It is no primary.');
    }

    /** Another primary than the one that serves the key. */
    public function other(string $key): RedisServer
    {
        $serving = $this->serving($key);

        return array_values(array_filter($this->primaries(), static fn (RedisServer $node) => $node !== $serving))[0];
    }

    /** One command to the node that serves the key. */
    public function command(string $key, string|int|float ...$words): mixed
    {
        return $this->serving($key)->command(...$words);
    }

    /** The key's slot is about to be moved: from now on new keys of it are made at its new place. */
    public function beginMove(string $key, RedisServer $to): RedisServer
    {
        [$slot, $from] = [$this->slot($key), $this->serving($key)];
        $to->command('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $this->id($from));
        $from->command('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $this->id($to));

        return $from;
    }

    /** Moves these keys of a slot that is about to be moved, or all that there are. */
    public function moveKeys(RedisServer $from, RedisServer $to, string ...$keys): void
    {
        if ($keys !== []) {
            $from->command('MIGRATE', '127.0.0.1', $to->port, '', 0, 5_000, 'KEYS', ...$keys);
        }
    }

    /** Moves what is left of the slot, and then it is another node's. */
    public function endMove(string $key, RedisServer $from, RedisServer $to): void
    {
        $slot = $this->slot($key);
        $this->moveKeys($from, $to, ...$from->command('CLUSTER', 'GETKEYSINSLOT', $slot, 1_000));
        foreach ([$to, $from, ...$this->primaries()] as $node) {
            $node->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $this->id($to));
        }
        // All are to know, also those that are asked by the next test.
        self::eventually(fn () => $this->agree(), 'all know where the slot is');
    }

    public function move(string $key, RedisServer $to): void
    {
        $this->endMove($key, $this->beginMove($key, $to), $to);
    }

    /** Kills the primary. @return RedisServer the replica, once it has taken over and all nodes know */
    public function failOver(RedisServer $primary): RedisServer
    {
        $replica = $this->replica($primary);
        $primary->kill();
        $this->eventuallyTakenOver($replica);

        return $replica;
    }

    public function eventuallyTakenOver(RedisServer $replica): void
    {
        self::eventually(fn () => in_array($replica, $this->primaries(), true) && $this->agree(), 'the replica takes over');
    }

    /** Waits until the replica has all that its primary has. */
    public function eventuallyReplicated(RedisServer $primary): void
    {
        $connection = $primary->connect();
        // What counts is all that came before the connection's last command.
        $connection->command('PING');
        self::eventually(static fn () => $connection->command('WAIT', 1, 100) === 1, 'replication');
    }

    private function id(RedisServer $node): string
    {
        return $this->ids[array_search($node, $this->nodes, true)];
    }

    private function at(int $port): RedisServer
    {
        foreach ($this->nodes as $node) {
            if ($node->port === $port) {
                return $node;
            }
        }
        throw new \RuntimeException("No node is at port $port.");
    }

    /** @return non-empty-list<RedisServer> */
    private function running(): array
    {
        return array_values(array_filter($this->nodes, static fn (RedisServer $node) => $node->isRunning()));
    }

    /** Whether all that run see the same primaries, of all slots. */
    private function agree(): bool
    {
        $views = [];
        foreach ($this->running() as $node) {
            $view = array_map(static fn (array $range) => [$range[0], $range[1], $range[2][1]], $node->command('CLUSTER', 'SLOTS'));
            sort($view);
            $views[serialize($view)] = array_sum(array_map(static fn (array $range) => $range[1] - $range[0] + 1, $view));
            if (!str_contains($node->command('CLUSTER', 'INFO'), 'cluster_state:ok')) {
                return false;
            }
        }

        return count($views) === 1 && array_values($views)[0] === self::SLOTS;
    }

    private function eventuallyWell(): void
    {
        self::eventually(fn () => $this->agree() && count($this->primaries()) === 3, 'all agree');
        foreach ($this->primaries() as $primary) {
            self::eventually(static fn () => $primary->info('connected_slaves') === 1, 'each primary has a replica');
            self::eventually(static fn () => str_contains($primary->command('INFO', 'replication'), 'state=online'), 'which has all');
        }
        self::eventually(fn () => array_sum(array_map(static fn (array $range) => count($range) - 3,
            $this->nodes[0]->command('CLUSTER', 'SLOTS'))) >= 3, 'all know the replicas');
    }

    /** A free port, with the one beside it on which the nodes talk to each other. */
    private static function freePort(): int
    {
        do {
            $port = RedisServer::freePort();
            $bus = $port > 55_000 ? false : @stream_socket_server('tcp://127.0.0.1:' . ($port + 10_000));
        } while ($bus === false);
        fclose($bus);

        return $port;
    }

    private static function done(callable $action): bool
    {
        try {
            $action();

            return true;
        } catch (RawError) {
            return false;
        }
    }

    private static function eventually(callable $condition, string $what): void
    {
        for ($until = microtime(true) + 30; !$condition(); usleep(5_000)) {
            if (microtime(true) > $until) {
                throw new \RuntimeException("It did not come in 30 s: $what");
            }
        }
    }
}
