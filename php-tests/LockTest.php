<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\Tests\Support\LockTestCase;

/** What a lock promises, over every way to a store. */
final class LockTest extends LockTestCase
{
    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testAcquireAndRelease(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, servers: self::address($backend));
        self::assertSame($key, $lock->getKey());
        self::assertFalse($lock->isAcquired());
        self::assertFalse($lock->isExpired());
        self::assertNull($lock->getToken());
        self::assertNull($lock->getRemainingLifetime());
        self::assertFalse($lock->release(), 'nothing to release');

        self::assertTrue($lock->acquire());
        self::assertTrue($lock->isAcquired());
        self::assertFalse($lock->isExpired());
        self::assertNotNull($lock->getToken());
        self::assertNotNull($lock->getRemainingLifetime());

        self::assertTrue($lock->release());
        self::assertFalse($lock->isAcquired());
        self::assertFalse($lock->isExpired());
        self::assertNull($lock->getToken());
        self::assertNull($lock->getRemainingLifetime());
        self::assertFalse($lock->release(), 'released already');
        self::assertNull($lock->getHolder());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testTwoObjectsWithOneKeyExcludeEachOther(string $backend): void
    {
        $key = self::key();
        $first = new RedisLock($key, servers: self::address($backend));
        $second = new RedisLock($key, servers: self::address($backend));

        self::assertTrue($first->acquire());
        self::assertFalse($second->acquire());
        self::assertFalse($second->isAcquired());
        self::assertFalse($second->isExpired());
        self::assertNull($second->getToken());
        self::assertNull($second->getRemainingLifetime());
        self::assertFalse($second->release(), 'nobody frees what another holds');
        self::assertFalse($second->refresh());

        self::assertTrue($first->isAcquired());
        self::assertTrue($first->release());
        self::assertTrue($second->acquire());
        self::assertFalse($first->acquire());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testDifferentKeysDoNotExcludeEachOther(string $backend): void
    {
        $locks = [];
        for ($i = 0; $i < 20; $i++) {
            $locks[] = $lock = new RedisLock(self::key(), servers: self::address($backend));
            self::assertTrue($lock->acquire());
        }
        foreach ($locks as $lock) {
            self::assertTrue($lock->release());
        }
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testTheKeyIsPrefixAndKeyPutTogether(string $backend): void
    {
        $key = self::key();
        $whole = new RedisLock("app:$key", servers: self::address($backend), prefix: '');
        $parts = new RedisLock($key, servers: self::address($backend), prefix: 'app:');
        $other = new RedisLock($key, servers: self::address($backend), prefix: '');

        self::assertTrue($whole->acquire());
        self::assertFalse($parts->acquire());
        self::assertSame($key, $parts->getKey(), 'as it was given');
        self::assertTrue($other->acquire());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testEveryAcquisitionDrawsItsOwnToken(string $backend): void
    {
        $lock = new RedisLock(self::key(), servers: self::address($backend));
        $tokens = [];
        for ($i = 0; $i < 50; $i++) {
            self::assertTrue($lock->acquire());
            $tokens[] = $lock->getToken();
            self::assertTrue($lock->release());
        }
        self::assertCount(50, array_unique($tokens));
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testAcquireOnAHeldLockThrowsAndLeavesTheLeaseAlone(string $backend): void
    {
        $lock = new RedisLock(self::key(), servers: self::address($backend));
        $lock->acquire();
        $token = $lock->getToken();

        self::assertInstanceOf(\LogicException::class, self::caught(static fn () => $lock->acquire()));
        self::assertInstanceOf(\LogicException::class, self::caught(static fn () => $lock->acquire(0.1)));
        self::assertInstanceOf(\LogicException::class, self::caught(
            static fn () => $lock->synchronized(static fn () => self::fail('not to be called')),
        ));

        self::assertTrue($lock->isAcquired());
        self::assertSame($token, $lock->getToken());
        self::assertTrue($lock->release());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testAWaitGivesUpWhenItsTimeIsOver(string $backend): void
    {
        $key = self::key();
        $holder = new RedisLock($key, servers: self::address($backend));
        $holder->acquire();
        $waiter = new RedisLock($key, servers: self::address($backend));

        [$acquired, $seconds] = self::timed(static fn () => $waiter->acquire(0.3));
        self::assertFalse($acquired);
        self::assertGreaterThanOrEqual(0.299, $seconds);
        self::assertLessThan(0.3 + self::SLACK, $seconds);
        self::assertNull($waiter->getToken());
    }

    public static function longWaits(): array
    {
        $rows = [];
        foreach (self::backends() as $name => [$backend]) {
            $rows["$name, 20 s"] = [$backend, 20];
            $rows["$name, no limit"] = [$backend, INF];
        }

        return $rows;
    }

    /** @dataProvider longWaits */
    #[DataProvider('longWaits')]
    public function testAWaitGetsTheKeyWhenTheLeaseBeforeItEnds(string $backend, float $wait): void
    {
        $key = self::key();
        $holder = new RedisLock($key, 0.4, servers: self::address($backend));
        $waiter = new RedisLock($key, servers: self::address($backend));
        $holder->acquire();

        [$acquired, $seconds] = self::timed(static fn () => $waiter->acquire($wait));
        self::assertTrue($acquired);
        self::assertGreaterThan(0.3, $seconds);
        self::assertLessThan(0.4 + self::SLACK, $seconds);
        self::assertFalse($holder->isAcquired());
        self::assertTrue($holder->isExpired());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testTheRemainingLifetimeIsTheTtlLessTheDriftAllowance(string $backend): void
    {
        $lock = new RedisLock(self::key(), 10.0, servers: self::address($backend));
        $lock->acquire();
        $first = $lock->getRemainingLifetime();
        self::assertIsFloat($first);
        self::assertLessThanOrEqual(10.0 - 0.1 - 0.002, $first);
        self::assertGreaterThan(10.0 - 0.1 - 0.002 - self::SLACK, $first);

        usleep(20_000);
        self::assertLessThanOrEqual($first - 0.02, $lock->getRemainingLifetime());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testRefreshExtendsFromNow(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, 2.0, servers: self::address($backend));
        self::assertFalse($lock->refresh(), 'nothing to extend');
        $lock->acquire();
        $token = $lock->getToken();

        self::assertTrue($lock->refresh(20));
        self::assertGreaterThan(15.0, $lock->getRemainingLifetime());
        self::assertGreaterThan(15.0, $lock->getHolder()['ttl']);
        self::assertSame($token, $lock->getToken());

        self::assertTrue($lock->refresh());
        self::assertLessThanOrEqual(2.0 - 0.02 - 0.002, $lock->getRemainingLifetime(), "null: the constructor's");
        self::assertLessThanOrEqual(2.0, $lock->getHolder()['ttl']);
        self::assertTrue($lock->release());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testALeaseThatIsRefreshedOutlivesItsFirstTtl(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, 0.5, servers: self::address($backend));
        $lock->acquire();
        self::assertTrue($lock->refresh(30));
        usleep(600_000);
        self::assertTrue($lock->isAcquired());
        self::assertFalse((new RedisLock($key, servers: self::address($backend)))->acquire());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testAnExpiredLeaseStaysEnded(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, 0.05, servers: self::address($backend));
        $lock->acquire();
        usleep(80_000);

        self::assertFalse($lock->isAcquired());
        self::assertTrue($lock->isExpired());
        self::assertSame(0.0, $lock->getRemainingLifetime());
        self::assertFalse($lock->refresh(), 'refresh never creates');
        self::assertNull($lock->getHolder());
        self::assertFalse($lock->release());
        self::assertFalse($lock->isAcquired());

        self::assertTrue($lock->acquire(), 'the object can be used again');
        self::assertFalse($lock->isExpired());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testAnExpiredLeaseDoesNotTouchItsSuccessor(string $backend): void
    {
        $key = self::key();
        $late = new RedisLock($key, 0.05, servers: self::address($backend));
        $late->acquire();
        usleep(80_000);
        $next = new RedisLock($key, servers: self::address($backend));
        self::assertTrue($next->acquire());

        self::assertFalse($late->release());
        self::assertFalse($late->refresh());
        self::assertFalse($late->acquire());
        unset($late);
        self::assertTrue($next->refresh());
        self::assertTrue($next->release());
    }

    /**
     * Our validity ends a little before the key does; in between the key is there, and nobody's but ours.
     *
     * @dataProvider backends
     */
    #[DataProvider('backends')]
    public function testAcquireInTheLastMomentsOfTheOldLeaseIsNotBusyByItself(string $backend): void
    {
        $lock = new RedisLock(self::key(), 1.0, servers: self::address($backend));
        $lock->acquire();
        while ($lock->isAcquired()) {
            usleep(200);
        }
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->isAcquired());
        self::assertGreaterThan(0.5, $lock->getRemainingLifetime());
        self::assertTrue($lock->release());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testALockThatIsDroppedIsFree(string $backend): void
    {
        $key = self::key();
        $other = new RedisLock($key, servers: self::address($backend));
        $lock = new RedisLock($key, servers: self::address($backend));
        $lock->acquire();
        unset($lock);
        self::assertNull($other->getHolder());

        try {
            (static function () use ($key, $backend): never {
                $lock = new RedisLock($key, servers: self::address($backend));
                $lock->acquire();
                throw new \DomainException();
            })();
        } catch (\DomainException $e) {
            unset($e);
        }
        self::assertTrue($other->acquire());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testWithoutAutoReleaseTheKeyIsLeftToItsTtl(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, 0.5, autoRelease: false, servers: self::address($backend));
        $lock->acquire();
        unset($lock);

        $other = new RedisLock($key, servers: self::address($backend));
        self::assertFalse($other->acquire());
        self::assertTrue($other->acquire(10));
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testGetHolderTellsWhoHoldsTheKey(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, 20, servers: self::address($backend));
        $other = new RedisLock($key, servers: self::address($backend));
        self::assertNull($other->getHolder());

        $before = time();
        $lock->acquire();
        $holder = $other->getHolder();
        self::assertSame(['host', 'pid', 'since', 'ttl'], array_keys($holder));
        self::assertSame(gethostname(), $holder['host']);
        self::assertSame(getmypid(), $holder['pid']);
        self::assertContains($holder['since'], range($before, time()));
        self::assertIsFloat($holder['ttl']);
        self::assertLessThanOrEqual(20.0, $holder['ttl']);
        self::assertGreaterThan(20.0 - self::SLACK, $holder['ttl']);
        self::assertEquals($holder['pid'], $lock->getHolder()['pid'], 'the holder itself may ask, too');
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testForceReleaseFreesWhoeversLeaseItIs(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, servers: self::address($backend));
        $operator = new RedisLock($key, servers: self::address($backend));
        self::assertFalse($operator->forceRelease(), 'nobody held it');

        $lock->acquire();
        self::assertTrue($operator->forceRelease());
        self::assertNull($operator->getHolder());
        self::assertFalse($lock->refresh());
        self::assertFalse($lock->isAcquired(), 'the holder knows once it asked');
        self::assertTrue($lock->isExpired());
        self::assertFalse($lock->release());
        self::assertFalse($operator->forceRelease());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testForceReleaseOfTheOwnLease(string $backend): void
    {
        $lock = new RedisLock(self::key(), servers: self::address($backend));
        $lock->acquire();
        self::assertTrue($lock->forceRelease());
        self::assertFalse($lock->isAcquired());
        self::assertFalse($lock->release());
        self::assertTrue($lock->acquire());
    }
}
