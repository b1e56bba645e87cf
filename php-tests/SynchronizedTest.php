<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\LockLostException;
use RedisLock\LockTimeoutException;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\RedisServer;

/** What synchronized() promises: the value or the exception of the callable, and a free key on every way out. */
final class SynchronizedTest extends LockTestCase
{
    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testItHoldsTheKeyWhileTheCallableRuns(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, servers: self::address($backend));
        $other = new RedisLock($key, servers: self::address($backend));

        self::assertSame('done', $lock->synchronized(static function () use ($lock, $other): string {
            self::assertSame([], func_get_args(), 'no arguments');
            self::assertTrue($lock->isAcquired());
            self::assertFalse($other->acquire());

            return 'done';
        }));
        self::assertFalse($lock->isAcquired());
        self::assertFalse($lock->isExpired());
        self::assertTrue($other->acquire());
    }

    public function testAnyCallableAndAnyValue(): void
    {
        $lock = $this->lock();
        $object = new \ArrayObject([1]);

        self::assertSame(PHP_VERSION, $lock->synchronized('phpversion'));
        self::assertSame($object->getArrayCopy(), $lock->synchronized([$object, 'getArrayCopy']));
        self::assertSame($object, $lock->synchronized(static fn () => $object));
        self::assertSame(1, $lock->synchronized($object->count(...)));
        self::assertSame(DATE_ATOM, $lock->synchronized([self::class, 'aStaticMethod']));
        self::assertSame(7, $lock->synchronized(new class() {
            public function __invoke(): int
            {
                return 7;
            }
        }));
        self::assertNull($lock->synchronized(static function (): void {
        }));
        self::assertFalse($lock->synchronized(static fn () => false));
        self::assertSame([1, [2, null]], $lock->synchronized(static fn () => [1, [2, null]]));
        self::assertSame("\0\xff", $lock->synchronized(static fn () => "\0\xff"));

        // A value that a reference or a static variable also holds must stay whole.
        $count = static function (): array {
            static $calls = [];
            $calls[] = count($calls);

            return $calls;
        };
        self::assertSame([0], $lock->synchronized($count));
        self::assertSame([0, 1], $lock->synchronized($count));
    }

    public static function aStaticMethod(): string
    {
        return DATE_ATOM;
    }

    public function testItsValueIsFreedWithItsLastUse(): void
    {
        $value = $this->lock()->synchronized(static fn () => new \ArrayObject());
        $weak = \WeakReference::create($value);
        unset($value);
        self::assertNull($weak->get());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testAnExceptionGoesThroughUntouchedAndTheKeyIsFree(string $backend): void
    {
        $lock = new RedisLock(self::key(), servers: self::address($backend));
        $thrown = new \DomainException('mine', 42, new \Exception('before'));

        $caught = self::caught(static fn () => $lock->synchronized(static fn () => throw $thrown));
        self::assertSame($thrown, $caught);
        self::assertSame('before', $caught->getPrevious()->getMessage());
        self::assertNull($lock->getHolder());

        $error = self::caught(static fn () => $lock->synchronized(static fn () => intdiv(1, 0)));
        self::assertInstanceOf(\DivisionByZeroError::class, $error);
        self::assertNull($lock->getHolder());
    }

    public function testItReleasesWithoutAutoRelease(): void
    {
        $lock = new RedisLock(self::key(), autoRelease: false, servers: RedisServer::shared()->tcp());
        self::assertSame(1, $lock->synchronized(static fn () => 1));
        self::assertNull($lock->getHolder());
        self::caught(static fn () => $lock->synchronized(static fn () => throw new \Exception()));
        self::assertNull($lock->getHolder());
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testTimeOut(string $backend): void
    {
        $key = self::key();
        $holder = new RedisLock($key, servers: self::address($backend));
        $holder->acquire();
        $lock = new RedisLock($key, servers: self::address($backend));
        $critical = static fn () => self::fail('not to be called');

        [$e, $seconds] = self::timed(
            static fn () => self::caught(static fn () => $lock->synchronized($critical, 0.2)),
        );
        self::assertInstanceOf(LockTimeoutException::class, $e);
        self::assertStringContainsString($key, $e->getMessage());
        self::assertStringNotContainsString(substr($holder->getToken(), 0, 32), $e->getMessage());
        self::assertGreaterThanOrEqual(0.199, $seconds);
        self::assertLessThan(0.2 + self::SLACK, $seconds);

        [$e, $seconds] = self::timed(
            static fn () => self::caught(static fn () => $lock->synchronized($critical, wait: 0)),
        );
        self::assertInstanceOf(LockTimeoutException::class, $e);
        self::assertLessThan(self::SLACK, $seconds);
        self::assertTrue($holder->isAcquired());
    }

    public function testMessagesAreFitForALogWhateverTheKeyIs(): void
    {
        foreach (["a\0b\r\nc\x1b[31m\xff", str_repeat('long', 1 << 18)] as $key) {
            $lock = new RedisLock($key, 0.05, servers: 'memory://');
            $lost = self::caught(static fn () => $lock->synchronized(static fn () => usleep(80_000)));
            self::assertTrue($lock->acquire() && $lock->refresh(30));
            $timeout = self::caught(static fn () => (new RedisLock($key, servers: 'memory://'))->synchronized('time', 0));
            $twice = self::caught(static fn () => $lock->acquire());
            foreach ([$lost, $timeout, $twice] as $e) {
                self::assertLessThan(1_000, strlen($e->getMessage()));
                self::assertDoesNotMatchRegularExpression('/[\x00-\x1f\x7f]/', $e->getMessage());
            }
        }
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testItWaitsForTheKey(string $backend): void
    {
        $key = self::key();
        $holder = new RedisLock($key, 0.2, servers: self::address($backend));
        $holder->acquire();
        self::assertSame(5, (new RedisLock($key, servers: self::address($backend)))->synchronized(static fn () => 5));
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testLostBecauseTheTtlEnded(string $backend): void
    {
        $lock = new RedisLock(self::key(), 0.05, servers: self::address($backend));
        $e = self::caught(static fn () => $lock->synchronized(static function (): array {
            usleep(80_000);

            return ['worked', 'all', 'the same'];
        }));
        self::assertInstanceOf(LockLostException::class, $e);
        self::assertSame(['worked', 'all', 'the same'], $e->getResult());
        self::assertFalse($lock->isAcquired());
        self::assertTrue($lock->acquire(), 'the object can be used again');
    }

    public function testLostBecauseTheKeyWentAway(): void
    {
        $lock = $this->lock();
        $object = new \stdClass();
        $e = self::caught(static fn () => $lock->synchronized(static function () use ($lock, $object): object {
            RedisServer::shared()->command('DEL', $lock->getKey());

            return $object;
        }));
        self::assertInstanceOf(LockLostException::class, $e);
        self::assertSame($object, $e->getResult());
        self::assertNull($e->getPrevious());
    }

    public function testLostToSomeoneElseWhoseKeyStays(): void
    {
        $lock = $this->lock();
        $e = self::caught(static fn () => $lock->synchronized(static function () use ($lock): void {
            RedisServer::shared()->command('SET', $lock->getKey(), 'another', 'PX', 60_000);
        }));
        self::assertInstanceOf(LockLostException::class, $e);
        self::assertNull($e->getResult());
        self::assertSame('another', RedisServer::shared()->command('GET', $lock->getKey()));
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testLostAndThrownGivesTheExceptionAndAWarning(string $backend): void
    {
        $lock = new RedisLock(self::key(), 0.05, servers: self::address($backend));
        $thrown = new \DomainException('mine');
        [$caught, $warnings] = self::withWarnings(static fn () => self::caught(
            static fn () => $lock->synchronized(static function () use ($thrown): never {
                usleep(80_000);
                throw $thrown;
            }),
        ));
        self::assertSame($thrown, $caught);
        self::assertNull($caught->getPrevious());
        self::assertCount(1, $warnings);
        self::assertStringContainsString($lock->getKey(), $warnings[0]);
    }

    public function testAnErrorHandlerThatThrowsDoesNotHideTheCallablesException(): void
    {
        $lock = $this->lock();
        set_error_handler(static fn (int $level, string $message) => throw new \ErrorException($message, 0, $level));
        try {
            $caught = self::caught(static fn () => $lock->synchronized(static function () use ($lock): never {
                RedisServer::shared()->command('DEL', $lock->getKey());
                throw new \DomainException('mine');
            }));
        } finally {
            restore_error_handler();
        }
        self::assertInstanceOf(\DomainException::class, $caught);
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testACallableThatReleasesItselfLostNothing(string $backend): void
    {
        $key = self::key();
        $lock = new RedisLock($key, servers: self::address($backend));
        $next = new RedisLock($key, servers: self::address($backend));
        [$value, $warnings] = self::withWarnings(
            static fn () => $lock->synchronized(static function () use ($lock, $next): string {
                self::assertTrue($lock->release());
                self::assertTrue($next->acquire());

                return 'early';
            }),
        );
        self::assertSame('early', $value);
        self::assertSame([], $warnings);
        self::assertTrue($next->refresh(), "the next holder's lease is left alone");
    }

    public function testACallableThatReleasesAndTakesItAgainIsFreedAtTheEnd(): void
    {
        $lock = $this->lock();
        self::assertSame(1, $lock->synchronized(static function () use ($lock): int {
            $lock->release();
            self::assertTrue($lock->acquire());

            return 1;
        }));
        self::assertFalse($lock->isAcquired());
        self::assertNull($lock->getHolder());
    }

    public function testACallableMayRefresh(): void
    {
        $lock = new RedisLock(self::key(), 0.3, servers: RedisServer::shared()->tcp());
        self::assertSame(1, $lock->synchronized(static function () use ($lock): int {
            self::assertTrue($lock->refresh(30));
            usleep(400_000);

            return 1;
        }));
    }

    /** @dataProvider backends */
    #[DataProvider('backends')]
    public function testAGeneratorIsRefusedAndItsBodyNeverRuns(string $backend): void
    {
        $lock = new RedisLock(self::key(), servers: self::address($backend));
        $e = self::caught(static fn () => $lock->synchronized(static function (): \Generator {
            self::fail('not to be run');
            yield 1;
        }));
        self::assertInstanceOf(\LogicException::class, $e);
        self::assertStringContainsString('Generator', $e->getMessage());
        self::assertNull($lock->getHolder());

        // Any other iterator is a value like all others.
        self::assertInstanceOf(\Iterator::class, $lock->synchronized(static fn () => new \ArrayIterator()));
    }

    public function testInsideItselfItThrows(): void
    {
        $lock = $this->lock();
        $e = self::caught(static fn () => $lock->synchronized(
            static fn () => $lock->synchronized(static fn () => self::fail('not to be called')),
        ));
        self::assertInstanceOf(\LogicException::class, $e);
        self::assertNull($lock->getHolder());
    }

    public function testAnotherLockInside(): void
    {
        $outer = $this->lock();
        $inner = $this->lock();
        self::assertSame(3, $outer->synchronized(static function () use ($outer, $inner): int {
            $value = $inner->synchronized(static function () use ($outer): int {
                self::assertTrue($outer->isAcquired());

                return 3;
            });
            self::assertTrue($outer->isAcquired());

            return $value;
        }));
    }

    public function testTheLockMayBeDroppedWhileItsCallableRuns(): void
    {
        $key = self::key();
        $lock = new RedisLock($key, servers: RedisServer::shared()->tcp());
        $value = $lock->synchronized(static function () use (&$lock, $key): string {
            $lock = null;
            gc_collect_cycles();
            self::assertSame(1, RedisServer::shared()->command('EXISTS', $key), 'still held');

            return 'done';
        });
        self::assertSame('done', $value);
        self::assertSame(0, RedisServer::shared()->command('EXISTS', $key));
    }

    public function testWithoutAConnectionForTheReleaseTheValueIsReturnedWithAWarning(): void
    {
        $this->setting('command_timeout', 0.3);
        $server = new RedisServer();
        foreach ([$server->tcp(), $server->unix()] as $address) {
            $lock = new RedisLock('key', servers: $address);
            [$value, $warnings] = self::withWarnings(
                static fn () => self::withinDeadline(static fn () => $lock->synchronized(static function () use ($server) {
                    $server->kill();

                    return 'kept';
                })),
            );
            self::assertSame('kept', $value);
            self::assertCount(1, $warnings);
            $server->start();
        }
    }

    public function testWithoutAConnectionForTheReleaseTheCallablesExceptionGoesThrough(): void
    {
        $this->setting('command_timeout', 0.3);
        $server = new RedisServer();
        $lock = new RedisLock('key', servers: $server->tcp());
        $thrown = new \DomainException();
        [$caught, $warnings] = self::withWarnings(
            static fn () => self::caught(static fn () => $lock->synchronized(static function () use ($server, $thrown) {
                $server->kill();
                throw $thrown;
            })),
        );
        self::assertSame($thrown, $caught);
        self::assertCount(1, $warnings);
    }

    public function testNothingIsCalledWhenTheServerIsDown(): void
    {
        $lock = new RedisLock('key', servers: 'redis://127.0.0.1:' . RedisServer::freePort());
        $e = self::caught(static fn () => $lock->synchronized(static fn () => self::fail('not to be called'), 5));
        self::assertInstanceOf(\RedisLock\ConnectionException::class, $e);
    }

    private function lock(): RedisLock
    {
        return new RedisLock(self::key(), servers: RedisServer::shared()->tcp());
    }

    public function testAKeyThatWasOursToTheEndWasNotLost(): void
    {
        $lock = new RedisLock('key', ttl: 0.1, servers: RedisServer::shared()->tcp());
        $value = $lock->synchronized(static function () use ($lock): string {
            // Redis keeps it for longer than this side may count on.
            RedisServer::shared()->command('PEXPIRE', 'key', 60_000);
            self::eventually(static fn () => $lock->isExpired(), 'the validity ends');

            return 'done';
        });
        self::assertSame('done', $value);
    }

    public function testOneTryTellsWhoHoldsTheLock(): void
    {
        foreach ([RedisServer::shared()->tcp(), 'memory://'] as $address) {
            $key = self::key();
            $holder = new RedisLock($key, servers: $address);
            $holder->acquire();
            $e = self::caught(static fn () => (new RedisLock($key, servers: $address))->synchronized('time', 0));
            self::assertInstanceOf(LockTimeoutException::class, $e);
            self::assertStringContainsString((string) getmypid(), $e->getMessage());
            self::assertStringNotContainsString($holder->getToken(), $e->getMessage());
        }
    }
}
