<?php

namespace RedisLock\Tests\Support;

use RedisLock;

/** Tests of a quorum: servers of its own that know nothing of each other, and looks at all of them. */
abstract class QuorumTestCase extends RenewTestCase
{
    /** @var list<RedisServer> */
    protected array $nodes = [];
    /** @var list<TcpProxy> */
    private array $proxies = [];

    protected function tearDown(): void
    {
        foreach ($this->proxies as $proxy) {
            $proxy->stop();
        }
        [$this->proxies, $this->nodes] = [[], []];
        parent::tearDown();
    }

    /** @return list<string> the addresses of so many new servers, which are $this->nodes from then on */
    protected function quorum(int $nodes = 3, array $config = []): array
    {
        $this->nodes = array_map(fn () => $this->server($config), range(1, $nodes));

        return array_map(static fn (RedisServer $node) => $node->tcp(), $this->nodes);
    }

    /** The same behind proxies. @return list<TcpProxy> */
    protected function proxiedQuorum(int $nodes = 3, array $config = []): array
    {
        $this->quorum($nodes, $config);

        return $this->proxies = array_map(static fn (RedisServer $node) => new TcpProxy($node->port), $this->nodes);
    }

    /** @param list<RedisServer|TcpProxy> $nodes @return list<string> */
    protected static function addresses(array $nodes): array
    {
        return array_map(static fn ($node) => $node->tcp(), array_values($nodes));
    }

    /** @return array<int, ?string> what each of these nodes, or all, has under the key */
    protected function values(string $key = 'key', ?array $nodes = null): array
    {
        return array_map(static fn (RedisServer $node) => $node->command('GET', $key), $nodes ?? $this->nodes);
    }

    /** The call is over when a majority has answered: the others have it a moment later. */
    protected function assertOnAll(RedisLock|string $holder, string $key = 'key', ?array $nodes = null): void
    {
        $token = $holder instanceof RedisLock ? $holder->getToken() : $holder;
        self::assertNotNull($token);
        $expected = array_map(static fn () => $token, $nodes ?? $this->nodes);
        self::eventually(fn () => $this->values($key, $nodes) === $expected, 'the token on all nodes');
    }

    /** No key, but those of fences. */
    protected function assertNoKeys(?array $nodes = null): void
    {
        foreach ($nodes ?? $this->nodes as $number => $node) {
            $keys = [];
            $isEmpty = static function () use ($node, &$keys): bool {
                $keys = array_filter($node->command('KEYS', '*'), static fn (string $key) => !str_ends_with($key, ':fence'));

                return $keys === [];
            };
            try {
                self::eventually($isEmpty, '', 5.0);
            } catch (\Exception) {
                self::fail("node $number still has " . implode(', ', $keys));
            }
        }
    }

    /** No key on any node, and nobody who listens. */
    protected function assertNothingOnAnyNode(?array $nodes = null): void
    {
        $this->assertNoKeys($nodes);
        foreach ($nodes ?? $this->nodes as $node) {
            self::eventually(static fn () => self::channels($node) === [], 'no channel');
        }
    }

    /** What a plain Redlock client does. Its token where it has the lock, and null where somebody else has. */
    protected function redlock(string $key = 'key', int $ttl = 30_000): ?string
    {
        $token = bin2hex(random_bytes(20));
        $won = array_filter($this->nodes, static fn (RedisServer $node) => $node->command('SET', $key, $token, 'NX', 'PX', $ttl) === 'OK');
        if (count($won) >= intdiv(count($this->nodes), 2) + 1) {
            return $token;
        }
        $this->redunlock($token, $key);

        return null;
    }

    protected function redunlock(string $token, string $key = 'key'): void
    {
        foreach ($this->nodes as $node) {
            if ($node->command('GET', $key) === $token) {
                $node->command('DEL', $key);
            }
        }
    }

    /** @param list<float> $seconds @return float the median of what so many acquires with their releases take */
    protected static function pace(RedisLock $lock, int $times = 50): float
    {
        $seconds = [];
        for ($i = 0; $i < $times; $i++) {
            [$all, $seconds[]] = self::timed(static fn () => $lock->acquire() && $lock->release());
            self::assertTrue($all);
        }

        return self::median($seconds);
    }
}
