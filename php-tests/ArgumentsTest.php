<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\Strict;
use RedisLock\Tests\Support\Weak;
use RedisLockFactory;

/**
 * Arguments are taken as PHP's own functions take them. So PHP is asked: a built-in function with a parameter of the
 * same type gets each value, too, from the same kind of file, and what it says or makes of it is what we must say or
 * make of it.
 */
final class ArgumentsTest extends LockTestCase
{
    /** One row for each parameter; its last column makes the call, and shows which value arrived. */
    public static function parameters(): array
    {
        $memory = ['servers' => 'memory://'];
        $ttl = static function (RedisLock $lock): float {
            self::assertTrue($lock->acquire());

            return round($lock->getHolder()['ttl']);
        };
        $staysAfterDrop = static function (?RedisLock $lock): bool {
            $lock->acquire();
            $key = $lock->getKey();
            $lock = null;

            return (new RedisLock($key, servers: 'memory://'))->getHolder() !== null;
        };
        $kept = static fn (): int => RedisLock::stats()['kept'];
        $renews = static function (RedisLock $lock) use ($kept): bool {
            $before = $kept();
            $lock->acquire();

            return $kept() > $before;
        };
        $interrupts = static function (RedisLock $lock) use ($kept): bool {
            $before = $kept();

            return $lock->synchronized(static fn () => $kept() > $before);
        };
        $fences = static fn (RedisLock $lock): bool => $lock->acquire() && $lock->getFence() !== null;
        $isLock = static fn (RedisLock $lock): bool => true;
        $names = static function (RedisLock $lock): array {
            RedisServer::shared()->flush();
            self::assertTrue($lock->acquire());

            return RedisServer::shared()->command('KEYS', '*');
        };
        $token = static fn (RedisLock $lock): ?string => $lock->acquire() ? $lock->getToken() : null;

        $tcp = static fn () => RedisServer::shared()->tcp();
        $new = static fn (string $in, mixed ...$arguments) => $in::create(RedisLock::class, ...$arguments);
        $factory = static fn (string $in, mixed ...$arguments) => $in::create(RedisLockFactory::class, ...$arguments);
        $restore = static fn (string $in, mixed ...$arguments) => $in::call(RedisLock::restore(...), ...$arguments);
        $create = static fn (string $in, mixed ...$arguments) => $in::call((new RedisLockFactory('memory://'))->createLock(...), ...$arguments);
        $handle = static fn (string $in, mixed ...$arguments) => $in::call((new RedisLockFactory('memory://'))->restoreLock(...), ...$arguments);
        $free = static fn () => new RedisLock(self::key(), servers: 'memory://');
        $refresh = static function (string $in, mixed $v) use ($free): float {
            $lock = $free();
            $lock->acquire();
            self::assertTrue($in::call($lock->refresh(...), $v));

            return round($lock->getHolder()['ttl']);
        };

        $rows = [
            'RedisLock::__construct' => [
                ['key', 'string', static fn ($in, $v) => $new($in, $v, ...$memory)->getKey()],
                ['ttl', '?float', static fn ($in, $v) => $ttl($new($in, self::key(), $v, ...$memory))],
                ['renew', '?bool', static fn ($in, $v) => $renews($new($in, self::key(), 1.0, $v, ...$memory))],
                ['maxHold', '?float', static fn ($in, $v) => $isLock($new($in, self::key(), 1.0, true, $v, ...$memory))],
                ['interrupt', 'bool', static fn ($in, $v) => $interrupts($new($in, self::key(), 1.0, false, null, $v, ...$memory))],
                ['fencing', 'bool', static fn ($in, $v) => $fences($new($in, self::key(), 1.0, null, null, false, $v, ...$memory))],
                ['autoRelease', 'bool', static fn ($in, $v) => $staysAfterDrop($new($in, self::key(), 1.0, null, null, false, false, $v, ...$memory))],
                ['minReplicas', 'int', static fn ($in, $v) => $isLock($new($in, 'key', 1.0, null, null, false, false, true, $v, null, 'redis://127.0.0.1'))],
                ['restartGuard', '?float', static fn ($in, $v) => $isLock($new($in, 'key', 0.005, null, null, false, false, true, 0, $v, ...$memory))],
                ['servers', 'array|string|null', static fn ($in, $v) => $new($in, 'key', null, null, null, false, false, true, 0, null, $v)->getKey()],
                ['prefix', '?string', static fn ($in, $v) => $names($new($in, 'key', null, null, null, false, false, true, 0, null, $tcp(), $v))],
            ],
            'RedisLock::acquire' => [
                ['wait', 'float', static fn ($in, $v) => $in::call($free()->acquire(...), $v)],
            ],
            'RedisLock::synchronized' => [
                1 => ['wait', '?float', static fn ($in, $v) => $in::call($free()->synchronized(...), static fn () => 'value', $v)],
            ],
            'RedisLock::refresh' => [
                ['ttl', '?float', $refresh],
            ],
            'RedisLock::restore' => [
                ['key', 'string', static fn ($in, $v) => $restore($in, $v, 'token', ...$memory)->getKey()],
                ['token', 'string', static fn ($in, $v) => $token($restore($in, self::key(), $v, ...$memory))],
                ['ttl', '?float', static fn ($in, $v) => $ttl($restore($in, self::key(), 'token', $v, ...$memory))],
                ['renew', '?bool', static fn ($in, $v) => $renews($restore($in, self::key(), 'token', 1.0, $v, ...$memory))],
                ['maxHold', '?float', static fn ($in, $v) => $isLock($restore($in, self::key(), 'token', 1.0, true, $v, ...$memory))],
                ['interrupt', 'bool', static fn ($in, $v) => $interrupts($restore($in, self::key(), 'token', 1.0, false, null, $v, ...$memory))],
                ['fencing', 'bool', static fn ($in, $v) => $fences($restore($in, self::key(), 'token', 1.0, null, null, false, $v, ...$memory))],
                ['autoRelease', 'bool', static fn ($in, $v) => $staysAfterDrop($restore($in, self::key(), 'token', 1.0, null, null, false, false, $v, ...$memory))],
                ['minReplicas', 'int', static fn ($in, $v) => $isLock($restore($in, 'key', 'token', 1.0, null, null, false, false, true, $v, null, 'redis://127.0.0.1'))],
                ['restartGuard', '?float', static fn ($in, $v) => $isLock($restore($in, 'key', 'token', 0.005, null, null, false, false, true, 0, $v, ...$memory))],
                ['servers', 'array|string|null', static fn ($in, $v) => $restore($in, 'key', 'token', null, null, null, false, false, true, 0, null, $v)->getKey()],
                ['prefix', '?string', static fn ($in, $v) => $names($restore($in, 'key', 'token', null, null, null, false, false, true, 0, null, $tcp(), $v))],
                ['fence', '?int', static fn ($in, $v) => $restore($in, 'key', 'token', null, null, null, false, false, true, 0, null, 'memory://', null, $v)->getFence()],
            ],
            'RedisLockFactory::__construct' => [
                ['servers', 'array|string|null', static fn ($in, $v) => $factory($in, $v)->createLock('key')->getKey()],
                ['prefix', '?string', static fn ($in, $v) => $names($factory($in, $tcp(), $v)->createLock('key'))],
                ['ttl', '?float', static fn ($in, $v) => $ttl($factory($in, 'memory://', null, $v)->createLock(self::key()))],
                ['renew', '?bool', static fn ($in, $v) => $renews($factory($in, 'memory://', null, 1.0, $v)->createLock(self::key()))],
                ['maxHold', '?float', static fn ($in, $v) => $isLock($factory($in, 'memory://', null, 1.0, true, $v)->createLock(self::key()))],
                ['interrupt', 'bool', static fn ($in, $v) => $interrupts($factory($in, 'memory://', null, 1.0, false, null, $v)->createLock(self::key()))],
                ['fencing', 'bool', static fn ($in, $v) => $fences($factory($in, 'memory://', null, 1.0, null, null, false, $v)->createLock(self::key()))],
                ['autoRelease', 'bool', static fn ($in, $v) => $staysAfterDrop($factory($in, 'memory://', null, 1.0, null, null, false, false, $v)->createLock(self::key()))],
                ['minReplicas', 'int', static fn ($in, $v) => $isLock($factory($in, 'redis://127.0.0.1', null, 1.0, null, null, false, false, true, $v)->createLock('key'))],
                ['restartGuard', '?float', static fn ($in, $v) => $isLock($factory($in, 'memory://', null, 0.005, null, null, false, false, true, 0, $v)->createLock('key'))],
            ],
            'RedisLockFactory::createLock' => [
                ['key', 'string', static fn ($in, $v) => $create($in, $v)->getKey()],
                ['ttl', '?float', static fn ($in, $v) => $ttl($create($in, self::key(), $v))],
                ['renew', '?bool', static fn ($in, $v) => $renews($create($in, self::key(), 1.0, $v))],
                ['maxHold', '?float', static fn ($in, $v) => $isLock($create($in, self::key(), 1.0, true, $v))],
                ['interrupt', '?bool', static fn ($in, $v) => $interrupts($create($in, self::key(), 1.0, false, null, $v))],
                ['fencing', '?bool', static fn ($in, $v) => $fences($create($in, self::key(), 1.0, null, null, null, $v))],
                ['autoRelease', '?bool', static fn ($in, $v) => $staysAfterDrop($create($in, self::key(), 1.0, null, null, null, null, $v))],
                ['minReplicas', '?int', static fn ($in, $v) => $isLock($in::call((new RedisLockFactory('redis://127.0.0.1'))->createLock(...), 'key', 1.0, null, null, null, null, null, $v))],
                ['restartGuard', '?float', static fn ($in, $v) => $isLock($create($in, 'key', 0.005, null, null, null, null, null, null, $v))],
            ],
            'RedisLockFactory::restoreLock' => [
                ['key', 'string', static fn ($in, $v) => $handle($in, $v, 'token')->getKey()],
                ['token', 'string', static fn ($in, $v) => $token($handle($in, self::key(), $v))],
                ['ttl', '?float', static fn ($in, $v) => $ttl($handle($in, self::key(), 'token', $v))],
                ['renew', '?bool', static fn ($in, $v) => $renews($handle($in, self::key(), 'token', 1.0, $v))],
                ['maxHold', '?float', static fn ($in, $v) => $isLock($handle($in, self::key(), 'token', 1.0, true, $v))],
                ['interrupt', '?bool', static fn ($in, $v) => $interrupts($handle($in, self::key(), 'token', 1.0, false, null, $v))],
                ['fencing', '?bool', static fn ($in, $v) => $fences($handle($in, self::key(), 'token', 1.0, null, null, null, $v))],
                ['autoRelease', '?bool', static fn ($in, $v) => $staysAfterDrop($handle($in, self::key(), 'token', 1.0, null, null, null, null, $v))],
                ['minReplicas', '?int', static fn ($in, $v) => $isLock($in::call((new RedisLockFactory('redis://127.0.0.1'))->restoreLock(...), 'key', 'token', 1.0, null, null, null, null, null, $v))],
                ['restartGuard', '?float', static fn ($in, $v) => $isLock($handle($in, 'key', 'token', 0.005, null, null, null, null, null, null, $v))],
                ['fence', '?int', static fn ($in, $v) => $handle($in, 'key', 'token', null, null, null, null, null, null, null, null, $v)->getFence()],
            ],
        ];
        $named = [];
        foreach ($rows as $function => $parameters) {
            foreach ($parameters as $index => [$name, $type, $use]) {
                foreach (['weak' => Weak::class, 'strict' => Strict::class] as $mode => $in) {
                    $named["$function \$$name, $mode"] = [$in, $function, $index + 1, $name, $type, $use];
                }
            }
        }

        return $named;
    }

    /** @dataProvider parameters */
    #[DataProvider('parameters')]
    public function testAsPhpsOwnFunctions(
        string $in,
        string $function,
        int $position,
        string $name,
        string $type,
        \Closure $use,
    ): void {
        RedisServer::shared(); // starts it: its own notices are none of ours
        $nullable = $type[0] === '?' || str_ends_with($type, '|null');
        foreach (self::values() as $shown => $value) {
            if ($value === null && $nullable) {
                self::assertNull($this->outcome(static fn () => $use($in, null))['thrown'], "null for $name");
                continue;
            }
            $php = $this->outcome(match (ltrim($type, '?')) {
                'float' => static fn () => $in::call('fdiv', $value, 1.0),
                'int' => static fn () => $in::call('intdiv', $value, 1),
                'string' => static fn () => $in::call('strtr', $value, '', ''),
                'bool' => static fn () => $in::call('in_array', 1, ['1'], $value),
                'array|string|null' => static function () use ($in, $value): array|string {
                    $in::call('strip_tags', '', $value);

                    return is_array($value) ? $value : (string) $value;
                },
            });
            if ($name === 'wait' && is_bool($value) && $php['thrown'] === null) {
                // The one exception: true would silently mean one second. It is refused as strict types would do.
                $php = $this->outcome(static fn () => Strict::call('fdiv', $value, 1.0));
            }
            $ours = $this->outcome(static fn () => $use($in, $value));
            $what = "$shown for \$$name of $function()";

            $renamed = static fn (?string $message): ?string => $message === null ? null : preg_replace(
                ['/^\w+\(\): (Argument|Passing null to parameter) #\d+ \(\$\w+\)/', '/of type (float|int|string|bool)\b(?!\|)/'],
                ["$function(): $1 #$position (\$$name)", "of type $type"],
                $message,
            );
            self::assertSame(array_map($renamed, $php['notices']), $ours['notices'], $what);
            if ($php['thrown'] !== null) {
                self::assertSame($php['class'], $ours['class'], "$what: $ours[thrown]");
                self::assertSame($renamed($php['thrown']), $ours['thrown'], $what);
                continue;
            }
            // It is converted as PHP converts it, and then used like a value that was of that type at once.
            $converted = $type === 'bool' || $type === '?bool' ? !$php['value'] : $php['value'];
            $expected = $this->outcome(static fn () => $use(Strict::class, $converted));
            unset($ours['notices'], $expected['notices']);
            self::assertEquals($expected, $ours, $what);
        }
    }

    private static function values(): array
    {
        $text = new class() {
            public function __toString(): string
            {
                return 'text';
            }
        };

        return [
            '0' => 0, '-1' => -1, '5' => 5, '0.0' => 0.0, '0.0004' => 0.0004, '0.5' => 0.5, '1.0005' => 1.0005,
            '1e9' => 1e9, 'PHP_INT_MAX' => PHP_INT_MAX, 'INF' => INF, 'NAN' => NAN, 'null' => null, 'true' => true,
            'false' => false, '"5"' => '5', '"5x"' => '5x', '""' => '', '" 5"' => ' 5', '"5 "' => '5 ', '"0x5"' => '0x5',
            '".5"' => '.5', '"1e3"' => '1e3', '"-1"' => '-1', '"nan"' => 'nan', '"0"' => '0', '"abc"' => 'abc',
            'bytes' => "\0\xff", 'array' => [], 'list' => ['redis://127.0.0.1'], 'object' => new \stdClass(),
            'Stringable' => $text, 'closure' => static fn () => 5, 'resource' => STDERR,
        ];
    }

    /** @return array{value: mixed, class: ?string, thrown: ?string, notices: list<string>} */
    private function outcome(callable $call): array
    {
        $outcome = ['value' => null, 'class' => null, 'thrown' => null, 'notices' => []];
        set_error_handler(static function (int $level, string $message) use (&$outcome): bool {
            $outcome['notices'][] = $message;

            return true;
        });
        try {
            $outcome['value'] = $call();
        } catch (\Error $e) {
            $outcome['class'] = $e::class;
            $outcome['thrown'] = $e->getMessage();
        } finally {
            restore_error_handler();
        }

        return $outcome;
    }

    public function testTheWordsForNullableFloatAreThoseOfPhp(): void
    {
        // The built-in that converts has "float"; one with "?float" shows that only this word differs.
        foreach ([Weak::class, Strict::class] as $in) {
            foreach (['5x', [], new \stdClass()] as $value) {
                $php = self::caught(static fn () => $in::call('stream_socket_client', 'tcp://127.0.0.1:1', null, null, $value));
                $ours = self::caught(static fn () => $in::create(RedisLock::class, 'key', $value));
                self::assertSame(
                    str_replace('stream_socket_client(): Argument #4 ($timeout)', 'RedisLock::__construct(): Argument #2 ($ttl)', $php->getMessage()),
                    $ours->getMessage(),
                );
            }
        }
    }

    public function testCallables(): void
    {
        $lock = new RedisLock('key', servers: 'memory://');
        $private = new class() {
            private function hidden(): void
            {
            }
        };
        foreach (['no_such_function', [$lock, 'noSuchMethod'], [$private, 'hidden'], 'A::b', 5, null, [], ['a'], "\0"] as $value) {
            foreach ([Weak::class, Strict::class] as $in) {
                $php = self::caught(static fn () => $in::call('call_user_func', $value));
                $ours = self::caught(static fn () => $in::call($lock->synchronized(...), $value));
                self::assertSame(\TypeError::class, $ours::class);
                self::assertSame(
                    str_replace('call_user_func(): Argument #1 ($callback)', 'RedisLock::synchronized(): Argument #1 ($critical)', $php->getMessage()),
                    $ours->getMessage(),
                );
                self::assertFalse($lock->isAcquired());
                self::assertNull($lock->getHolder());
            }
        }
    }

    public static function refusedTtls(): array
    {
        return ['0' => [0], '0.0' => [0.0], '-0.0' => [-0.0], '-1' => [-1], '-0.001' => [-0.001], '0.0004' => [0.0004],
            '0.002' => [0.002], '2^53 ms and more' => [9007199254741.0], 'PHP_INT_MAX' => [PHP_INT_MAX], '1e300' => [1e300],
            'INF' => [INF], '-INF' => [-INF], 'NAN' => [NAN]];
    }

    /** @dataProvider refusedTtls */
    #[DataProvider('refusedTtls')]
    public function testATtlOutOfRange(int|float $ttl): void
    {
        $held = new RedisLock('key', servers: 'memory://');
        $held->acquire();
        $factory = new RedisLockFactory('memory://');
        $calls = [
            'RedisLock::__construct(): Argument #2' => static fn () => new RedisLock('key', $ttl),
            'RedisLock::restore(): Argument #3' => static fn () => RedisLock::restore('key', 'token', $ttl),
            'RedisLock::refresh(): Argument #1' => static fn () => $held->refresh($ttl),
            'RedisLockFactory::__construct(): Argument #3' => static fn () => new RedisLockFactory(ttl: $ttl),
            'RedisLockFactory::createLock(): Argument #2' => static fn () => $factory->createLock('key', $ttl),
            'RedisLockFactory::restoreLock(): Argument #3' => static fn () => $factory->restoreLock('key', 'token', $ttl),
        ];
        foreach ($calls as $start => $call) {
            $e = self::caught($call);
            self::assertSame(\ValueError::class, $e::class, $start);
            self::assertStringStartsWith("$start (\$ttl) must ", $e->getMessage());
        }
        self::assertGreaterThan(20.0, $held->getRemainingLifetime(), 'the lease is as it was');
        self::assertTrue($held->release());
    }

    public static function exactTtls(): array
    {
        return ['0.0021' => [0.0021, 3], '0.003' => [0.003, 3], '0.5' => [0.5, 500], '1' => [1, 1_000],
            '1.0005' => [1.0005, 1_001], '1.001' => [1.001, 1_001], '8.2' => [8.2, 8_200], '86400' => [86_400, 86_400_000],
            '1e9' => [1e9, 1_000_000_000_000], '2^53 ms' => [2 ** 53 / 1000, 2 ** 53], 'default' => [null, 30_000]];
    }

    /** @dataProvider exactTtls */
    #[DataProvider('exactTtls')]
    public function testATtlIsWholeMillisecondsRoundedUp(int|float|null $ttl, int $milliseconds): void
    {
        $server = RedisServer::shared();
        $key = self::key();
        $server->command('CONFIG', 'SET', 'slowlog-log-slower-than', 0);
        $server->command('SLOWLOG', 'RESET');
        $lock = new RedisLock($key, $ttl, servers: $server->unix());
        try {
            self::assertTrue($lock->acquire());
        } catch (ConnectionException $e) {
            // On a busy machine nothing of a few milliseconds may be left; what was asked for is what counts here.
            self::assertLessThan(0.01, $ttl, $e->getMessage());
        }
        $server->command('CONFIG', 'SET', 'slowlog-log-slower-than', -1);

        $commands = array_column($server->command('SLOWLOG', 'GET', 10), 3);
        $set = array_values(array_filter($commands, static fn (array $words) => strtoupper($words[0]) === 'SET'))[0];
        $px = array_search('PX', array_map(strtoupper(...), $set), true);
        self::assertSame((string) $milliseconds, $set[$px + 1]);
    }

    public static function refusedWaits(): array
    {
        return ['-1' => [-1], '-0.001' => [-0.001], '-INF' => [-INF], 'NAN' => [NAN]];
    }

    /** @dataProvider refusedWaits */
    #[DataProvider('refusedWaits')]
    public function testAWaitOutOfRange(int|float $wait): void
    {
        // Nothing listens there: it is refused before anything is sent.
        $lock = new RedisLock('key', servers: 'redis://127.0.0.1:' . RedisServer::freePort());
        $e = self::caught(static fn () => $lock->acquire($wait));
        self::assertSame(\ValueError::class, $e::class);
        self::assertStringStartsWith('RedisLock::acquire(): Argument #1 ($wait) must ', $e->getMessage());

        $e = self::caught(static fn () => $lock->synchronized(static fn () => self::fail('not to be called'), $wait));
        self::assertSame(\ValueError::class, $e::class);
        self::assertStringStartsWith('RedisLock::synchronized(): Argument #2 ($wait) must ', $e->getMessage());
    }

    public function testAnyOtherWaitWorks(): void
    {
        foreach ([0, -0.0, 0.001, 1e-300, 5, 1e9, 1e300, PHP_INT_MAX, INF] as $wait) {
            $lock = new RedisLock(self::key(), servers: RedisServer::shared()->tcp());
            self::assertTrue($lock->acquire($wait));
            self::assertTrue($lock->release());
            self::assertSame(1, $lock->synchronized(static fn () => 1, $wait));
        }
    }

    public static function keys(): array
    {
        $keys = ['spaces' => ' a  b ', 'newlines' => "a\r\nb\n", 'NUL' => "\0", 'NUL inside' => "a\0b", 'no UTF-8' => "\xff\xfe\x80",
            'UTF-8' => 'Schlüssel 🔑', 'braces' => '{a}{b', 'a closing brace' => '}', 'glob' => '*?[a-z]', 'quotes' => "'\"\\",
            'a number' => '0', 'format' => '%s%n', 'RESP' => "\r\n*1\r\n\$8\r\nFLUSHALL\r\n", '1 MB' => str_repeat("\0\xffkey", 209_716),
            'nearly a helper' => 'a:redis_lock:queues', 'hardly a helper' => 'redis_lock:queue'];
        $rows = [];
        foreach ($keys as $name => $key) {
            $rows["$name, TCP"] = ['tcp', $key];
            $rows["$name, memory"] = ['memory', $key];
        }

        return $rows;
    }

    /** @dataProvider keys */
    #[DataProvider('keys')]
    public function testKeysAndPrefixesAreBytes(string $backend, string $bytes): void
    {
        $address = self::address($backend);
        foreach ([['key' => $bytes], ['key' => 'key', 'prefix' => $bytes]] as $arguments) {
            $lock = new RedisLock(...$arguments, servers: $address);
            $other = new RedisLock(...$arguments, servers: $address);
            self::assertTrue($lock->acquire());
            self::assertSame($arguments['key'], $lock->getKey());
            self::assertFalse($other->acquire());
            self::assertFalse($other->acquire(0.05));
            self::assertSame(getmypid(), $other->getHolder()['pid']);
            if ($backend === 'tcp') {
                self::assertSame([($arguments['prefix'] ?? '') . $arguments['key']], RedisServer::shared()->command('KEYS', '*'));
            }
            self::assertTrue($lock->refresh());
            self::assertTrue($lock->release());
            self::assertTrue($other->acquire());
            self::assertTrue($lock->forceRelease());
        }
    }

    public function testAKeyOfTheFormOfAHelperKeyIsRefused(): void
    {
        $factory = new RedisLockFactory('memory://', 'app:redis_lock:');
        $calls = [
            'RedisLock::__construct(): Argument #1' => static fn () => new RedisLock('a:redis_lock:queue'),
            'RedisLock::restore(): Argument #1' => static fn () => RedisLock::restore(':redis_lock:fence', 'token'),
            'RedisLockFactory::createLock(): Argument #1' => static fn () => $factory->createLock('queue'),
            'RedisLockFactory::restoreLock(): Argument #1' => static fn () => $factory->restoreLock('fence', 'token'),
        ];
        foreach ($calls as $start => $call) {
            $e = self::caught($call);
            self::assertSame(\ValueError::class, $e::class);
            self::assertStringStartsWith("$start (\$key) ", $e->getMessage());
        }
    }

    public function testAnEmptyKeyIsRefused(): void
    {
        $factory = new RedisLockFactory('memory://');
        $calls = [
            'RedisLock::__construct(): Argument #1 ($key) ' => static fn () => new RedisLock(''),
            'RedisLock::restore(): Argument #1 ($key) ' => static fn () => RedisLock::restore('', 'token', prefix: 'app:'),
            'RedisLockFactory::createLock(): Argument #1 ($key) ' => static fn () => $factory->createLock(''),
            'RedisLockFactory::restoreLock(): Argument #2 ($token) ' => static fn () => $factory->restoreLock('key', ''),
        ];
        foreach ($calls as $start => $call) {
            $e = self::caught($call);
            self::assertSame(\ValueError::class, $e::class);
            self::assertStringStartsWith($start, $e->getMessage());
        }
    }

    public function testNamedArguments(): void
    {
        $key = self::key();
        $lock = new RedisLock(prefix: 'p:', servers: RedisServer::shared()->tcp(), key: $key, ttl: 5);
        self::assertTrue($lock->acquire(wait: 0));
        self::assertTrue($lock->refresh(ttl: 6));
        self::assertTrue($lock->release());
        self::assertSame(1, $lock->synchronized(wait: 1, critical: static fn () => 1));
        $handle = RedisLock::restore(token: 'token', key: $key, autoRelease: false, servers: 'memory://', prefix: 'p:');
        self::assertTrue($handle->acquire());

        $factory = new RedisLockFactory(autoRelease: false, servers: 'memory://');
        self::assertTrue($factory->createLock(autoRelease: true, key: self::key())->acquire());
        self::assertFalse($factory->restoreLock(token: 'token', key: self::key(), ttl: 2)->refresh());
    }

    public function testUnknownParametersAreRefused(): void
    {
        // Nobody may believe in what does not take place.
        foreach (['timeout' => 1, 'retries' => 3] as $name => $value) {
            foreach ([
                static fn () => new RedisLock('key', ...[$name => $value]),
                static fn () => RedisLock::restore('key', 'token', ...[$name => $value]),
                static fn () => new RedisLockFactory(...[$name => $value]),
                static fn () => (new RedisLockFactory())->createLock('key', ...[$name => $value]),
            ] as $call) {
                $e = self::caught($call);
                self::assertSame(\Error::class, $e::class);
                self::assertSame("Unknown named parameter \$$name", $e->getMessage());
            }
        }
    }

    public function testTooManyAndTooFewArguments(): void
    {
        $lock = new RedisLock('key', servers: 'memory://');
        $factory = new RedisLockFactory('memory://');
        $calls = [
            'RedisLock::__construct() expects at least 1 argument, 0 given' => static fn () => new RedisLock(),
            'RedisLock::__construct() expects at most 11 arguments, 12 given' => static fn () => new RedisLock('key', null, null, null, false, false, true, 0, null, null, null, 1),
            'RedisLock::acquire() expects at most 1 argument, 2 given' => static fn () => $lock->acquire(0, 1),
            'RedisLock::synchronized() expects at least 1 argument, 0 given' => static fn () => $lock->synchronized(),
            'RedisLock::synchronized() expects at most 2 arguments, 3 given' => static fn () => $lock->synchronized('time', 1, 1),
            'RedisLock::release() expects exactly 0 arguments, 1 given' => static fn () => $lock->release(1),
            'RedisLock::refresh() expects at most 1 argument, 2 given' => static fn () => $lock->refresh(1, 1),
            'RedisLock::isAcquired() expects exactly 0 arguments, 1 given' => static fn () => $lock->isAcquired(1),
            'RedisLock::getKey() expects exactly 0 arguments, 1 given' => static fn () => $lock->getKey(1),
            'RedisLock::restore() expects at least 2 arguments, 1 given' => static fn () => RedisLock::restore('key'),
            'RedisLock::restore() expects at most 13 arguments, 14 given' => static fn () => RedisLock::restore('key', 'token', 1, null, null, false, false, true, 0, null, null, null, null, 1),
            'RedisLockFactory::__construct() expects at most 10 arguments, 11 given' => static fn () => new RedisLockFactory(null, null, null, null, null, false, false, true, 0, null, 1),
            'RedisLockFactory::createLock() expects at least 1 argument, 0 given' => static fn () => $factory->createLock(),
            'RedisLockFactory::restoreLock() expects at least 2 arguments, 1 given' => static fn () => $factory->restoreLock('key'),
        ];
        foreach ($calls as $message => $call) {
            $e = self::caught($call);
            self::assertSame(\ArgumentCountError::class, $e::class, $message);
            self::assertSame($message, $e->getMessage());
        }
        self::assertFalse($lock->isAcquired());
    }

    public function testMaxHold(): void
    {
        foreach (['greater than 0' => [0, -0.5, -INF], 'not be NAN' => [NAN]] as $message => $values) {
            foreach ($values as $value) {
                $e = self::caught(static fn () => new RedisLock('key', renew: true, maxHold: $value));
                self::assertSame(\ValueError::class, $e::class);
                self::assertStringStartsWith('RedisLock::__construct(): Argument #4 ($maxHold) must', $e->getMessage());
                self::assertStringEndsWith($message, $e->getMessage());
            }
        }
        $factory = new RedisLockFactory('memory://', renew: true, maxHold: 60);
        self::assertTrue($factory->createLock(self::key(), renew: false)->acquire(), 'a default is no demand');
        self::assertTrue($factory->createLock(self::key(), maxHold: INF)->acquire());
        foreach ([
            'RedisLock::__construct(): Argument #4' => static fn () => new RedisLock('key', maxHold: 5),
            'RedisLock::restore(): Argument #5' => static fn () => RedisLock::restore('key', 'token', maxHold: 5),
            'RedisLockFactory::__construct(): Argument #5' => static fn () => new RedisLockFactory(maxHold: 5),
            'RedisLockFactory::createLock(): Argument #4' => static fn () => $factory->createLock('key', renew: false, maxHold: 5),
            'RedisLockFactory::restoreLock(): Argument #5' => static fn () => $factory->restoreLock('key', 'token', renew: false, maxHold: 5),
        ] as $where => $call) {
            $e = self::caught($call);
            self::assertSame(\ValueError::class, $e::class);
            self::assertSame("$where (\$maxHold) needs renew: true", $e->getMessage());
        }
    }

    public function testATtlThatIsTooShortToBeRenewed(): void
    {
        $short = new RedisLockFactory('memory://', ttl: 0.09);
        foreach ([
            'RedisLock::__construct(): Argument #2 ($ttl) must be at least 0.1 where the lease is renewed' => static fn () => new RedisLock('key', 0.09, true),
            'RedisLockFactory::createLock(): Argument #3 ($renew) must not be true where the ttl is less than 0.1' => static fn () => $short->createLock('key', renew: true),
        ] as $message => $call) {
            $e = self::caught($call);
            self::assertSame(\ValueError::class, $e::class);
            self::assertSame($message, $e->getMessage());
        }
        self::assertTrue($short->createLock('key', 0.1, true)->acquire());
    }

    public function testASubclassDoesNotChangeTheNameInAMessage(): void
    {
        // PHP names the class that declares the method.
        $lock = new class('key') extends RedisLock {
        };
        $e = self::caught(static fn () => $lock->acquire(-1));
        self::assertStringStartsWith('RedisLock::acquire(): Argument #1 ($wait) ', $e->getMessage());
    }
}
