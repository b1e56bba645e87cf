<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\CommandException;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\WaitTestCase;
use RedisLockFactory;

/** A number with each acquisition, which is greater than all before. */
final class FenceTest extends WaitTestCase
{
    /** Milliseconds for which the last one is kept longer than the lease. */
    private const REMEMBERED = 86_400_000;

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testThereIsOneWhileThereIsALeaseWithOne(string $backend): void
    {
        $key = self::key();
        $without = new RedisLock($key, servers: self::address($backend));
        self::assertTrue($without->acquire());
        self::assertNull($without->getFence());
        self::assertTrue($without->release());

        $lock = new RedisLock($key, fencing: true, servers: self::address($backend));
        self::assertNull($lock->getFence(), 'before the first acquire');
        $last = 0;
        for ($i = 0; $i < 3; $i++) {
            self::assertTrue($lock->acquire());
            $fence = $lock->getFence();
            self::assertGreaterThan($last, $fence);
            self::assertTrue($lock->refresh());
            self::assertSame($fence, $lock->getFence(), 'a refresh is no acquisition');
            self::assertTrue($lock->release());
            self::assertNull($lock->getFence());
            $last = $fence;
        }
        // The clock of the server is ours here.
        self::assertLessThan(60e6, abs($last - microtime(true) * 1e6), 'microseconds');

        $other = new RedisLock($key, fencing: true, servers: self::address($backend));
        self::assertGreaterThan($last, $other->synchronized($other->getFence(...)));
        self::assertTrue($other->acquire());
        self::assertFalse($lock->acquire());
        self::assertNull($lock->getFence(), 'busy');
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testItIsKeptWhenTheLeaseIsLost(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, 0.05, fencing: true, servers: self::address($backend));
        self::assertTrue($lock->acquire());
        $fence = $lock->getFence();
        self::eventually($lock->isExpired(...), 'it ran out');
        self::assertSame($fence, $lock->getFence());

        self::assertTrue($lock->acquire(5));
        self::assertGreaterThan($fence, $lock->getFence());

        $lock = new RedisLock(self::key(), fencing: true, servers: self::address($backend));
        self::assertTrue($lock->acquire());
        $fence = $lock->getFence();
        $other = new RedisLock($lock->getKey(), fencing: true, servers: self::address($backend));
        self::assertTrue($other->forceRelease());
        self::assertTrue($other->acquire());
        self::assertFalse($lock->refresh());
        self::assertSame($fence, $lock->getFence());
        self::assertGreaterThan($fence, $other->getFence());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testAHandleHasTheOneThatItIsGiven(string $backend): void
    {
        $key = self::key();
        $address = self::address($backend);
        $lock = new RedisLock($key, fencing: true, autoRelease: false, servers: $address);
        self::assertTrue($lock->acquire());
        [$token, $fence] = [$lock->getToken(), $lock->getFence()];
        unset($lock);

        self::assertNull(RedisLock::restore($key, $token, fencing: true, servers: $address)->getFence(), 'nobody knows it');
        $handle = RedisLock::restore($key, $token, fencing: true, servers: $address, fence: $fence);
        self::assertSame($fence, $handle->getFence());
        self::assertTrue($handle->refresh());
        self::assertSame($fence, $handle->getFence());
        self::assertTrue($handle->release());
        self::assertNull($handle->getFence());
        self::assertTrue($handle->acquire());
        self::assertGreaterThan($fence, $handle->getFence());
        self::assertSame($token, $handle->getToken());
        self::assertTrue($handle->release());

        $handle = RedisLock::restore($key, $token, servers: $address, fence: $fence);
        self::assertTrue($handle->acquire());
        self::assertNull($handle->getFence(), 'an acquisition without a fence');
    }

    public function testAFactoryHasItForADefault(): void
    {
        $fence = static fn (RedisLock $lock): ?int => $lock->synchronized($lock->getFence(...));
        $factory = new RedisLockFactory('memory://', fencing: true);
        self::assertIsInt($fence($factory->createLock('key')));
        self::assertNull($fence($factory->createLock('key', fencing: false)));
        self::assertIsInt($fence($factory->restoreLock('key', 'token')));
        self::assertSame(5, $factory->restoreLock('key', 'token', fence: 5)->getFence());

        $factory = new RedisLockFactory('memory://');
        self::assertNull($fence($factory->createLock('key')));
        self::assertIsInt($fence($factory->createLock('key', fencing: true)));
    }

    public function testWhatIsNoFenceIsRefused(): void
    {
        foreach ([0, -1, PHP_INT_MIN, 2 ** 53, PHP_INT_MAX] as $number) {
            foreach ([
                'RedisLock::restore(): Argument #13' => static fn () => RedisLock::restore('key', 'token', fence: $number),
                'RedisLockFactory::restoreLock(): Argument #11' => static fn () => (new RedisLockFactory())->restoreLock('key', 'token', fence: $number),
            ] as $start => $call) {
                $e = self::caught($call);
                self::assertSame(\ValueError::class, $e::class);
                self::assertStringStartsWith("$start (\$fence) must be ", $e->getMessage());
            }
        }
        self::assertSame(1, RedisLock::restore('key', 'token', fence: 1)->getFence());
        self::assertSame(2 ** 53 - 1, RedisLock::restore('key', 'token', fence: 2 ** 53 - 1)->getFence());
    }

    public function testItTakesNoRequestMoreAndOneKey(): void
    {
        $server = RedisServer::shared();
        $requests = [];
        foreach (['without' => false, 'with' => true] as $which => $fencing) {
            $lock = new RedisLock("app:{job}$which", 5.0, fencing: $fencing, servers: $server->unix());
            $lock->synchronized('time'); // connects, and loads what scripts it takes
            $before = $server->requests();
            for ($i = 0; $i < 10; $i++) {
                self::assertTrue($lock->acquire());
                self::assertTrue($lock->release());
            }
            $requests[$which] = $server->requests() - $before;
        }
        self::assertSame(['without' => 20, 'with' => 20], $requests);
        self::assertSame(['app:{job}with:redis_lock:fence'], $server->command('KEYS', '*'));
        self::assertTrue($lock->acquire());
        self::assertKeptForADay($server, 'app:{job}with:redis_lock:fence', 5_000);
        self::assertSame((string) $lock->getFence(), $server->command('GET', 'app:{job}with:redis_lock:fence'));
        self::assertTrue($lock->release());

        // Where the key has no tag, the fence's is put into its slot.
        $server->flush();
        $lock = new RedisLock('job', fencing: true, servers: $server->unix());
        self::assertTrue($lock->acquire());
        self::assertMatchesRegularExpression('/^job\{.{4}\}:redis_lock:fence$/D', self::fenceKey($server));
        self::assertKeptForADay($server, self::fenceKey($server), 30_000);
    }

    public function testItGrowsWhereTheServerForgets(): void
    {
        $server = $this->server();
        $lock = new RedisLock('key', fencing: true, servers: $server->tcp());
        $fence = self::next($lock);
        $server->flush();
        self::assertGreaterThan($fence, $last = self::next($lock));
        self::assertTrue($lock->acquire());
        self::assertGreaterThan($last, $fence = $lock->getFence());
        $server->restart();
        self::assertNull($server->command('GET', 'key'), 'empty');
        $other = new RedisLock('key', fencing: true, servers: $server->tcp());
        self::assertGreaterThan($fence, self::next($other));
    }

    public function testItGrowsWhenAReplicaTakesOverThatHasMissedTheLast(): void
    {
        [$primary, $replica] = [$this->server(), $this->server()];
        $replica->command('REPLICAOF', '127.0.0.1', $primary->port);
        $lock = new RedisLock('key', fencing: true, servers: $primary->tcp());
        $first = self::next($lock);
        $name = self::fenceKey($primary);
        self::eventually(static fn () => $replica->command('KEYS', '*') === [$name], 'the replica has it, and the release');

        // What is said from here on does not reach it.
        $replica->kill(SIGSTOP);
        $primary->command('CLIENT', 'KILL', 'TYPE', 'replica');
        $missed = self::next($lock);
        $primary->kill();
        $replica->kill(SIGCONT);
        $replica->command('REPLICAOF', 'NO', 'ONE');
        self::assertSame((string) $first, $replica->command('GET', $name), 'this is the last that it knows of');
        self::assertGreaterThan($first, $missed);
        $lock = new RedisLock('key', fencing: true, servers: $replica->tcp());
        self::assertGreaterThan($missed, self::next($lock));
    }

    public function testItIsExactAndGoesOnWhereTheClockIsBehind(): void
    {
        $server = RedisServer::shared();
        $lock = new RedisLock('key', fencing: true, servers: $server->tcp());
        $real = self::next($lock);
        $name = self::fenceKey($server);
        self::assertSame((string) $real, $server->command('GET', $name));

        // As after a clock that was ahead. Formatted as Lua does, with 14 digits, all of these would be the same.
        foreach ([7_796_000_000_123_456, 8_999_999_999_999_999, 2 ** 53 - 10] as $last) {
            $server->command('SET', $name, $last);
            for ($i = 1; $i < 10; $i++) {
                self::assertSame($last + $i, self::next($lock));
                self::assertSame((string) ($last + $i), $server->command('GET', $name));
            }
        }
        // That was the last that there can be.
        self::assertNoFence($lock, $server);

        // The recovery that README names.
        $server->command('DEL', $name);
        self::assertGreaterThan($real, $recovered = self::next($lock));
        self::assertLessThan($real + 60e6, $recovered);
    }

    public static function rubbish(): array
    {
        return [
            'no number' => [['SET', 'rubbish']],
            'nothing' => [['SET', '']],
            'too great a number' => [['SET', 2 ** 53]],
            'far too great a number' => [['SET', '1e300']],
            'no whole number' => [['SET', '2000000000000000.5']],
            'infinite' => [['SET', 'inf']],
            'a list' => [['RPUSH', '1']],
            'a hash' => [['HSET', 'field', '1']],
        ];
    }

    /** @dataProvider rubbish */
    #[DataProvider('rubbish')]
    public function testALastOneThatIsNoneIsAnError(array $command): void
    {
        $server = RedisServer::shared();
        $lock = new RedisLock('key', fencing: true, servers: $server->tcp());
        self::next($lock);
        $name = self::fenceKey($server);
        $server->command('DEL', $name);
        $server->command($command[0], $name, ...array_slice($command, 1));
        self::assertNoFence($lock, $server);
        self::assertNoFence(new RedisLock('key', fencing: true, servers: $server->unix()), $server, 5.0);

        self::assertTrue((new RedisLock('key', servers: $server->tcp()))->acquire(), 'without one it works');
    }

    public function testAWaiterThatIsToGetNoneLeavesTheKeyToTheNext(): void
    {
        $server = $this->server();
        self::next(new RedisLock('key', fencing: true, servers: $server->tcp()));
        $server->command('SET', self::fenceKey($server), 'rubbish');
        $holder = $this->holder($server->unix());
        $waiter = $this->contender($server->unix(), setup: '$lock = new RedisLock($key, fencing: true, servers: $address);');
        $next = $this->contender($server->unix());
        self::lineUp($server, [$waiter, $next]);
        self::assertSame('released', $holder->ask('release'));
        self::assertStringStartsWith(CommandException::class, $waiter->answer());
        self::assertSame('held', $next->answer());
        self::assertLessThan(self::SLACK, $next->ended - $holder->began);
        self::assertSame('released', $next->ask('release'));
        self::assertSame([self::fenceKey($server)], $server->command('KEYS', '*'));
    }

    public function testAUserThatMayNotKnowTheTimeIsToldSo(): void
    {
        $server = $this->server(['user' => ['shop on >password ~* &* +@all -time']]);
        $lock = new RedisLock('key', fencing: true, servers: $server->tcp('shop:password'));
        $e = self::caught(static fn () => $lock->acquire());
        self::assertSame(CommandException::class, $e::class);
        self::assertStringContainsString("redis://127.0.0.1:$server->port", $e->getMessage());
        self::assertMatchesRegularExpression("/no permissions|can't run this command/", $e->getMessage());
        self::assertSame([], $server->command('KEYS', '*'));
        self::assertSame('time', $server->command('ACL', 'LOG')[0][7]);

        self::assertTrue((new RedisLock('key', servers: $server->tcp('shop:password')))->acquire(), 'without one it works');
    }

    /** The fence of one acquisition. */
    private static function next(RedisLock $lock): int
    {
        self::assertTrue($lock->acquire());
        $fence = $lock->getFence();
        self::assertTrue($lock->release());

        return $fence;
    }

    private static function fenceKey(RedisServer $server): string
    {
        $names = $server->command('KEYS', '*:redis_lock:fence');
        self::assertCount(1, $names);

        return $names[0];
    }

    private static function assertKeptForADay(RedisServer $server, string $name, int $ttl): void
    {
        $left = $server->command('PTTL', $name);
        self::assertLessThanOrEqual(self::REMEMBERED + $ttl, $left);
        self::assertGreaterThan(self::REMEMBERED + $ttl - self::SLACK * 1_000, $left);
    }

    /** The lock is free, and cannot be taken with a fence. */
    private static function assertNoFence(RedisLock $lock, RedisServer $server, float $wait = 0.0): void
    {
        $kept = $server->command('DUMP', self::fenceKey($server));
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire($wait)));
        self::assertSame(CommandException::class, $e::class);
        self::assertStringContainsString('":redis_lock:fence", holds no fence', $e->getMessage());
        self::assertFalse($lock->isAcquired());
        self::assertNull($lock->getFence());
        self::assertSame([self::fenceKey($server)], $server->command('KEYS', '*'));
        self::assertSame($kept, $server->command('DUMP', self::fenceKey($server)), 'and is as it was');
    }
}
