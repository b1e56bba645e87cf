<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\CommandException;
use RedisLock\ConnectionException;
use RedisLock\Exception;
use RedisLock\LockLostException;
use RedisLock\LockTimeoutException;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\RedisServer;

/** Our exceptions are ordinary PHP exceptions. */
final class ExceptionsTest extends LockTestCase
{
    public static function classes(): array
    {
        return ['base' => [Exception::class], 'connection' => [ConnectionException::class],
            'command' => [CommandException::class], 'time-out' => [LockTimeoutException::class],
            'lost' => [LockLostException::class]];
    }

    /** @dataProvider classes */
    #[DataProvider('classes')]
    public function testTheirFamily(string $class): void
    {
        self::assertTrue(is_a($class, Exception::class, true));
        self::assertTrue(is_a($class, \RuntimeException::class, true));
        self::assertSame($class === Exception::class ? \RuntimeException::class : Exception::class, get_parent_class($class));
    }

    /** @dataProvider classes */
    #[DataProvider('classes')]
    public function testNew(string $class): void
    {
        $previous = new \Exception('before');
        $e = new $class('words', 7, $previous);
        self::assertSame(['words', 7, $previous, __FILE__, __LINE__ - 1],
            [$e->getMessage(), $e->getCode(), $e->getPrevious(), $e->getFile(), $e->getLine()]);
        self::assertSame('testNew', $e->getTrace()[0]['function']);
        self::assertStringContainsString("$class: words", (string) $e);

        $e = new $class();
        self::assertSame('', $e->getMessage());
        self::assertNull($e->getPrevious());
        if ($e instanceof LockLostException) {
            self::assertNull($e->getResult());
        }
    }

    /** @dataProvider classes */
    #[DataProvider('classes')]
    public function testThrowAndCatch(string $class): void
    {
        $this->expectException($class);
        $this->expectExceptionMessage('words');
        throw new $class('words');
    }

    /** @dataProvider classes */
    #[DataProvider('classes')]
    public function testSerialize(string $class): void
    {
        $e = self::thrown($class);
        // The arguments in a trace may be anything, such as the closures of PHPUnit.
        $trace = new \ReflectionProperty(\Exception::class, 'trace');
        $trace->setValue($e, []);
        $copy = unserialize(serialize($e));
        self::assertInstanceOf($class, $copy);
        self::assertSame([$e->getMessage(), $e->getFile(), $e->getLine()], [$copy->getMessage(), $copy->getFile(), $copy->getLine()]);
        if ($e instanceof LockLostException) {
            self::assertSame(['done'], $copy->getResult());
        }
    }

    /** @dataProvider classes */
    #[DataProvider('classes')]
    public function testFileLineAndTrace(string $class): void
    {
        $e = self::thrown($class);
        self::assertSame($class, $e::class);
        self::assertNotSame('', $e->getMessage());
        self::assertSame(__FILE__, $e->getFile());
        $source = file(__FILE__)[$e->getLine() - 1];
        self::assertStringContainsString('/* ' . substr(strrchr($class, '\\'), 1) . ' */', $source);
        if ($class !== Exception::class) {
            self::assertSame('RedisLock', $e->getTrace()[0]['class']);
            self::assertSame('->', $e->getTrace()[0]['type']);
            self::assertContains($e->getTrace()[0]['function'], ['acquire', 'synchronized']);
        }
        self::assertNull($e->getPrevious());
    }

    public function testArgumentErrorsPointToTheCall(): void
    {
        $e = self::caught(static fn () => new RedisLock('key', -1));
        self::assertSame([__FILE__, __LINE__ - 1], [$e->getFile(), $e->getLine()]);
        self::assertSame('__construct', $e->getTrace()[0]['function']);
    }

    public function testSubclasses(): void
    {
        $e = new Overtaken('words', ['stock' => 3]);
        self::assertSame('words', $e->getMessage());
        self::assertSame(['stock' => 3], $e->detail);
        self::assertNull($e->getResult());
        self::assertInstanceOf(Exception::class, $e);
    }

    public function testTheResultOfALostLockIsFreedWithIt(): void
    {
        $e = self::thrown(LockLostException::class, $object = new \stdClass());
        $weak = \WeakReference::create($object);
        self::assertSame($object, $e->getResult());
        unset($e, $object);
        gc_collect_cycles();
        self::assertNull($weak->get());
    }

    public function testATokenIsNotShownInATrace(): void
    {
        if (PHP_VERSION_ID < 80_200) {
            self::assertFalse(class_exists(\SensitiveParameterValue::class), 'this PHP cannot hide arguments');

            return;
        }
        $before = ini_set('zend.exception_ignore_args', '0');
        try {
            $e = self::caught(static fn () => RedisLock::restore('key', 'a secret token', -1));
        } finally {
            ini_set('zend.exception_ignore_args', $before);
        }
        self::assertInstanceOf(\SensitiveParameterValue::class, $e->getTrace()[0]['args'][1]);
    }

    /** An exception of the class as the extension throws it (the base one is never thrown by itself). */
    private static function thrown(string $class, mixed $result = ['done']): Exception
    {
        $lock = new RedisLock(self::key(), servers: RedisServer::shared()->tcp());
        $down = new RedisLock('key', servers: 'redis://127.0.0.1:' . RedisServer::freePort());
        try {
            switch ($class) {
                case Exception::class:
                    throw new Exception('base'); /* Exception */
                case ConnectionException::class:
                    $down->acquire(); /* ConnectionException */
                    break;
                case CommandException::class:
                    RedisServer::shared()->command('CONFIG', 'SET', 'maxmemory', 1);
                    $lock->acquire(); /* CommandException */
                    break;
                case LockTimeoutException::class:
                    RedisServer::shared()->command('SET', $lock->getKey(), 'another');
                    $lock->synchronized('time', 0); /* LockTimeoutException */
                    break;
                case LockLostException::class:
                    $lock->synchronized([new Losing($lock, $result), 'work']); /* LockLostException */
                    break;
            }
        } catch (Exception $e) {
            return $e;
        } finally {
            RedisServer::shared()->command('CONFIG', 'SET', 'maxmemory', 0);
        }
        self::fail('Nothing was thrown.');
    }
}

class Overtaken extends LockLostException
{
    public function __construct(string $message, public readonly array $detail)
    {
        parent::__construct($message);
    }
}

class Losing
{
    public function __construct(private RedisLock $lock, private mixed $result)
    {
    }

    public function work(): mixed
    {
        RedisServer::shared()->command('DEL', $this->lock->getKey());

        return $this->result;
    }
}
