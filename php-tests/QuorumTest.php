<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\LockTimeoutException;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\QuorumTestCase;
use RedisLock\Tests\Support\RedisServer;
use RedisLockFactory;

/** Several servers that are all well: what a lock does in a quorum, and what it leaves on whom. */
final class QuorumTest extends QuorumTestCase
{
    public function testSeveralAreGivenInAnArrayOrWithSpacesInTheSetting(): void
    {
        $servers = $this->quorum();
        $locks = [new RedisLock('key', servers: $servers), (new RedisLockFactory($servers))->createLock('key')];
        foreach ([implode(' ', $servers), '  ' . implode("  \t", $servers) . ' '] as $setting) {
            $this->setting('servers', $setting);
            $locks[] = new RedisLock('key');
        }
        foreach ($locks as $lock) {
            self::assertTrue($lock->acquire());
            $this->assertOnAll($lock);
            self::assertTrue($lock->release());
            $this->assertNoKeys();
        }

        // One is a server like any other.
        $lock = new RedisLock('key', servers: [$servers[0]]);
        self::assertTrue($lock->acquire());
        self::assertSame([$lock->getToken(), null, null], $this->values());
        self::assertFalse((new RedisLock('key', servers: $servers[0]))->acquire());
        // And keeps apart what is in it: it is no majority of the three.
        self::assertTrue((new RedisLock('key', servers: $servers))->acquire());
    }

    public static function unfit(): array
    {
        $server = 'redis://user:secret@127.0.0.1:6379';

        return [
            'none' => [[], 'must name at least one server'],
            'one twice' => [[$server, 'redis://127.0.0.1:6380', $server], 'must name each server once'],
            'one twice, with another password' => [[$server, 'redis://:secret2@127.0.0.1:6379'], 'must name each server once'],
            'a bad one' => [[$server, 'redis://127.0.0.1:6380', 'http://secret@127.0.0.1'], 'must hold addresses, of which number 3 must be the address of a server'],
            'one with a bad part' => [[$server, 'redis://127.0.0.1/secret'], 'must'],
            'an empty one' => [[$server, ''], 'must'],
            'the one in the process' => [[$server, 'redis://127.0.0.1:6380', 'memory://'], 'must name no cluster and no memory'],
            'no UTF-8' => [[$server, "redis://secret\xff"], 'must be valid UTF-8'],
        ];
    }

    /** @dataProvider unfit */
    #[DataProvider('unfit')]
    public function testServersThatAreRefused(array $servers, string $why): void
    {
        foreach ([
            static fn () => new RedisLock('key', servers: $servers),
            static fn () => RedisLock::restore('key', 'token', servers: $servers),
            static fn () => new RedisLockFactory($servers),
        ] as $call) {
            $e = self::caught($call);
            self::assertSame(\ValueError::class, $e::class);
            self::assertMatchesRegularExpression('/^RedisLock\w*::\w+\(\): Argument #\d+ \(\$servers\) ' . preg_quote($why) . '/', $e->getMessage());
            self::assertStringNotContainsString('secret', $e->getMessage());
            self::assertStringNotContainsString('secret', $e->getTraceAsString());
        }

        if ($servers !== [] && !in_array('', $servers, true)) {
            $this->setting('servers', implode(' ', $servers));
            $e = self::caught(static fn () => new RedisLock('key'));
            self::assertStringContainsString('redis_lock.servers', $e->getMessage());
            self::assertStringNotContainsString('secret', $e->getMessage());
        }
    }

    public function testWhatIsNoStringIsRefusedByItsType(): void
    {
        foreach ([[['redis://127.0.0.1:6379', 7]], [['redis://127.0.0.1:6379', null]], [['redis://127.0.0.1:6379', ['redis://127.0.0.1:6380']]], [7.5]] as [$servers]) {
            try {
                new RedisLock('key', servers: $servers);
                self::fail('It was taken.');
            } catch (\TypeError | \ValueError $e) {
                self::assertStringContainsString('($servers)', $e->getMessage());
            }
        }
    }

    public function testOneOfSeveralIsTakenByReference(): void
    {
        $servers = $this->quorum();
        $first = &$servers[0];
        $lock = new RedisLock('key', servers: $servers);
        $first = 'changed later';
        self::assertTrue($lock->acquire());
        $this->assertOnAll($lock);
    }

    /** What an array refers to may be gone when a later argument is converted. */
    public function testAddressesAreCopied(): void
    {
        foreach ([0, 1] as $last) {
            $address = str_repeat('redis://127.0.0.1:', 1) . (6380 + $last);
            $addresses = ['redis://127.0.0.1:6379', &$address];
            $prefix = new class($address) {
                public function __construct(private string &$address)
                {
                }

                public function __toString(): string
                {
                    $this->address = str_repeat('x', 1_000);

                    return 'prefix:';
                }
            };
            self::assertSame('key', (new RedisLock('key', servers: $addresses, prefix: $prefix))->getKey());
            self::assertSame(1_000, strlen($address));
        }
    }

    /** One that has just forgotten, one that is silent, and one that knows: nobody can say who holds it. */
    public function testWhoHoldsItIsNotSaidWhereItIsNotKnown(): void
    {
        $this->setting('command_timeout', 0.3);
        $servers = $this->quorum();
        $lock = new RedisLock('key', 30, servers: $servers);
        self::assertTrue($lock->acquire());
        $this->assertOnAll($lock);
        $this->nodes[2]->flush();
        $this->nodes[1]->kill(SIGSTOP);
        foreach ([$lock->getHolder(...), $lock->forceRelease(...)] as $call) {
            self::assertInstanceOf(ConnectionException::class, self::caught($call));
        }
        $this->nodes[1]->kill(SIGCONT);
        // Until it has been tried again.
        self::eventually(static function () use ($lock): bool {
            try {
                return $lock->getHolder()['pid'] === getmypid();
            } catch (ConnectionException) {
                return false;
            }
        }, 'it is known who holds it');
        self::assertTrue($lock->isAcquired());
        self::assertTrue($lock->forceRelease());
        self::assertNull($lock->getHolder());
    }

    public function testAllThatALockDoes(): void
    {
        $servers = $this->quorum();
        $lock = new RedisLock('key', 30, servers: $servers);
        $other = new RedisLock('key', 30, servers: $servers);
        self::assertNull($lock->getHolder());
        self::assertFalse($lock->forceRelease());
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->isAcquired());
        self::assertGreaterThan(29, $lock->getRemainingLifetime());
        $this->assertOnAll($lock);
        foreach ($this->nodes as $node) {
            self::assertEqualsWithDelta(30_000, $node->command('PTTL', 'key'), 1_500);
        }

        self::assertFalse($other->acquire());
        self::assertFalse($other->acquire(0.1));
        self::assertFalse($other->isAcquired());
        self::assertSame(getmypid(), $other->getHolder()['pid']);
        self::assertEqualsWithDelta(30, $other->getHolder()['ttl'], 1.5);
        $e = self::caught(static fn () => $other->synchronized(static fn () => self::fail('not to be called'), 0.05));
        self::assertSame(LockTimeoutException::class, $e::class);
        self::assertStringContainsString((string) getmypid(), $e->getMessage());
        $this->assertOnAll($lock);

        self::assertTrue($lock->refresh(60));
        self::assertGreaterThan(58, $lock->getRemainingLifetime());
        foreach ($this->nodes as $node) {
            self::eventually(static fn () => $node->command('PTTL', 'key') > 58_000, 'a ttl of 60 s');
        }
        $handle = RedisLock::restore('key', $lock->getToken(), 30, servers: $servers);
        self::assertTrue($handle->refresh());
        self::assertTrue($handle->release());
        $this->assertNoKeys();
        self::assertFalse($lock->refresh());
        self::assertFalse($lock->release());

        self::assertTrue($lock->acquire());
        self::assertTrue($other->forceRelease());
        $this->assertNoKeys();
        self::assertFalse($lock->release());

        $value = $lock->synchronized(function () use ($lock) {
            $this->assertOnAll($lock);

            return 'value';
        });
        self::assertSame('value', $value);
        $this->assertNoKeys();
        self::assertInstanceOf(\DomainException::class, self::caught(static fn () => $lock->synchronized(static fn () => throw new \DomainException())));
        $this->assertNoKeys();

        self::assertTrue($lock->acquire());
        unset($lock);
        $this->assertNothingOnAnyNode();
    }

    public static function ends(): array
    {
        return [
            'exit' => ['exit(7);', 7],
            'its last line' => ['', 0],
            'an exception that nobody catches' => ['throw new DomainException("stop");', 255],
            'a fatal error' => ['ini_set("memory_limit", "4M"); str_repeat("x", 1 << 26);', 255],
        ];
    }

    /** @dataProvider ends */
    #[DataProvider('ends')]
    public function testTheEndOfTheRequestFreesAll(string $end, int $status): void
    {
        $servers = $this->quorum();
        $process = PhpProcess::code('
            $servers = explode(" ", $argv[1]);
            $held = array_map(fn ($i) => new RedisLock("key$i", 300, servers: $servers), range(1, 20));
            foreach ($held as $lock) { $lock->acquire() || exit(1); }
            $kept = new RedisLock("kept", 300, autoRelease: false, servers: $servers);
            $kept->acquire() || exit(1);
            echo count($held), PHP_EOL;
            fgets(STDIN);
        ' . $end, [implode(' ', $servers)], ['display_errors' => 0]);
        self::assertSame('20', $process->readLine());
        foreach ($this->nodes as $node) {
            self::eventually(static fn () => $node->command('DBSIZE') === 21, 'all keys');
        }
        $process->writeLine('go on');
        self::assertSame($status, $process->wait());
        foreach ($this->nodes as $node) {
            self::eventually(static fn () => $node->command('KEYS', '*') === ['kept'], 'only what is to be kept');
        }
    }

    public function testWhoeverHoldsAMajorityExcludesAndAMinorityDoesNot(): void
    {
        $servers = $this->quorum(5);
        $lock = new RedisLock('key', 30, servers: $servers);
        foreach ([0, 2, 4] as $i) {
            $this->nodes[$i]->command('SET', 'key', 'another');
        }
        self::assertFalse($lock->acquire());
        self::eventually(fn () => $this->values() === ['another', null, 'another', null, 'another'], 'what was won in vain is freed');
        $this->nodes[4]->command('DEL', 'key');

        self::assertTrue($lock->acquire());
        $token = $lock->getToken();
        self::eventually(fn () => $this->values() === ['another', $token, 'another', $token, $token], 'the others');
        self::assertTrue($lock->refresh());
        self::assertTrue($lock->release());
        self::eventually(fn () => $this->values() === ['another', null, 'another', null, null], 'only its own');

        // Of an even number, a half is none.
        $lock = new RedisLock('half', servers: array_slice($servers, 0, 4));
        foreach ([0, 1] as $i) {
            $this->nodes[$i]->command('SET', 'half', 'another');
        }
        self::assertFalse($lock->acquire());
        self::eventually(fn () => $this->values('half') === ['another', 'another', null, null, null], 'nothing else');
    }

    public function testPlainRedlockClientsAndWeExcludeEachOther(): void
    {
        $servers = $this->quorum();
        $lock = new RedisLock('key', 30, servers: $servers);
        $token = $this->redlock();
        self::assertNotNull($token);
        self::assertFalse($lock->acquire());
        self::assertFalse($lock->acquire(0.05));
        self::assertNull($lock->getHolder()['pid']);
        $this->assertOnAll($token);
        // Which tells nobody that it goes.
        $process = $this->contender(implode(' ', $servers));
        $process->tell('acquire 30');
        self::eventually(fn () => self::channels($this->nodes[0]) !== [], 'it waits');
        $freed = self::now();
        $this->redunlock($token);
        self::assertSame('held', $process->answer());
        self::assertLessThan(0.3 + self::SLACK, $process->ended - $freed);
        self::assertNull($this->redlock());
        self::assertSame('released', $process->ask('release'));
        $this->assertNoKeys();
        self::assertNotNull($this->redlock());
    }

    public function testTwoRequestsANodeAndNoHelperKeys(): void
    {
        $servers = $this->quorum();
        $lock = new RedisLock('key', 30, servers: $servers);
        self::pace($lock, 2);
        foreach ($this->nodes as $node) {
            $node->resetCommandCounts();
        }
        $before = array_map(static fn (RedisServer $node) => $node->requests(), $this->nodes);
        for ($i = 0; $i < 100; $i++) {
            self::assertTrue($lock->acquire());
            if ($i % 50 === 0) {
                foreach ($this->nodes as $node) {
                    self::eventually(static fn () => $node->command('KEYS', '*') === ['key'], 'nothing but the key');
                }
            }
            self::assertTrue($lock->release());
        }
        foreach ($this->nodes as $i => $node) {
            self::eventually(static fn () => ($node->commandCounts()['evalsha'] ?? 0) === 100, 'all releases');
            $counts = array_diff_key($node->commandCounts(), ['keys' => 0]);
            ksort($counts);
            self::assertSame(['del' => 100, 'evalsha' => 100, 'get' => 100, 'publish' => 100, 'set' => 100], $counts);
            // Fewer where it was behind, and read two at once.
            self::assertLessThanOrEqual(200, $node->requests() - $before[$i]);
            self::assertCount(1, $node->clients());
        }
    }

    public function testConnectionsThatDiedWhileIdleAreReplacedSilently(): void
    {
        $lock = new RedisLock('key', 30, servers: $this->quorum());
        $calls = [
            static fn () => $lock->acquire(),
            static fn () => $lock->refresh(),
            static fn () => $lock->getHolder()['pid'] === getmypid(),
            static fn () => $lock->release(),
            static fn () => $lock->acquire(1),
            static fn () => $lock->forceRelease(),
            static fn () => !$lock->release(),
        ];
        $lock->getHolder();
        foreach ([[0], [0, 1], [0, 1, 2]] as $killed) {
            foreach ($calls as $number => $call) {
                foreach ($killed as $i) {
                    $this->nodes[$i]->killClients();
                }
                usleep(2_000);
                self::assertTrue($call(), "call $number");
            }
            $this->assertNoKeys();
        }
    }
}
