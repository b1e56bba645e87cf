<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\TcpProxy;

/** The request reached the server, its reply is lost: a lost reply is not a lost lock. */
final class LostReplyTest extends LockTestCase
{
    private RedisServer $server;
    private TcpProxy $proxy;

    protected function setUp(): void
    {
        parent::setUp();
        $this->setting('command_timeout', '0.3');
        $this->server = RedisServer::shared();
        $this->proxy = new TcpProxy($this->server->port);
    }

    protected function tearDown(): void
    {
        $this->proxy->stop();
        parent::tearDown();
    }

    /** How a reply gets lost: with the connection, or in silence. */
    public static function losses(): array
    {
        return [
            'connection closed' => [static fn (TcpProxy $proxy, int $times = 1) => $proxy->loseReply(times: $times)],
            'silence' => [static fn (TcpProxy $proxy, int $times = 1) => $proxy->swallowReply(times: $times)],
        ];
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testAcquire(\Closure $lose): void
    {
        $lock = $this->lock();
        $lose($this->proxy);
        $start = hrtime(true);
        self::assertTrue(self::withinDeadline(static fn () => $lock->acquire()), 'at once, not after the ttl');
        $elapsed = (hrtime(true) - $start) / 1e9;

        self::assertTrue($lock->isAcquired());
        self::assertSame($lock->getToken(), $this->server->command('GET', 'key'));
        // We never believe more than Redis.
        $remaining = $lock->getRemainingLifetime();
        self::assertLessThanOrEqual($this->server->command('PTTL', 'key') / 1000, $remaining);
        self::assertGreaterThan(30 - 0.302 - $elapsed - self::SLACK, $remaining);
        self::assertTrue($lock->release());
        self::assertSame(0, $this->server->command('EXISTS', 'key'));
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testAcquireOfABusyKey(\Closure $lose): void
    {
        $this->server->command('SET', 'key', 'another', 'PX', 60_000);
        $lock = $this->lock();
        $lose($this->proxy);
        self::assertFalse(self::withinDeadline(static fn () => $lock->acquire()));
        $lose($this->proxy);
        self::assertFalse(self::withinDeadline(static fn () => $lock->acquire(0.2), 0.2));
        self::assertSame('another', $this->server->command('GET', 'key'));
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testAcquireOfAHandle(\Closure $lose): void
    {
        $handle = RedisLock::restore('key', 'owner', servers: $this->proxy->tcp());
        $lose($this->proxy);
        self::assertTrue(self::withinDeadline(static fn () => $handle->acquire()));
        self::assertSame('owner', $this->server->command('GET', 'key'));
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testAcquireWithoutAnyReplyIsAnErrorThatBlocksNobody(\Closure $lose): void
    {
        $lock = $this->lock();
        $lose($this->proxy, 100);
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire()));
        self::assertSame(ConnectionException::class, $e::class);
        self::assertFalse($lock->isAcquired());
        self::assertStringContainsString($this->proxy->tcp(), $e->getMessage());

        $this->proxy->pass();
        self::assertTrue($lock->acquire(), 'not busy by its own request');
        self::assertTrue($lock->release());

        $lose($this->proxy, 100);
        self::caught(static fn () => $lock->acquire());
        self::assertSame(1, $this->server->command('EXISTS', 'key'));
        $this->proxy->pass();
        unset($lock, $e);
        self::assertSame(0, $this->server->command('EXISTS', 'key'), 'a dropped object takes its request back');
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testSynchronizedWithoutAnyReplyCallsNothing(\Closure $lose): void
    {
        $lock = $this->lock();
        $lose($this->proxy, 100);
        $e = self::caught(static fn () => self::withinDeadline(
            static fn () => $lock->synchronized(static fn () => self::fail('not to be called'), 0),
        ));
        self::assertSame(ConnectionException::class, $e::class);
        $this->proxy->pass();
        self::assertSame(1, $lock->synchronized(static fn () => 1, 0));
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testRelease(\Closure $lose): void
    {
        $lock = $this->lock();
        // Once for a server that knows the script already, once for one that does not.
        for ($round = 0; $round < 2; $round++) {
            $lock->acquire();
            $lose($this->proxy);
            self::assertTrue(self::withinDeadline(static fn () => $lock->release()));
            self::assertSame(0, $this->server->command('EXISTS', 'key'));
            self::assertFalse($lock->isAcquired());
            self::assertFalse($lock->isExpired());
            self::assertNull($lock->getToken());
            $this->server->command('SCRIPT', 'FLUSH');
        }
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testSynchronizedWhoseReleaseReplyIsLostIsNoLoss(\Closure $lose): void
    {
        $lock = $this->lock();
        [$value, $warnings] = self::withWarnings(fn () => $lock->synchronized(function () use ($lose): string {
            $lose($this->proxy);

            return 'kept';
        }));
        self::assertSame('kept', $value);
        self::assertSame([], $warnings);
        self::assertSame(0, $this->server->command('EXISTS', 'key'));
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testReleaseWithoutAnyReplyKeepsTheToken(\Closure $lose): void
    {
        $lock = $this->lock();
        $lock->acquire();
        $token = $lock->getToken();
        $lose($this->proxy, 100);
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->release()));
        self::assertSame(ConnectionException::class, $e::class);
        self::assertSame($token, $lock->getToken());
        self::assertStringNotContainsString($token, $e->getMessage());

        $this->proxy->pass();
        // Someone else has it by now; that a release ran in between is what the first ones were for.
        $this->server->command('SET', 'key', 'another', 'PX', 60_000);
        self::assertTrue($lock->release());
        self::assertNull($lock->getToken());
        self::assertSame('another', $this->server->command('GET', 'key'));
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testRefresh(\Closure $lose): void
    {
        $lock = $this->lock();
        $lock->acquire();
        $lose($this->proxy);
        self::assertTrue(self::withinDeadline(static fn () => $lock->refresh(60)));
        self::assertGreaterThan(50.0, $lock->getRemainingLifetime());
        self::assertLessThanOrEqual($this->server->command('PTTL', 'key') / 1000, $lock->getRemainingLifetime());
        self::assertTrue($lock->release());
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testRefreshWithoutAnyReplyIsNoReasonToBelieveMoreOrLess(\Closure $lose): void
    {
        $lock = $this->lock();
        $lock->acquire();
        $before = $lock->getRemainingLifetime();
        $lose($this->proxy, 100);
        self::assertInstanceOf(ConnectionException::class, self::caught(static fn () => $lock->refresh(60)));
        self::assertTrue($lock->isAcquired());
        self::assertLessThan($before, $lock->getRemainingLifetime());

        // One that shortens may have been carried out: no more than it leaves may be believed.
        self::assertInstanceOf(ConnectionException::class, self::caught(static fn () => $lock->refresh(2)));
        self::assertLessThanOrEqual(2.0, $lock->getRemainingLifetime());
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testGetHolder(\Closure $lose): void
    {
        $lock = $this->lock();
        $lock->acquire();
        $lose($this->proxy);
        self::assertSame(getmypid(), self::withinDeadline(static fn () => $lock->getHolder())['pid']);
    }

    /** @dataProvider losses */
    #[DataProvider('losses')]
    public function testForceRelease(\Closure $lose): void
    {
        $this->server->command('SET', 'key', 'another');
        $lock = $this->lock();
        $lock->getHolder();
        $lose($this->proxy);
        self::withinDeadline(static fn () => $lock->forceRelease());
        self::assertSame(0, $this->server->command('EXISTS', 'key'));
    }

    public function testALateReplyIsNotTakenForTheNextOne(): void
    {
        $this->server->command('SET', 'other', 'another');
        $lock = $this->lock();
        $lock->acquire();
        $this->proxy->delay(0.8);
        self::assertInstanceOf(ConnectionException::class, self::caught(static fn () => $lock->refresh()));
        $this->proxy->delay(0);
        usleep(900_000);
        self::assertFalse((new RedisLock('other', servers: $this->proxy->tcp()))->acquire());
        self::assertNull((new RedisLock('free', servers: $this->proxy->tcp()))->getHolder());
        self::assertTrue($lock->refresh());
        self::assertTrue($lock->release());
    }

    public function testAConnectionThatIsCutAgainAndAgain(): void
    {
        $lock = $this->lock();
        for ($i = 0; $i < 30; $i++) {
            self::assertTrue($lock->acquire());
            $this->proxy->cut();
            self::assertTrue($lock->refresh());
            $this->proxy->cut();
            self::assertTrue($lock->release());
            $this->proxy->cut();
        }
    }

    private function lock(): RedisLock
    {
        return new RedisLock('key', servers: $this->proxy->tcp());
    }
}
