<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\RedisServer;
use RedisLockFactory;

/** What PHP does to objects: half-made ones, subclasses, copies, doubles. */
final class ObjectTest extends LockTestCase
{
    public static function callsOnALock(): array
    {
        return [
            'acquire' => [static fn (RedisLock $lock) => $lock->acquire()],
            'acquire with a wait' => [static fn (RedisLock $lock) => $lock->acquire(0.1)],
            'synchronized' => [static fn (RedisLock $lock) => $lock->synchronized(static fn () => null)],
            'release' => [static fn (RedisLock $lock) => $lock->release()],
            'refresh' => [static fn (RedisLock $lock) => $lock->refresh()],
            'isAcquired' => [static fn (RedisLock $lock) => $lock->isAcquired()],
            'isExpired' => [static fn (RedisLock $lock) => $lock->isExpired()],
            'getRemainingLifetime' => [static fn (RedisLock $lock) => $lock->getRemainingLifetime()],
            'getKey' => [static fn (RedisLock $lock) => $lock->getKey()],
            'getToken' => [static fn (RedisLock $lock) => $lock->getToken()],
            'getHolder' => [static fn (RedisLock $lock) => $lock->getHolder()],
            'forceRelease' => [static fn (RedisLock $lock) => $lock->forceRelease()],
        ];
    }

    /** @dataProvider callsOnALock */
    #[DataProvider('callsOnALock')]
    public function testAnObjectWithoutItsConstructorThrows(\Closure $call): void
    {
        $bare = (new \ReflectionClass(RedisLock::class))->newInstanceWithoutConstructor();
        self::assertNotSame('', self::caught(static fn () => $call($bare))->getMessage());

        $forgetful = new ForgetfulLock();
        self::assertNotSame('', self::caught(static fn () => $call($forgetful))->getMessage());
    }

    public function testAFactoryWithoutItsConstructorThrows(): void
    {
        $bare = (new \ReflectionClass(RedisLockFactory::class))->newInstanceWithoutConstructor();
        self::assertNotSame('', self::caught(static fn () => $bare->createLock('key'))->getMessage());
        self::assertNotSame('', self::caught(static fn () => $bare->restoreLock('key', 'token'))->getMessage());
    }

    public function testASecondConstructionIsRefusedAndTheLeaseStays(): void
    {
        $lock = new RedisLock('first', servers: 'memory://');
        $lock->acquire();
        $e = self::caught(static fn () => $lock->__construct('second', servers: 'memory://'));
        self::assertInstanceOf(\LogicException::class, $e);
        self::assertSame('first', $lock->getKey());
        self::assertTrue($lock->release());

        $factory = new RedisLockFactory('memory://', 'a:');
        $e = self::caught(static fn () => $factory->__construct('memory://', 'b:'));
        self::assertInstanceOf(\LogicException::class, $e);
        $lock = $factory->createLock('key');
        $lock->acquire();
        self::assertNotNull((new RedisLock('a:key', servers: 'memory://'))->getHolder());
    }

    public function testARestoredLockCountsAsConstructed(): void
    {
        $handle = RedisLock::restore('key', 'token', servers: 'memory://');
        self::assertInstanceOf(\LogicException::class, self::caught(static fn () => $handle->__construct('other')));
        self::assertSame('key', $handle->getKey());
    }

    public function testAFailedConstructionMayBeRepeated(): void
    {
        $lock = (new \ReflectionClass(RedisLock::class))->newInstanceWithoutConstructor();
        self::assertInstanceOf(\ValueError::class, self::caught(static fn () => $lock->__construct('')));
        $lock->__construct('key', servers: 'memory://');
        self::assertTrue($lock->acquire());
    }

    public static function classes(): array
    {
        return ['lock' => [RedisLock::class], 'subclass' => [ExtendedLock::class], 'factory' => [RedisLockFactory::class]];
    }

    public function testACopyOfALockIsRefused(): void
    {
        foreach ([RedisLock::class, ExtendedLock::class] as $class) {
            $lock = new $class(self::key(), servers: 'memory://');
            $lock->acquire();
            $e = self::caught(static fn () => clone $lock);
            self::assertInstanceOf(\Error::class, $e);
            self::assertStringContainsString('uncloneable', $e->getMessage());
            unset($e);
            self::assertTrue($lock->refresh(), 'the copy that was not made freed nothing');
        }
    }

    /** @dataProvider classes */
    #[DataProvider('classes')]
    public function testSerializeIsRefused(string $class): void
    {
        $object = $class === RedisLockFactory::class ? new $class('memory://') : new $class('key', servers: 'memory://');
        $e = self::caught(static fn () => serialize($object));
        self::assertStringContainsString('not allowed', $e->getMessage());
    }

    /** @dataProvider classes */
    #[DataProvider('classes')]
    public function testUnserializeIsRefused(string $class): void
    {
        foreach (['O:%d:"%s":0:{}', 'C:%d:"%s":0:{}'] as $format) {
            set_error_handler(static fn () => true); // C: without a handler is a warning
            try {
                $object = unserialize(sprintf($format, strlen($class), $class));
                self::assertFalse($object);
            } catch (\Exception $e) {
                self::assertStringContainsString('not allowed', $e->getMessage());
            } finally {
                restore_error_handler();
            }
        }
    }

    public function testAnUnserializedSubclassIsNoLock(): void
    {
        // A subclass may bring its own unserialization; what comes of it has no lease and does no harm.
        $name = SerializableLock::class;
        try {
            $object = unserialize(sprintf('O:%d:"%s":0:{}', strlen($name), $name));
        } catch (\Exception $e) {
            self::assertStringContainsString('not allowed', $e->getMessage());

            return;
        }
        self::assertNotSame('', self::caught(static fn () => $object->acquire())->getMessage());
    }

    public function testASubclassIsALock(): void
    {
        $key = self::key();
        $lock = new ExtendedLock($key, servers: RedisServer::shared()->tcp());
        $lock->mark = 'kept';
        self::assertTrue($lock->acquire());
        self::assertSame(['acquire'], $lock->calls);
        self::assertFalse((new RedisLock($key, servers: RedisServer::shared()->tcp()))->acquire());

        $lock->release();
        self::assertSame(1, $lock->synchronized(static fn () => 1));
        self::assertSame('kept', $lock->mark);

        $lock->acquire();
        unset($lock);
        self::assertSame(0, RedisServer::shared()->command('EXISTS', $key));
    }

    public function testASubclassWithItsOwnConstructorAndDestructor(): void
    {
        $key = self::key();
        $lock = new NamedLock($key);
        self::assertTrue($lock->acquire());
        NamedLock::$atDestruction = null;
        unset($lock);
        self::assertTrue(NamedLock::$atDestruction, 'a destructor of PHP still has the lease');
        self::assertNull((new RedisLock($key, servers: 'memory://'))->getHolder());
    }

    public function testALockInACycleIsFreedByTheCollector(): void
    {
        $lock = new ExtendedLock($key = self::key(), servers: 'memory://');
        $lock->acquire();
        $lock->mark = $lock;
        unset($lock);
        gc_collect_cycles();
        self::assertNull((new RedisLock($key, servers: 'memory://'))->getHolder());
    }

    public function testNothingSecretIsShown(): void
    {
        $lock = new RedisLock('key', servers: 'redis://user:hidden@127.0.0.1:1');
        $handle = RedisLock::restore('key', 'hidden', servers: 'memory://');
        $factory = new RedisLockFactory('redis://user:hidden@127.0.0.1:1');
        foreach ([$lock, $handle, $factory] as $object) {
            ob_start();
            var_dump($object);
            $shown = ob_get_clean() . print_r($object, true) . var_export($object, true) . json_encode($object)
                . serialize((array) $object);
            self::assertStringNotContainsString('hidden', $shown);
        }
    }

    public function testComparisonIsByIdentity(): void
    {
        $lock = new RedisLock('key', servers: 'memory://');
        self::assertTrue($lock === $lock);
        self::assertFalse($lock === new RedisLock('key', servers: 'memory://'));
        self::assertCount(2, array_unique([spl_object_id($lock), spl_object_id(new RedisLock('key'))]));
    }

    public function testPhpUnitDoublesALock(): void
    {
        $lock = $this->createMock(RedisLock::class);
        $lock->expects(self::once())->method('acquire')->with(5.0)->willReturn(true);
        $lock->expects(self::once())->method('synchronized')->willReturnCallback(static fn (callable $c) => $c());
        $lock->expects(self::once())->method('getHolder')->willReturn(['host' => 'h', 'pid' => 1, 'since' => 2, 'ttl' => 3.0]);
        self::assertTrue($lock->acquire(5.0));
        self::assertSame('in', $lock->synchronized(static fn () => 'in'));
        self::assertSame('h', $lock->getHolder()['host']);

        $stub = $this->createStub(RedisLock::class);
        $stub->method('isAcquired')->willReturn(true);
        self::assertTrue($stub->isAcquired());
        self::assertFalse($stub->release(), 'a default of its type');
        self::assertNull($stub->getToken());
    }

    public function testPhpUnitDoublesAFactory(): void
    {
        $lock = $this->createStub(RedisLock::class);
        $lock->method('acquire')->willReturn(false);
        $factory = $this->createMock(RedisLockFactory::class);
        $factory->expects(self::once())->method('createLock')->with('invoice:7', 5.0)->willReturn($lock);
        self::assertFalse($factory->createLock('invoice:7', 5.0)->acquire());
    }

    public function testPhpUnitDoublesAPartOfALock(): void
    {
        $lock = $this->getMockBuilder(RedisLock::class)
            ->setConstructorArgs(['key' => self::key(), 'ttl' => 5.0, 'autoRelease' => true, 'servers' => 'memory://'])
            ->onlyMethods(['getHolder'])
            ->getMock();
        $lock->expects(self::once())->method('getHolder')->willReturn(null);
        self::assertTrue($lock->acquire());
        self::assertNull($lock->getHolder());
        self::assertTrue($lock->release());
    }

    public function testObjectsThatLiveToTheEndOfTheProcess(): void
    {
        // Half-made, held, handed out, static and cyclic ones: the end must be quiet, and must free what is held.
        $server = RedisServer::shared();
        $process = PhpProcess::code('
            class Holder { public static $lock; public $other; }
            Holder::$lock = new RedisLock("static", servers: $argv[1]);
            Holder::$lock->acquire();
            $bare = (new ReflectionClass("RedisLock"))->newInstanceWithoutConstructor();
            $cycle = new Holder();
            $cycle->other = [$cycle, new RedisLock("cycle", servers: $argv[1])];
            $cycle->other[1]->acquire();
            $left = new RedisLock("left", autoRelease: false, servers: $argv[1]);
            $left->acquire();
            $handle = RedisLock::restore("key", "token", servers: $argv[1]);
        ', [$server->tcp()]);
        self::assertSame(0, $process->wait());
        self::assertSame('', $process->output() . $process->errorOutput());
        self::assertSame(['left'], $server->command('KEYS', '*'));
    }
}

class ExtendedLock extends RedisLock
{
    public mixed $mark = null;
    public array $calls = [];

    public function acquire(float $wait = 0.0): bool
    {
        $this->calls[] = 'acquire';

        return parent::acquire($wait);
    }
}

class ForgetfulLock extends RedisLock
{
    public function __construct()
    {
    }
}

class NamedLock extends RedisLock
{
    public static ?bool $atDestruction = null;

    public function __construct(string $name)
    {
        parent::__construct($name, servers: 'memory://');
    }

    public function __destruct()
    {
        self::$atDestruction = $this->isAcquired();
    }
}

class SerializableLock extends RedisLock
{
    public function __serialize(): array
    {
        return [];
    }

    public function __unserialize(array $data): void
    {
    }
}
