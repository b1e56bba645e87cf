<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\RedisServer;
use RedisLockFactory;

/** Addresses of servers: what is understood, and what is refused before anything is sent. */
final class AddressTest extends LockTestCase
{
    public static function understood(): array
    {
        $addresses = ['redis://127.0.0.1', 'redis://localhost:6379', 'redis://127.0.0.1:1/0', 'redis://127.0.0.1:1/15', 'redis://[::1]:6379',
            'redis://:p@127.0.0.1', 'redis://u:p@127.0.0.1:1/2', 'redis://u:p%40%2F%3A@127.0.0.1', 'rediss://127.0.0.1',
            'rediss://u:p@127.0.0.1:1/2?cafile=/a', 'rediss://127.0.0.1?cert=/c&key=/k', 'rediss://127.0.0.1?cafile=/a&cert=/c&key=/k',
            'unix:///path', 'unix:///path?db=2', 'unix:///path?db=2&user=u&password=p', 'unix:///a%20path', 'memory://', 'redis+sentinel://127.0.0.1/main',
            'redis+sentinel://u:p%40@127.0.0.1:1,sentinel.internal,[::1]:2/main/3?sentinel_user=u&sentinel_password=p%26',
            'redis+cluster://127.0.0.1', 'redis+cluster://u:p%40@127.0.0.1:1,cluster.internal,[::1]:2/'];

        return array_combine($addresses, array_map(static fn (string $address) => [$address], $addresses));
    }

    /** @dataProvider understood */
    #[DataProvider('understood')]
    public function testUnderstood(string $address): void
    {
        self::assertSame('key', (new RedisLock('key', servers: $address))->getKey());
        self::assertSame('key', (new RedisLockFactory($address))->createLock('key')->getKey());
        $this->setting('servers', $address);
        self::assertSame('key', RedisLock::restore('key', 'token')->getKey());
    }

    public static function refused(): array
    {
        $addresses = ['', ' ', 'nonsense', '127.0.0.1', '127.0.0.1:6379', 'localhost', 'tcp://127.0.0.1:6379', 'http://u:hidden@127.0.0.1',
            'redis:', 'redis://', 'redis:///2', 'redis://:hidden@', 'redis://u:hidden@127.0.0.1:99999', 'redis://u:hidden@127.0.0.1:port',
            'redis://u:hidden@127.0.0.1/x', 'redis://u:hidden@127.0.0.1/-1', 'redis://u:hidden@127.0.0.1/99999999999999999999',
            'redis://u:hidden@127.0.0.1?timeout=1', 'redis://u:hidden@127.0.0.1?cafile=/a', 'redis://u:hid%zz@[::1', 'rediss://',
            'rediss://u:hidden@127.0.0.1?cert=/c', 'rediss://u:hidden@127.0.0.1?key=/k', 'rediss://u:hidden@127.0.0.1?insecure=1',
            'rediss://u:hidden@127.0.0.1?verify=0', 'unix://', 'unix://relative', 'unix:///path?db=x', 'unix:///path?db=-1&password=hidden',
            'unix:///path?passwort=hidden', 'memory://user:hidden@x', 'redis+sentinel://:hidden@127.0.0.1', 'redis+sentinel://u@127.0.0.1/main',
            'redis+sentinel://:hidden@127.0.0.1,/main', 'redis+sentinel://:hidden@127.0.0.1:x/main', 'redis+sentinel://:hidden@127.0.0.1/main/x',
            'redis+sentinel://:hidden@127.0.0.1/ma in', 'redis+sentinel://127.0.0.1/main?password=hidden', 'redis+sentinel://127.0.0.1/main?sentinel_user=u',
            'redis+cluster://:hidden@', 'redis+cluster://u@127.0.0.1', 'redis+cluster://:hidden@127.0.0.1,,', 'redis+cluster://:hidden@127.0.0.1/1',
            'redis+cluster://:hidden@127.0.0.1?cafile=/a', 'rediss+cluster://:hidden@127.0.0.1',
            "redis://:hidden@127.0.0.1:6379\n", "unix:///path\0", 'redis+sentinel://:hidden@127.0.0.1,:hidden@127.0.0.2/main',
            'redis://127.0.0.1,redis://127.0.0.2', 'redis://127.0.0.1, 127.0.0.2', "\xff",
            str_repeat('redis://', 10_000)];
        $rows = [];
        foreach ($addresses as $address) {
            // In quotes, for the name of a row must not be empty.
            $rows['"' . addcslashes(substr($address, 0, 50), "\0..\37\177..\377") . '"'] = [$address];
        }

        return $rows;
    }

    /** @dataProvider refused */
    #[DataProvider('refused')]
    public function testRefused(string $address): void
    {
        foreach ([
            'RedisLock::__construct(): Argument #10 ($servers) ' => static fn () => new RedisLock('key', servers: $address),
            'RedisLock::restore(): Argument #11 ($servers) ' => static fn () => RedisLock::restore('key', 'token', servers: $address),
            'RedisLockFactory::__construct(): Argument #1 ($servers) ' => static fn () => new RedisLockFactory($address),
        ] as $start => $call) {
            $e = self::caught($call);
            self::assertSame(\ValueError::class, $e::class, $e->getMessage());
            self::assertStringStartsWith($start, $e->getMessage());
            self::assertStringNotContainsString('hidden', $e->getMessage());
            self::assertLessThan(500, strlen($e->getMessage()));
        }
    }

    public function testIpv6(): void
    {
        if (@stream_socket_server('tcp://[::1]:0') === false) {
            // A machine without IPv6: the address is understood, and leads nowhere.
            $e = self::caught(static fn () => (new RedisLock('key', servers: 'redis://[::1]:6379'))->acquire());
            self::assertInstanceOf(\RedisLock\ConnectionException::class, $e);
            self::assertStringContainsString('redis://[::1]:6379', $e->getMessage());

            return;
        }
        $server = new RedisServer(['bind' => '127.0.0.1 ::1']);
        $lock = new RedisLock('key', servers: "redis://[::1]:$server->port");
        self::assertTrue($lock->acquire());
        $server->kill();
        $e = self::caught(static fn () => $lock->release());
        self::assertStringContainsString("redis://[::1]:$server->port", $e->getMessage());
    }

    public function testAHostWithSeveralAddresses(): void
    {
        // localhost is often ::1 and 127.0.0.1; the server listens on one of them.
        $server = RedisServer::shared();
        self::assertTrue((new RedisLock('key', servers: "redis://localhost:$server->port"))->acquire());
    }
}
