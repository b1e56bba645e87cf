<?php

namespace RedisLock\Tests;

use RedisLock;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\RedisServer;
use RedisLockFactory;

/** Servers, prefix and defaults in one object. */
final class FactoryTest extends LockTestCase
{
    public function testItsLocksHaveItsServerPrefixAndDefaults(): void
    {
        $server = RedisServer::shared();
        $factory = new RedisLockFactory($server->tcp(), 'app:', 5.0, autoRelease: false);
        $lock = $factory->createLock('key');
        self::assertSame(RedisLock::class, $lock::class);
        self::assertSame('key', $lock->getKey());
        self::assertTrue($lock->acquire());
        self::assertSame(['app:key'], $server->command('KEYS', '*'));
        self::assertLessThanOrEqual(5.0, $lock->getHolder()['ttl']);
        unset($lock);
        self::assertSame(1, $server->command('EXISTS', 'app:key'), 'autoRelease: false');
    }

    public function testALockMayDifferFromTheDefaults(): void
    {
        $server = RedisServer::shared();
        $factory = new RedisLockFactory($server->tcp(), ttl: 5.0, autoRelease: false);
        $lock = $factory->createLock('key', 20.0, autoRelease: true);
        self::assertTrue($lock->acquire());
        self::assertGreaterThan(10.0, $lock->getHolder()['ttl']);
        unset($lock);
        self::assertSame(0, $server->command('EXISTS', 'key'));

        $factory = new RedisLockFactory($server->tcp());
        $lock = $factory->createLock('key', autoRelease: false);
        self::assertTrue($lock->acquire());
        self::assertGreaterThan(25.0, $lock->getHolder()['ttl'], "the setting's");
        unset($lock);
        self::assertSame(1, $server->command('EXISTS', 'key'));
    }

    public function testRestoreLock(): void
    {
        $server = RedisServer::shared();
        $factory = new RedisLockFactory($server->tcp(), 'app:', 5.0);
        $lock = $factory->createLock('key', autoRelease: false);
        $lock->acquire();
        $token = $lock->getToken();
        unset($lock);

        $handle = $factory->restoreLock('key', $token, autoRelease: false);
        self::assertFalse($handle->isAcquired());
        self::assertTrue($handle->refresh());
        unset($handle);
        self::assertSame(1, $server->command('EXISTS', 'app:key'));

        $handle = $factory->restoreLock('key', $token, 20);
        self::assertTrue($handle->refresh());
        self::assertGreaterThan(15.0, $handle->getRemainingLifetime());
        unset($handle);
        self::assertSame(0, $server->command('EXISTS', 'app:key'));
        self::assertFalse($factory->restoreLock('key', $token)->refresh());
    }

    public function testItDoesNoIO(): void
    {
        $factory = new RedisLockFactory('redis://127.0.0.1:' . RedisServer::freePort());
        self::assertFalse($factory->createLock('key')->isAcquired());
        self::assertFalse($factory->restoreLock('key', 'token')->isAcquired());
    }

    public function testItsLocksOutliveIt(): void
    {
        $factory = new RedisLockFactory('memory://', self::key());
        $lock = $factory->createLock('key');
        unset($factory);
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->release());
    }

    public function testASubclass(): void
    {
        $factory = new class('memory://') extends RedisLockFactory {
            public function createLock(
                string $key,
                ?float $ttl = null,
                ?bool $renew = null,
                ?float $maxHold = null,
                ?bool $interrupt = null,
                ?bool $fencing = null,
                ?bool $autoRelease = null,
                ?int $minReplicas = null,
                ?float $restartGuard = null,
            ): RedisLock {
                return parent::createLock("sub:$key", $ttl ?? 3.0, $renew, $maxHold, $interrupt, $fencing, $autoRelease);
            }
        };
        $lock = $factory->createLock('key');
        self::assertSame('sub:key', $lock->getKey());
        self::assertTrue($lock->acquire());
        self::assertLessThanOrEqual(3.0, $lock->getRemainingLifetime());
    }
}
