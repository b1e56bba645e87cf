<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\LockLostException;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\RedisServer;

/** Leases of a fixed ttl that end before their release: their holder is told, and they are counted. */
final class LossTest extends LockTestCase
{
    private RedisLock $lock;
    private RedisLock $next;
    private int $lostBefore;

    private function locks(string $backend, float $ttl = 0.15): void
    {
        $key = self::key();
        $this->lock = new RedisLock($key, $ttl, servers: self::address($backend));
        $this->next = new RedisLock($key, servers: self::address($backend));
        $this->lostBefore = RedisLock::stats()['lost'];
    }

    private function assertLost(int $times): void
    {
        self::assertSame($times, RedisLock::stats()['lost'] - $this->lostBefore);
    }

    /** Until it knows that it is over, and another has the key. */
    private function overrun(): void
    {
        self::eventually(fn () => $this->lock->isExpired(), 'the end of the validity');
        self::assertFalse($this->lock->isAcquired());
        self::assertSame(0.0, $this->lock->getRemainingLifetime());
        self::assertTrue($this->next->acquire(5));
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testItIsKnownWithoutAskingAndCountedOnceItIsSure(string $backend): void
    {
        $this->locks($backend);
        self::assertTrue($this->lock->acquire());
        $this->overrun();
        self::assertFalse($this->lock->refresh());
        self::assertFalse($this->lock->refresh());
        self::assertFalse($this->lock->release());
        self::assertFalse($this->lock->release());
        $this->assertLost(1);
        self::assertTrue($this->next->refresh(), 'it is left alone');
        self::assertFalse($this->lock->acquire());
        self::assertTrue($this->next->release());
        self::assertTrue($this->lock->acquire(), 'the object can be used again');
        self::assertTrue($this->lock->isAcquired());
        self::assertTrue($this->lock->release());
        $this->assertLost(1);
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testSynchronizedTellsOfItAndOfTheResult(string $backend): void
    {
        $this->locks($backend);
        $result = new \stdClass();
        $e = self::caught(fn () => $this->lock->synchronized(function () use ($result): object {
            $this->overrun();

            return $result;
        }));
        self::assertSame(LockLostException::class, $e::class);
        self::assertSame($result, $e->getResult());
        self::assertStringStartsWith("The lock \"{$this->lock->getKey()}\" was lost before its holder had finished", $e->getMessage());
        $this->assertLost(1);
        self::assertTrue($this->next->refresh(), 'it is left alone');
        self::assertFalse($this->lock->isAcquired());
        self::assertFalse($this->lock->release());
        $this->assertLost(1);
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testSynchronizedLetsTheCallablesOwnExceptionThroughAndWarns(string $backend): void
    {
        $this->locks($backend);
        $thrown = new \DomainException('mine', 3, new \Exception('its own'));
        $trace = $thrown->getTrace();
        [$caught, $warnings] = self::withWarnings(fn () => self::caught(
            fn () => $this->lock->synchronized(function () use ($thrown): never {
                $this->overrun();
                throw $thrown;
            }),
        ));
        self::assertSame($thrown, $caught);
        self::assertSame(['mine', 3, 'its own'], [$caught->getMessage(), $caught->getCode(), $caught->getPrevious()->getMessage()]);
        self::assertSame($trace, $caught->getTrace());
        self::assertCount(1, $warnings);
        $text = "The lock \"{$this->lock->getKey()}\" was lost before the exception that ended its holder";
        self::assertStringContainsString($text, $warnings[0]);
        $this->assertLost(1);
        self::assertTrue($this->next->refresh(), 'it is left alone');
    }

    public function testWhatIsReleasedInTimeOrTakenFromSomebodyElseIsNoLoss(): void
    {
        $this->locks('tcp', 30);
        $this->lock->acquire();
        self::assertFalse($this->next->acquire());
        self::assertFalse($this->next->release());
        self::assertFalse(RedisLock::restore($this->lock->getKey(), 'stale', servers: self::address('tcp'))->refresh());
        self::assertTrue($this->lock->forceRelease(), 'its own');
        self::assertFalse($this->lock->release());
        $this->lock->synchronized(fn () => $this->lock->release());
        $this->assertLost(0);
    }

    public function testItIsCountedAlsoWhereTheObjectGoesOnToTheNext(): void
    {
        foreach ([
            'a new token' => new RedisLock(self::key(), 0.1, servers: self::address('unix')),
            'a token of its own' => RedisLock::restore(self::key(), 'token', 0.1, servers: self::address('unix')),
        ] as $kind => $lock) {
            $before = RedisLock::stats()['lost'];
            self::assertTrue($lock->acquire());
            self::eventually(static fn () => $lock->getHolder() === null, 'the end of the key');
            self::assertTrue($lock->acquire());
            self::assertSame($before + 1, RedisLock::stats()['lost'], $kind);
            self::eventually(static fn () => $lock->release() || $lock->isExpired(), 'the release');
        }
    }

    public function testEachProcessCountsForItself(): void
    {
        $server = RedisServer::shared();
        $process = PhpProcess::code('
            $lose = function () use ($argv): void {
                $lock = new RedisLock("key", servers: $argv[1]);
                $lock->acquire();
                (new RedisLock("key", servers: $argv[1]))->forceRelease();
                $lock->release();
            };
            $none = ["lost" => 0, "renewals" => 0, "renewalErrors" => 0, "interrupts" => 0, "kept" => 0];
            var_dump(RedisLock::stats() == $none);
            $lose();
            $lose();
            var_dump(RedisLock::stats() == ["lost" => 2] + $none);
            if (pcntl_fork() === 0) {
                var_dump(RedisLock::stats() == $none);
                $lose();
                var_dump(RedisLock::stats() == ["lost" => 1] + $none);
                exit;
            }
            pcntl_wait($status);
            var_dump(RedisLock::stats() == ["lost" => 2] + $none);
        ', [$server->unix()]);
        self::assertSame(0, $process->wait());
        self::assertSame(str_repeat("bool(true)\n", 5), $process->output());
    }
}
