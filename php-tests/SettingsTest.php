<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\LockTimeoutException;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\TcpProxy;
use RedisLockFactory;

/** Every setting has its effect, and a wrong one is named. */
final class SettingsTest extends LockTestCase
{
    private const DEFAULTS = [
        'command_timeout' => '1', 'connect_timeout' => '1', 'identify' => '1', 'poll_max' => '0.25', 'poll_min' => '0.01',
        'prefix' => '', 'renew' => '0', 'servers' => 'redis://127.0.0.1:6379', 'ttl' => '30', 'wait' => '10',
    ];

    public function testDefaultsAndAccess(): void
    {
        $settings = ini_get_all('redis_lock');
        $defaults = [];
        foreach ($settings as $name => $setting) {
            self::assertSame(INI_ALL, $setting['access'], $name);
            $defaults[substr($name, strlen('redis_lock.'))] = $setting['global_value'];
        }
        ksort($defaults);
        self::assertSame(self::DEFAULTS, $defaults);
    }

    public function testFromTheCommandLine(): void
    {
        $process = PhpProcess::code(
            '$lock = new RedisLock("key"); $lock->acquire(); echo json_encode($lock->getHolder());',
            ini: ['redis_lock.servers' => 'memory://', 'redis_lock.ttl' => 7, 'redis_lock.identify' => 0],
        );
        self::assertSame(0, $process->wait());
        $holder = json_decode($process->output(), true);
        self::assertNull($holder['pid']);
        self::assertEqualsWithDelta(7, $holder['ttl'], 0.9);
    }

    public function testServersAndPrefix(): void
    {
        $server = RedisServer::shared();
        $this->setting('servers', $server->tcp());
        $this->setting('prefix', 'app:');
        $lock = new RedisLock('key');
        // A lock keeps what it was made with.
        $this->setting('servers', 'redis://127.0.0.1:' . RedisServer::freePort());
        $this->setting('prefix', 'other:');
        self::assertTrue($lock->acquire());
        self::assertSame('key', $lock->getKey());
        self::assertSame(['app:key'], $server->command('KEYS', '*'));
        self::assertTrue($lock->release());

        // An argument is stronger, also an empty one.
        $lock = new RedisLock('key', servers: $server->tcp(), prefix: '');
        self::assertTrue($lock->acquire());
        self::assertSame(['key'], $server->command('KEYS', '*'));
        self::assertTrue($lock->release());

        $this->setting('servers', $server->unix());
        self::assertTrue(RedisLock::restore('key', 'token', autoRelease: false)->acquire());
        self::assertTrue((new RedisLockFactory())->createLock('made', autoRelease: false)->acquire());
        $keys = $server->command('KEYS', '*');
        sort($keys);
        self::assertSame(['other:key', 'other:made'], $keys);
    }

    public function testAPrefixIsBytes(): void
    {
        foreach (["a\0b", "\xff\xfe", ' ', "\n"] as $prefix) {
            $this->setting('prefix', $prefix);
            RedisServer::shared()->flush();
            $lock = new RedisLock('key', servers: RedisServer::shared()->tcp());
            self::assertTrue($lock->acquire());
            self::assertSame(["{$prefix}key"], RedisServer::shared()->command('KEYS', '*'));
        }
    }

    public function testTtl(): void
    {
        $this->setting('ttl', '4.5');
        $lock = new RedisLock('key', servers: 'memory://');
        $lock->acquire();
        self::assertEqualsWithDelta(4.2, $lock->getHolder()['ttl'], 0.31);
        self::assertTrue($lock->refresh(20));
        self::assertTrue($lock->refresh());
        self::assertLessThanOrEqual(4.5, $lock->getHolder()['ttl']);
    }

    public function testWait(): void
    {
        $this->setting('wait', '0.3');
        $holder = new RedisLock('key', servers: 'memory://');
        $holder->acquire();
        $lock = new RedisLock('key', servers: 'memory://');
        [$e, $seconds] = self::timed(static fn () => self::caught(static fn () => $lock->synchronized('time')));
        self::assertInstanceOf(LockTimeoutException::class, $e);
        self::assertGreaterThanOrEqual(0.299, $seconds);
        self::assertLessThan(0.3 + self::SLACK, $seconds);

        // acquire() has its own default.
        [$acquired, $seconds] = self::timed(static fn () => $lock->acquire());
        self::assertFalse($acquired);
        self::assertLessThan(0.3, $seconds);
    }

    public function testCommandTimeout(): void
    {
        $this->setting('connect_timeout', 20);
        $this->setting('command_timeout', '0.2');
        $server = new RedisServer();
        $lock = new RedisLock('key', servers: $server->tcp());
        self::assertTrue($lock->acquire());
        $server->kill(SIGSTOP);
        [$e, $seconds] = self::timed(static fn () => self::caught(static fn () => $lock->getHolder()));
        self::assertInstanceOf(ConnectionException::class, $e);
        self::assertGreaterThanOrEqual(0.199, $seconds);
        self::assertLessThan(0.4 + self::SLACK, $seconds);
    }

    public function testCommandTimeoutLeavesRoomForASlowServer(): void
    {
        $this->setting('command_timeout', 10);
        $proxy = new TcpProxy(RedisServer::shared()->port);
        $proxy->delay(1.2);
        $lock = new RedisLock('key', servers: $proxy->tcp());
        self::assertTrue($lock->acquire());
        // The time on the way is not ours: validity runs from before the request was sent.
        self::assertLessThan(30 - 1.2, $lock->getRemainingLifetime());
    }

    public function testConnectTimeout(): void
    {
        $this->setting('connect_timeout', '0.2');
        $this->setting('command_timeout', 20);
        // A listener whose queue is full takes no connection.
        $listener = stream_socket_server('tcp://127.0.0.1:0', $code, $reason, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN,
            stream_context_create(['socket' => ['backlog' => 1]]));
        $address = stream_socket_get_name($listener, false);
        $fillers = [];
        for ($i = 0; $i < 8; $i++) {
            $fillers[] = stream_socket_client("tcp://$address", $code, $reason, 1, STREAM_CLIENT_ASYNC_CONNECT);
        }
        $lock = new RedisLock('key', servers: "redis://$address");
        [$e, $seconds] = self::timed(static fn () => self::caught(static fn () => $lock->acquire()));
        self::assertInstanceOf(ConnectionException::class, $e);
        self::assertStringContainsString($address, $e->getMessage());
        self::assertGreaterThanOrEqual(0.199, $seconds);
        self::assertLessThan(0.4 + self::SLACK, $seconds);
    }

    public function testPolling(): void
    {
        $tries = function (string $least, string $most): int {
            $this->setting('poll_min', $least);
            $this->setting('poll_max', $most);
            $server = RedisServer::shared();
            $server->command('SET', 'key', 'another');
            $lock = new RedisLock('key', servers: $server->tcp());
            $server->resetCommandCounts();
            self::assertFalse($lock->acquire(1.0));
            $counts = $server->commandCounts();

            return $counts['evalsha'] ?? 0;
        };
        $often = $tries('0.01', '0.01');
        $seldom = $tries('0.4', '0.4');
        self::assertGreaterThan(20, $often);
        self::assertLessThanOrEqual(200, $often);
        self::assertLessThanOrEqual(8, $seldom);
    }

    public function testAPauseEndsWithTheHoldersLease(): void
    {
        $this->setting('poll_min', '10');
        $this->setting('poll_max', '10');
        $key = self::key();
        $holder = new RedisLock($key, 0.5, autoRelease: false, servers: RedisServer::shared()->tcp());
        $holder->acquire();
        [$acquired, $seconds] = self::timed(
            static fn () => (new RedisLock($key, servers: RedisServer::shared()->tcp()))->acquire(20),
        );
        self::assertTrue($acquired);
        self::assertLessThan(0.5 + self::SLACK, $seconds);
    }

    public function testIdentify(): void
    {
        foreach (['0' => false, 'off' => false, '' => false, '1' => true, 'On' => true] as $value => $identified) {
            $this->setting('identify', $value);
            $lock = new RedisLock(self::key(), servers: 'memory://');
            $lock->acquire();
            self::assertMatchesRegularExpression($identified ? '/^[0-9a-f]{32}:.+:\d+:\d+$/D' : '/^[0-9a-f]{32}:$/D', $lock->getToken());
            $holder = $lock->getHolder();
            self::assertSame($identified ? getmypid() : null, $holder['pid']);
            self::assertSame($identified ? gethostname() : null, $holder['host']);
            self::assertSame($identified, is_int($holder['since']));
            self::assertIsFloat($holder['ttl']);
        }
    }

    public static function wrongSettings(): array
    {
        $rows = [];
        foreach ([
            'ttl' => ['0', '-1', '0.001', 'abc', '', 'INF', 'NAN', '1e300'],
            'connect_timeout' => ['0', '-1', 'abc', '', 'INF', 'NAN'],
            'command_timeout' => ['0', '-1', 'abc', '', 'INF', 'NAN'],
            'poll_min' => ['0', '-1', 'abc', '', 'NAN'],
            'poll_max' => ['0', '-1', 'abc', '', 'NAN', '0.001'],
            'servers' => ['', 'nowhere', 'http://user:hidden@host', 'redis://user:hidden@host:99999', 'redis+sentinel://:hidden@a'],
        ] as $name => $values) {
            foreach ($values as $value) {
                $rows["$name=$value"] = [$name, $value];
            }
        }

        return $rows;
    }

    /** @dataProvider wrongSettings */
    #[DataProvider('wrongSettings')]
    public function testAWrongSettingIsNamedWhenALockIsMade(string $name, string $value): void
    {
        $this->setting($name, $value);
        foreach ([
            static fn () => new RedisLock('key'),
            static fn () => RedisLock::restore('key', 'token'),
            static fn () => (new RedisLockFactory())->createLock('key'),
        ] as $call) {
            $e = self::caught($call);
            self::assertSame(\ValueError::class, $e::class, $e->getMessage());
            self::assertStringContainsString("redis_lock.$name", $e->getMessage());
            self::assertStringNotContainsString('hidden', $e->getMessage());
        }
    }

    public function testASettingRenews(): void
    {
        $kept = static fn (): int => RedisLock::stats()['kept'];
        foreach (['0' => 0, 'off' => 0, '' => 0, '1' => 1, 'on' => 1] as $value => $renewed) {
            $this->setting('renew', (string) $value);
            $lock = new RedisLock('key', servers: 'memory://');
            $before = $kept();
            self::assertTrue($lock->acquire());
            self::assertSame($before + $renewed, $kept(), "renew=$value");
            self::assertTrue($lock->release());
            self::assertSame($before, $kept(), "renew=$value");
        }
    }

    public function testASettingThatIsTooShortToBeRenewedIsNamed(): void
    {
        $this->setting('renew', '1');
        $this->setting('ttl', '0.05');
        $e = self::caught(static fn () => new RedisLock('key', servers: 'memory://'));
        self::assertSame(\ValueError::class, $e::class);
        self::assertSame('The setting redis_lock.ttl must be at least 0.1 where the lease is renewed', $e->getMessage());
        self::assertTrue((new RedisLock('key', renew: false, servers: 'memory://'))->acquire());
    }

    public function testIniRestore(): void
    {
        foreach (self::DEFAULTS as $name => $default) {
            $this->setting($name, '0.5');
            ini_restore("redis_lock.$name");
            self::assertSame($default, ini_get("redis_lock.$name"), $name);
        }
    }

    public function testAWrongWaitIsNamedWhenItIsNeeded(): void
    {
        foreach (['-1', '-0.001'] as $value) {
            $this->setting('wait', $value);
            $lock = new RedisLock('key', servers: 'memory://');
            self::assertTrue($lock->acquire());
            self::assertTrue($lock->release());
            self::assertSame(1, $lock->synchronized(static fn () => 1, 2.0));

            $e = self::caught(static fn () => $lock->synchronized(static fn () => self::fail('not to be called')));
            self::assertSame(\ValueError::class, $e::class, $e->getMessage());
            self::assertStringContainsString('redis_lock.wait', $e->getMessage());
        }
    }

    public function testShownWithPasswordsMasked(): void
    {
        $passwords = [
            'redis://user:hidden@127.0.0.1:1/2' => '127.0.0.1:1',
            'redis://:hidden@127.0.0.1:1' => '127.0.0.1:1',
            'rediss://user:hid%64en@127.0.0.1:1?cafile=/ca.crt' => '127.0.0.1:1',
            'unix:///run/redis.sock?user=u&password=hidden&db=1' => '/run/redis.sock',
            'unix:///run/redis.sock?pass=hidden' => '',
            'redis+sentinel://:hidden@127.0.0.1:1,b/main?sentinel_password=hidden' => 'redis+sentinel://127.0.0.1:1,b:26379/main',
            'redis+sentinel://:hidden@127.0.0.1:1' => '',
            'redis+cluster://user:hidden@127.0.0.1:1,b' => 'redis+cluster://127.0.0.1:1,b:6379',
            'redis://us:er:hidden@not an address' => '',
            'redis://user:hidden' => '',
        ];
        foreach ($passwords as $address => $shown) {
            $process = PhpProcess::code(
                '(new ReflectionExtension("redis_lock"))->info(); phpinfo(INFO_MODULES); phpinfo(INFO_CONFIGURATION);',
                ini: ['redis_lock.servers' => $address, 'redis_lock.prefix' => 'shown:'],
            );
            self::assertSame(0, $process->wait());
            $info = $process->output();
            foreach (array_keys(self::DEFAULTS) as $name) {
                self::assertTrue(str_contains($info, "redis_lock.$name => "), $name);
            }
            self::assertTrue(str_contains($info, 'redis_lock.prefix => shown: => shown:'));
            self::assertTrue(str_contains($info, $shown), "$address is shown as $shown");
            foreach (['hidden', 'hid%64en'] as $password) {
                self::assertFalse(str_contains($info, $password), $address);
            }
        }
    }
}
