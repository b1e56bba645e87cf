<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\RedisServer;

/** Handles on leases that were acquired elsewhere. */
final class RestoreTest extends LockTestCase
{
    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testALeaseIsHandedOver(string $backend): void
    {
        $key = self::key();
        $token = $this->handOut($key, $backend);

        $handle = RedisLock::restore($key, $token, 20, servers: self::address($backend));
        self::assertSame($key, $handle->getKey());
        self::assertFalse($handle->isAcquired(), 'not before refresh() says so');

        self::assertTrue($handle->refresh());
        self::assertTrue($handle->isAcquired());
        self::assertSame($token, $handle->getToken());
        self::assertLessThanOrEqual(20 - 0.2 - 0.002, $handle->getRemainingLifetime());
        self::assertGreaterThan(20 - 0.2 - 0.002 - self::SLACK, $handle->getRemainingLifetime());
        $ttl = $handle->getHolder()['ttl'];
        self::assertLessThanOrEqual(20.0, $ttl, 'the ttl is finite');
        self::assertGreaterThan(20.0 - self::SLACK, $ttl);

        self::assertTrue($handle->release());
        self::assertNull($handle->getHolder());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testReleaseWithoutRefresh(string $backend): void
    {
        $key = self::key();
        $handle = RedisLock::restore($key, $this->handOut($key, $backend), servers: self::address($backend));
        self::assertTrue($handle->release());
        self::assertNull($handle->getHolder());
        self::assertFalse($handle->release());
    }

    public function testRestoreDoesNoIO(): void
    {
        // Any I/O would fail.
        $handle = RedisLock::restore('key', 'token', servers: 'redis://127.0.0.1:' . RedisServer::freePort());
        self::assertFalse($handle->isAcquired());
        self::assertFalse($handle->isExpired());
        unset($handle);

        $server = RedisServer::shared();
        $server->resetCommandCounts();
        $handle = RedisLock::restore('key', 'token', servers: $server->tcp());
        $handle->isAcquired();
        $handle->isExpired();
        $handle->getToken();
        $handle->getRemainingLifetime();
        unset($handle);
        self::assertSame([], $server->commandCounts());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testADroppedHandleFreesNothingBeforeItsRefresh(string $backend): void
    {
        $key = self::key();
        $token = $this->handOut($key, $backend);
        $handle = RedisLock::restore($key, $token, servers: self::address($backend));
        unset($handle);
        $observer = new RedisLock($key, servers: self::address($backend));
        self::assertNotNull($observer->getHolder());

        $handle = RedisLock::restore($key, $token, autoRelease: false, servers: self::address($backend));
        self::assertTrue($handle->refresh());
        unset($handle);
        self::assertNotNull($observer->getHolder(), 'autoRelease: false');

        $handle = RedisLock::restore($key, $token, servers: self::address($backend));
        self::assertTrue($handle->refresh());
        unset($handle);
        self::assertNull($observer->getHolder());
    }

    public static function harmlessTokens(): array
    {
        $rows = [];
        foreach (self::backends() as $name => [$backend]) {
            $rows["$name, stale"] = [$backend, str_repeat('0', 32) . ':host:1:1700000000'];
            $rows["$name, short"] = [$backend, 'x'];
            $rows["$name, bytes"] = [$backend, "\0\xff\r\n*1\r\n\$8\r\nFLUSHALL\r\n"];
            $rows["$name, long"] = [$backend, str_repeat('long', 50_000)];
        }

        return $rows;
    }

    /** @dataProvider harmlessTokens */
    #[DataProvider('harmlessTokens')]
    public function testAForgedOrStaleTokenIsHarmless(string $backend, string $token): void
    {
        $key = self::key();
        $held = new RedisLock($key, servers: self::address($backend));
        $held->acquire();
        // Neither a part of the true token nor something around it will do.
        $tokens = [$token, substr($held->getToken(), 0, 32), substr($held->getToken(), 0, -1), $held->getToken() . ' ',
            strtoupper($held->getToken())];

        foreach ($tokens as $forged) {
            $handle = RedisLock::restore($key, $forged, servers: self::address($backend));
            self::assertFalse($handle->refresh());
            self::assertFalse($handle->isAcquired());
            self::assertFalse($handle->release());
            self::assertFalse(RedisLock::restore($key, $forged, servers: self::address($backend))->acquire());
            unset($handle);
        }
        self::assertTrue($held->refresh());
        self::assertTrue($held->release());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testAcquireUsesTheTokenOfAnOwnerThatTheApplicationNames(string $backend): void
    {
        $key = self::key();
        $handle = RedisLock::restore($key, 'invoice-7-worker', servers: self::address($backend));
        self::assertTrue($handle->acquire());
        self::assertSame('invoice-7-worker', $handle->getToken());
        self::assertFalse((new RedisLock($key, servers: self::address($backend)))->acquire());

        // The same owner, elsewhere: the key is its own already.
        $again = RedisLock::restore($key, 'invoice-7-worker', servers: self::address($backend));
        self::assertTrue($again->acquire());
        self::assertTrue($again->isAcquired());
        self::assertTrue($handle->release());
    }

    public function testANamedOwnerIsWhatRedisHolds(): void
    {
        $key = self::key();
        $handle = RedisLock::restore($key, "\0owner\xff", servers: RedisServer::shared()->tcp());
        self::assertTrue($handle->acquire());
        self::assertSame("\0owner\xff", RedisServer::shared()->command('GET', $key));
    }

    public function testAcrossProcesses(): void
    {
        $server = RedisServer::shared();
        $key = self::key();
        $taker = PhpProcess::code('
            $lock = new RedisLock($argv[1], autoRelease: false, servers: $argv[2]);
            $lock->acquire();
            echo $lock->getToken(), "\n";
        ', [$key, $server->tcp()]);
        $token = $taker->readLine();
        self::assertSame(0, $taker->wait());

        $handle = RedisLock::restore($key, $token, servers: $server->unix());
        self::assertSame($taker->output(), $token . "\n");
        self::assertTrue($handle->refresh());
        self::assertTrue($handle->release());
        self::assertSame(0, $server->command('EXISTS', $key));
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testAnEndedLeaseIsNotRestored(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, 0.05, autoRelease: false, servers: self::address($backend));
        $lock->acquire();
        $handle = RedisLock::restore($key, $lock->getToken(), servers: self::address($backend));
        usleep(80_000);

        self::assertFalse($handle->refresh());
        self::assertFalse($handle->isAcquired());
        self::assertNull($handle->getHolder());
    }

    public function testFromASubclass(): void
    {
        $handle = RestoredLock::restore('key', 'token', servers: 'memory://');
        self::assertSame(RestoredLock::class, $handle::class);
        self::assertSame(['note'], $handle->notes, 'its properties have their defaults');
        self::assertSame('key!', $handle->getKey());
        self::assertSame(RedisLock::class, RedisLock::restore('key', 'token')::class);
    }

    public function testOfAnAbstractClassThereIsNone(): void
    {
        $e = self::caught(static fn () => AbstractLock::restore('key', 'token'));
        self::assertInstanceOf(\Error::class, $e);
        self::assertStringContainsString('abstract', $e->getMessage());
    }

    public function testAnEmptyTokenIsRefused(): void
    {
        $e = self::caught(static fn () => RedisLock::restore('key', ''));
        self::assertInstanceOf(\ValueError::class, $e);
        self::assertStringStartsWith('RedisLock::restore(): Argument #2 ($token) ', $e->getMessage());
    }

    /** Acquires and leaves the key; returns the token. */
    private function handOut(string $key, string $backend): string
    {
        $lock = new RedisLock($key, 10, autoRelease: false, servers: self::address($backend));
        self::assertTrue($lock->acquire());

        return $lock->getToken();
    }
}

class RestoredLock extends RedisLock
{
    public array $notes = ['note'];

    public function getKey(): string
    {
        return parent::getKey() . '!';
    }
}

abstract class AbstractLock extends RedisLock
{
}
