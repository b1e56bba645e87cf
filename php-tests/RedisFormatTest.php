<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\CommandException;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\RedisServer;

/** What Redis holds, what is sent, and how old code and new code exclude each other on one key. */
final class RedisFormatTest extends LockTestCase
{
    private const COMPARE_AND_DELETE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0';

    public function testOneStringWithTheTokenAndAnExpiryAndNothingElse(): void
    {
        $server = RedisServer::shared();
        $lock = new RedisLock('invoice:7', 20, servers: $server->tcp(), prefix: 'app:');
        $lock->acquire();

        self::assertSame(1, $server->command('DBSIZE'));
        self::assertSame('string', $server->command('TYPE', 'app:invoice:7'));
        self::assertSame($lock->getToken(), $server->command('GET', 'app:invoice:7'));
        $left = $server->command('PTTL', 'app:invoice:7');
        self::assertLessThanOrEqual(20_000, $left);
        self::assertGreaterThan((int) (20_000 - 1_000 * self::SLACK), $left);
        self::assertGreaterThanOrEqual((int) ($lock->getRemainingLifetime() * 1_000), $left, 'we never believe more than Redis');

        $lock->refresh(40);
        self::assertSame(1, $server->command('DBSIZE'));
        self::assertGreaterThan(30_000, $server->command('PTTL', 'app:invoice:7'));

        // A busy try and a wait leave nothing behind.
        $other = new RedisLock('app:invoice:7', servers: $server->tcp());
        self::assertFalse($other->acquire(0.05));
        self::assertSame($lock->getToken(), $server->command('GET', 'app:invoice:7'));
        $lock->release();
        self::assertSame(0, $server->command('DBSIZE'));
    }

    public function testTheToken(): void
    {
        $before = time();
        $lock = new RedisLock('key', servers: RedisServer::shared()->tcp());
        $lock->acquire();
        $pattern = '/^[0-9a-f]{32}:(?<host>[!-~]+):(?<pid>\d+):(?<since>\d+)$/D';
        self::assertMatchesRegularExpression($pattern, $lock->getToken());
        preg_match($pattern, $lock->getToken(), $parts);
        self::assertSame(gethostname(), $parts['host']);
        self::assertSame((string) getmypid(), $parts['pid']);
        self::assertContains((int) $parts['since'], range($before, time()));
    }

    public function testAnUncontendedLockCostsTwoRequests(): void
    {
        $server = RedisServer::shared();
        $lock = new RedisLock('key', servers: $server->unix());
        $lock->acquire();
        $lock->release();

        $reads = static fn () => $server->info('total_reads_processed');
        $before = $reads();
        $own = $reads() - $before;
        $before = $reads();
        $lock->acquire();
        $lock->release();
        self::assertSame(2, $reads() - $before - $own);
    }

    public function testAProgramWithSetNxIsExcluded(): void
    {
        $server = RedisServer::shared();
        $lock = new RedisLock('key', servers: $server->tcp());
        $lock->acquire();
        self::assertNull($server->command('SET', 'key', 'theirs', 'NX', 'PX', 1_000));
        self::assertSame(0, $server->command('EVAL', self::COMPARE_AND_DELETE, 1, 'key', 'theirs'));
        self::assertTrue($lock->release());
        self::assertSame('OK', $server->command('SET', 'key', 'theirs', 'NX', 'PX', 1_000));
    }

    public function testAProgramWithSetNxExcludesUs(): void
    {
        $server = RedisServer::shared();
        $server->command('SET', 'key', 'theirs', 'NX', 'PX', 400);
        $lock = new RedisLock('key', servers: $server->tcp());
        self::assertFalse($lock->acquire());
        self::assertFalse($lock->acquire(0.05));
        self::assertSame(['host' => null, 'pid' => null, 'since' => null], array_slice($lock->getHolder(), 0, 3));
        self::assertTrue($lock->acquire(20), 'when its time is over');
    }

    public function testAWaiterSeesAReleaseOfAnotherProgram(): void
    {
        $server = RedisServer::shared();
        $server->command('SET', 'key', 'theirs', 'PX', 60_000);
        // This request is carried out while we wait, and its reply is not asked for.
        $other = $server->connect();
        $other->send('EVAL', self::COMPARE_AND_DELETE, 1, 'key', 'theirs');
        self::assertTrue((new RedisLock('key', servers: $server->tcp()))->acquire(20));
    }

    public function testAnotherProgramCanFreeOurKeyWithOurToken(): void
    {
        $server = RedisServer::shared();
        $lock = new RedisLock('key', servers: $server->tcp());
        $lock->acquire();
        self::assertSame(1, $server->command('EVAL', self::COMPARE_AND_DELETE, 1, 'key', $lock->getToken()));
        self::assertFalse($lock->release());
    }

    public function testWeCanFreeItsKeyWithItsToken(): void
    {
        $server = RedisServer::shared();
        $server->command('SET', 'key', "their token\0", 'PX', 60_000);
        $handle = RedisLock::restore('key', "their token\0", 30, servers: $server->tcp());
        self::assertTrue($handle->refresh());
        self::assertTrue($handle->release());
        self::assertSame(0, $server->command('EXISTS', 'key'));
    }

    public static function foreignStrings(): array
    {
        return ['empty' => [''], 'short' => ['1'], 'bytes' => ["\0\xff\r\n"], 'like a token' => ['abc:host:1:2'],
            'nearly a token' => [str_repeat('g', 32) . ':host:1:2'], 'a wrong pid' => [str_repeat('a', 32) . ':host:-1:2'],
            'too many parts' => [str_repeat('a', 32) . ':a:b:c:d:e'], 'a huge number' => [str_repeat('a', 32) . ':host:' . str_repeat('9', 40) . ':2'],
            'without a name' => [str_repeat('a', 32) . ':'], 'a megabyte' => [str_repeat('x', 1 << 20)]];
    }

    /** @dataProvider foreignStrings */
    #[DataProvider('foreignStrings')]
    public function testAnotherProgramsStringIsBusyAndStays(string $value): void
    {
        $server = RedisServer::shared();
        $server->command('SET', 'key', $value);
        $lock = new RedisLock('key', servers: $server->tcp());
        self::assertFalse($lock->acquire());
        self::assertFalse($lock->acquire(0.03));
        self::assertFalse($lock->refresh());
        self::assertFalse($lock->release());
        $holder = $lock->getHolder();
        self::assertNull($holder['ttl'], 'it never ends');
        self::assertNull($holder['since']);
        self::assertNull($holder['pid']);
        unset($lock);
        self::assertSame($value, $server->command('GET', 'key'));
        self::assertSame(-1, $server->command('PTTL', 'key'));

        self::assertTrue((new RedisLock('key', servers: $server->tcp()))->forceRelease());
        self::assertSame(0, $server->command('EXISTS', 'key'));
    }

    public static function otherTypes(): array
    {
        return ['list' => ['RPUSH', 'a'], 'set' => ['SADD', 'a'], 'hash' => ['HSET', 'field', 'a'], 'sorted set' => ['ZADD', '1', 'a'],
            'stream' => ['XADD', '*', 'field', 'a']];
    }

    /** @dataProvider otherTypes */
    #[DataProvider('otherTypes')]
    public function testAKeyThatHoldsNoStringIsBusyAndStays(string $command, string ...$arguments): void
    {
        $server = RedisServer::shared();
        $server->command($command, 'key', ...$arguments);
        $before = $server->command('DUMP', 'key');
        $lock = new RedisLock('key', servers: $server->tcp());
        self::assertFalse($lock->acquire());
        self::assertFalse($lock->acquire(0.03));
        self::assertFalse($lock->release());
        $handle = RedisLock::restore('key', 'token', servers: $server->tcp());
        self::assertFalse($handle->refresh());
        self::assertFalse($handle->acquire());
        self::assertFalse($handle->release());

        foreach ([static fn () => $lock->forceRelease(), static fn () => $lock->getHolder()] as $call) {
            $e = self::caught($call);
            self::assertInstanceOf(CommandException::class, $e);
            self::assertStringContainsString('WRONGTYPE', $e->getMessage());
        }
        self::assertSame($before, $server->command('DUMP', 'key'));
    }

    public function testALeaseWhoseKeyBecameAList(): void
    {
        $server = RedisServer::shared();
        $lock = new RedisLock('key', servers: $server->tcp());
        $lock->acquire();
        $server->command('DEL', 'key');
        $server->command('RPUSH', 'key', 'a');
        self::assertFalse($lock->refresh());
        self::assertFalse($lock->isAcquired());
        self::assertFalse($lock->release());
        self::assertSame(1, $server->command('LLEN', 'key'));
    }

    /**
     * A key that outlives our validity by far, as in the last moments of a lease, but for longer.
     */
    public function testReuseWhileTheOldKeyStillLives(): void
    {
        $server = RedisServer::shared();
        $expired = static function () use ($server): RedisLock {
            $server->flush();
            $lock = new RedisLock('key', 0.05, servers: $server->tcp());
            $lock->acquire();
            $server->command('PEXPIRE', 'key', 60_000);
            usleep(60_000);
            self::assertFalse($lock->isAcquired());
            self::assertTrue($lock->isExpired());
            self::assertSame(0.0, $lock->getRemainingLifetime());

            return $lock;
        };

        $lock = $expired();
        $old = $server->command('GET', 'key');
        self::assertTrue($lock->acquire());
        self::assertNotSame($old, $lock->getToken(), 'a new lease, a new token');
        self::assertSame($lock->getToken(), $server->command('GET', 'key'));
        self::assertLessThanOrEqual(50, $server->command('PTTL', 'key'));

        $lock = $expired();
        self::assertSame(1, $lock->synchronized(static fn () => 1));
        self::assertSame(0, $server->command('EXISTS', 'key'));

        $lock = $expired();
        self::assertTrue($lock->refresh(30), 'Redis says that it is still ours');
        self::assertTrue($lock->isAcquired());

        $lock = $expired();
        $lock->release();
        self::assertSame(0, $server->command('EXISTS', 'key'));

        $lock = $expired();
        unset($lock);
        self::assertSame(0, $server->command('EXISTS', 'key'), 'what is left of it goes with the object');

        $lock = $expired();
        $server->command('SET', 'key', 'another');
        self::assertFalse($lock->acquire());
        self::assertSame('another', $server->command('GET', 'key'));
    }

    public function testDatabases(): void
    {
        $server = RedisServer::shared();
        foreach ([$server->tcp(database: 2), $server->unix('db=2')] as $address) {
            $lock = new RedisLock('key', servers: $address);
            self::assertTrue($lock->acquire());
            self::assertSame(0, $server->command('EXISTS', 'key'));
            self::assertSame($lock->getToken(), $server->connect(database: 2)->command('GET', 'key'));
            self::assertTrue((new RedisLock('key', servers: $server->tcp()))->acquire(), 'another database, another key');
            self::assertTrue($lock->release());
        }
    }

    public function testOneConnectionForAllOfItAndOneToBeToldBy(): void
    {
        $server = new RedisServer();
        for ($i = 0; $i < 20; $i++) {
            $lock = new RedisLock("key$i", servers: $server->tcp());
            $other = new RedisLock("key$i", servers: $server->tcp());
            $lock->acquire();
            $other->acquire(0.005);
            $lock->refresh();
            $other->getHolder();
            $other->forceRelease();
            $other->synchronized(static fn () => 1);
            $locks[] = $lock;
            self::assertCount(2, $server->clients());
        }
        // They outlive the locks.
        unset($locks, $lock, $other);
        // (This one is kept: a process that has used many addresses forgets those that no lock has.)
        $lock = new RedisLock('key', servers: $server->tcp());
        $lock->acquire();
        self::assertCount(2, $server->clients());

        (new RedisLock('key', servers: $server->unix()))->acquire();
        self::assertCount(3, $server->clients(), 'one more for each address, and none to be told by before a wait');
    }

    public function testNothingConnectsBeforeTheFirstCallThatAsks(): void
    {
        $server = new RedisServer();
        $lock = new RedisLock('key', servers: $server->tcp());
        $lock->isAcquired();
        $lock->isExpired();
        $lock->getKey();
        $lock->getToken();
        $lock->getRemainingLifetime();
        self::assertFalse($lock->release());
        self::assertFalse($lock->refresh());
        unset($lock);
        self::assertSame([], $server->clients());
    }

    public function testALocalQuestionAsksNobody(): void
    {
        $server = RedisServer::shared();
        $lock = new RedisLock('key', servers: $server->tcp());
        $lock->acquire();
        $server->resetCommandCounts();
        for ($i = 0; $i < 10; $i++) {
            $lock->isAcquired();
            $lock->isExpired();
            $lock->getRemainingLifetime();
            $lock->getToken();
        }
        self::assertSame([], $server->commandCounts());
    }

    public function testOneTryIsOneTry(): void
    {
        $server = RedisServer::shared();
        $server->command('SET', 'key', 'another');
        $lock = new RedisLock('key', servers: $server->tcp());
        $lock->acquire();
        $server->resetCommandCounts();
        self::assertFalse($lock->acquire(0));
        self::assertSame(['set' => 1], $server->commandCounts());
    }

    public function testAUserWhoMayOnlyLockCanDoAllOfIt(): void
    {
        // Nothing outside the prefix, no PING, no CLIENT, no SCRIPT, no pub/sub.
        $server = new RedisServer(['user' => [
            'default on nopass ~* &* +@all',
            'app on >secret ~app:* resetchannels -@all +set +get +del +pexpire +pttl +eval +evalsha',
        ]]);
        $address = $server->tcp('app:secret');
        $lock = new RedisLock('key', servers: $address, prefix: 'app:');
        $other = new RedisLock('key', servers: $address, prefix: 'app:');
        self::assertTrue($lock->acquire());
        self::assertFalse($other->acquire(0.05));
        self::assertSame(getmypid(), $other->getHolder()['pid']);
        self::assertTrue($lock->refresh());
        self::assertTrue($lock->release());
        self::assertTrue($other->acquire());
        self::assertTrue($lock->forceRelease());
        self::assertSame(1, $lock->synchronized(static fn () => 1));

        foreach (['acquire', 'getHolder', 'forceRelease'] as $method) {
            $e = self::caught(static fn () => (new RedisLock('key', servers: $address, prefix: 'other:'))->$method());
            self::assertInstanceOf(CommandException::class, $e);
            self::assertStringContainsString('NOPERM', $e->getMessage());
        }
    }

    public function testBytesThatLookLikeRespAreData(): void
    {
        $server = RedisServer::shared();
        $server->command('SET', 'witness', '1');
        $attack = "x\r\n*1\r\n\$8\r\nFLUSHALL\r\n";
        $lock = RedisLock::restore($attack, $attack, servers: $server->tcp(), prefix: $attack);
        self::assertTrue($lock->acquire());
        self::assertSame($attack, $server->command('GET', $attack . $attack));
        self::assertTrue($lock->release());
        self::assertSame('1', $server->command('GET', 'witness'));
    }
}
