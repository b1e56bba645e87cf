<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\Tests\Support\RenewTestCase;
use RedisLock\Tests\Support\TcpProxy;
use RedisLockFactory;

/** Where renewal begins and ends, and what asks for it in vain. */
final class RenewEndTest extends RenewTestCase
{
    public function testWithoutRenewalThereIsNoThread(): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix(), 'busy');
        $process = $this->contender($server->unix(), ttl: 0.2);
        $steps = [
            'return $lock->acquire();' => true,
            'return $lock->refresh(30);' => true,
            'return $lock->release();' => true,
            'return $lock->synchronized(fn () => 7);' => 7,
            'return RedisLock::restore($key, "token", servers: $address)->acquire();' => true,
            'return (new RedisLock("busy", servers: $address))->acquire(0.1);' => false,
            // Renewed, if it were had.
            '$renewed = new RedisLock("busy", renew: true, servers: $address); return $renewed->acquire();' => false,
            'return $renewed->acquire(0.1);' => false,
            'return $renewed->getHolder()["pid"];' => $holder->process->pid(),
            'return RedisLock::restore("busy", "stale", renew: true, servers: $address)->refresh();' => false,
            'return (new RedisLockFactory($address, renew: true))->createLock("free")->isAcquired();' => false,
        ];
        foreach ($steps as $step => $outcome) {
            self::assertSame($outcome, $process->ask("run $step"), $step);
            self::assertSame([], self::threads($process), $step);
        }
        $none = ['lost' => 0, 'renewals' => 0, 'renewalErrors' => 0, 'interrupts' => 0, 'kept' => 0];
        self::assertEquals($none, self::stats($process));
        self::assertCount(3, $server->clients(), 'the holder, and one to ask and one to be told');
    }

    public function testTheEndOfTheObjectEndsItAlsoWhereTheKeyIsLeftToItsTtl(): void
    {
        $server = $this->server();
        $keeper = $this->keeper($server->unix(), 0.6, options: 'autoRelease: false');
        self::assertGreaterThanOrEqual(0.2, self::leastLeft($server, self::after(0.8), 'key'));
        $dropped = self::now();
        self::assertSame(0, $keeper->ask('run unset($lock, $look, $believe); return RedisLock::stats()["kept"];'));
        self::assertSame(1, $server->command('EXISTS', 'key'));
        self::eventually(static fn () => $server->command('EXISTS', 'key') === 0, 'the end of the key');
        self::assertLessThan(0.6 + 0.4, self::now() - $dropped);
        self::assertSame(0, self::stats($keeper)['lost']);
    }

    public function testAHandleIsRenewedFromItsRefreshOn(): void
    {
        $server = $this->server();
        $server->command('SET', 'key', 'token', 'PX', 5_000);
        $process = $this->contender($server->unix());
        $restore = '$handle = RedisLock::restore($key, "token", 0.6, renew: true, servers: $address);';
        self::assertFalse($process->ask("run $restore return \$handle->isAcquired();"));
        self::assertSame([], self::threads($process));
        self::assertTrue($process->ask('run return $handle->refresh();'));
        self::assertHasOneThread($process);
        self::assertGreaterThanOrEqual(0.2, self::leastLeft($server, self::after(1.5), 'key'));
        self::assertLessThanOrEqual(600, $server->command('PTTL', 'key'));
        self::assertTrue($process->ask('run return $handle->release();'));
    }

    public static function lateRenewals(): array
    {
        return [
            'its answer comes after the release' => [static fn (TcpProxy $proxy, float $for) => $proxy->delay($for)],
            'the server has it after the release' => [static fn (TcpProxy $proxy, float $for) => $proxy->delayRequests($for)],
        ];
    }

    /** @dataProvider lateRenewals */
    #[DataProvider('lateRenewals')]
    public function testALateRenewalIsNoLoss(\Closure $delay): void
    {
        $server = $this->server();
        $proxy = new TcpProxy($server->port);
        $keeper = $this->keeper($proxy->tcp(), 1.5);
        $delay($proxy, 0.9);
        self::eventually(static fn () => preg_grep('/^EVAL/', $proxy->requests()) !== [], 'a renewal');
        $delay($proxy, 0);

        self::assertSame('released', $keeper->ask('release'));
        self::assertLessThan(0.5, $keeper->ended - $keeper->began, 'it waits for no renewal');
        self::assertSame([false, false, null], $keeper->ask('run return $look();'));
        self::assertSame(0, $server->command('EXISTS', 'key'));
        self::assertSame('held', $keeper->ask('acquire'));
        // Beyond the late one, and beyond a ttl.
        self::assertGreaterThanOrEqual(0.5, self::leastLeft($server, self::after(2.0), 'key'), 'it does not disturb the next');
        self::assertTrue($keeper->ask('run return $lock->isAcquired();'));
        self::assertSame('released', $keeper->ask('release'));
        $stats = self::stats($keeper);
        self::assertSame([0, 0], [$stats['lost'], $stats['kept']]);
        self::assertSame([], $server->command('KEYS', '*'));
        $proxy->stop();
    }

    public static function refused(): array
    {
        $rows = [];
        foreach ([
            'lock' => static fn (...$options) => new RedisLock('key', ...$options),
            'handle' => static fn (...$options) => RedisLock::restore('key', 'token', ...$options),
            'factory' => static fn (...$options) => new RedisLockFactory(...$options),
            'made' => static fn (...$options) => (new RedisLockFactory(renew: true))->createLock('key', ...$options),
            'restored' => static fn (...$options) => (new RedisLockFactory(renew: true))->restoreLock('key', 'token', ...$options),
        ] as $name => $make) {
            $rows += [
                "$name: a ttl too short to renew" => [$make, 'ttl', ['ttl' => 0.099, 'renew' => true]],
                "$name: no time" => [$make, 'maxHold', ['maxHold' => 0.0, 'renew' => true]],
                "$name: less" => [$make, 'maxHold', ['maxHold' => -1.0, 'renew' => true]],
                "$name: no number" => [$make, 'maxHold', ['maxHold' => NAN, 'renew' => true]],
                "$name: a bound of what is off" => [$make, 'maxHold', ['maxHold' => 5.0, 'renew' => false]],
            ];
        }

        return $rows;
    }

    /** @dataProvider refused */
    #[DataProvider('refused')]
    public function testAValueThatMakesNoSenseIsRefused(\Closure $make, string $parameter, array $arguments): void
    {
        $e = self::caught(static fn () => $make(...$arguments));
        self::assertSame(\ValueError::class, $e::class);
        self::assertStringContainsString("(\$$parameter)", $e->getMessage());
    }

    public function testTheSettingCountsWhereNothingIsSaid(): void
    {
        $short = static fn () => new RedisLock('key', ttl: 0.05);
        $bounded = static fn () => new RedisLock('key', maxHold: 5);
        self::assertInstanceOf(RedisLock::class, $short());
        self::assertInstanceOf(\ValueError::class, self::caught($bounded));
        $this->setting('renew', 1);
        self::assertInstanceOf(\ValueError::class, self::caught($short));
        self::assertInstanceOf(RedisLock::class, $bounded());
        self::assertInstanceOf(RedisLock::class, new RedisLock('key', ttl: 0.1, maxHold: INF));
        self::assertInstanceOf(RedisLock::class, new RedisLock('key', ttl: 0.05, renew: false));
    }
}
