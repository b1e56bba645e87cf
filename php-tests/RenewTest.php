<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\RenewTestCase;

/** Leases that are renewed are kept, whatever PHP does meanwhile. */
final class RenewTest extends RenewTestCase
{
    public function testItsProcessMayBeBlocked(): void
    {
        [$server, $ttl] = [$this->server(), 0.8];
        $keepers = $waiters = [];
        foreach ([
            'sleeping' => 'usleep(4_000_000);',
            'computing' => 'for ($until = hrtime(true) + 4e9; hrtime(true) < $until;);',
            'in a query' => '$redis = new Redis(); $redis->connect(substr($address, 7)); $redis->blPop(["nothing"], 4);',
        ] as $key => $work) {
            $keepers[$key] = $this->keeper($server->unix(), $ttl, $key);
            $waiters[$key] = $this->contender($server->unix(), $key);
            self::lineUp($server, [$waiters[$key]], key: $key);
            $keepers[$key]->tell("run $work return \$look();");
        }
        $over = self::after(3.9);
        self::assertGreaterThanOrEqual($ttl / 3, self::leastLeft($server, $over, ...array_keys($keepers)));

        foreach ($keepers as $key => $keeper) {
            [$isAcquired, $isExpired, $remaining] = $keeper->answer();
            self::assertSame([true, false], [$isAcquired, $isExpired], $key);
            self::assertGreaterThan(0.0, $remaining);
            self::assertLessThanOrEqual($ttl, $remaining);
            self::assertSame('released', $keeper->ask('release'), $key);
            // Nobody got in before.
            self::assertSame('held', $waiters[$key]->answer(), $key);
            self::assertGreaterThan($keeper->began, $waiters[$key]->ended, $key);
            self::assertLessThan($keeper->began + 0.5, $waiters[$key]->ended, 'and then at once');
            $stats = self::stats($keeper);
            self::assertLessThanOrEqual(18, $stats['renewals'], 'at most a twenty-fourth of the ttl early');
            self::assertSame([0, 0, 0, 0], [$stats['lost'], $stats['renewalErrors'], $stats['interrupts'], $stats['kept']]);
        }
    }

    public function testAProcessHasOneThreadAndAServerOneMoreConnection(): void
    {
        $server = $this->server(tls: true);
        $keepers = [];
        foreach (['tcp', 'unix', 'tls'] as $transport) {
            $keepers[$transport] = $keeper = $this->keeper($server->$transport(), 0.9, $transport);
            self::assertHasOneThread($keeper);
            self::assertCount(2 * count($keepers) - 1, $server->clients(), 'nothing is renewed yet');
            self::eventually(static fn () => self::stats($keeper)['renewals'] > 0, "renewal over $transport");
            self::assertCount(2 * count($keepers), $server->clients());
        }
        self::assertGreaterThanOrEqual(0.3, self::leastLeft($server, self::after(1.2), ...array_keys($keepers)));
        $connections = $server->info('total_connections_received');
        self::assertGreaterThanOrEqual(0.3, self::leastLeft($server, self::after(0.6), ...array_keys($keepers)));
        self::assertSame($connections, $server->info('total_connections_received'), 'the same ones, again and again');
    }

    public function testAThousandLeasesCostNoMore(): void
    {
        $server = $this->server();
        $keeper = $this->contender($server->unix());
        self::assertSame('done', $keeper->ask('run $locks = array_map(fn (int $i) => new RedisLock("key$i", 3, renew: true, '
            . 'servers: $address), range(1, 1000)); foreach ($locks as $lock) { $lock->acquire() || exit(1); usleep(400); } return "done";'));
        $requests = $server->requests();
        $keys = array_map(static fn (int $i) => "key$i", range(1, 1_000));
        self::assertGreaterThanOrEqual(1.0, self::leastLeft($server, self::after(5.0), ...$keys));

        self::assertHasOneThread($keeper);
        self::assertCount(2, $server->clients());
        $stats = self::stats($keeper);
        self::assertSame([1_000, 0, 0], [$stats['kept'], $stats['lost'], $stats['renewalErrors']]);
        self::assertGreaterThanOrEqual(4_000, $stats['renewals']);
        self::assertLessThan(1_000, $server->requests() - $requests, 'many in one go');
        self::assertSame('done', $keeper->ask('run $lock = $locks = null; return "done";'));
        self::assertSame([], $server->command('KEYS', '*'));
        self::assertSame(0, self::stats($keeper)['kept']);
    }

    public function testInMemory(): void
    {
        $keeper = $this->keeper('memory://', 0.6);
        $outcome = $keeper->ask('run $other = new RedisLock($key, 5, servers: $address);'
            . ' $believe(hrtime(true) / 1e9 + 1.8);'
            . ' return [$other->acquire(0.6), $lock->isAcquired(), $lock->release(), $other->acquire()];');
        self::assertSame([false, true, true, true], $outcome);
        self::assertHasOneThread($keeper);
    }

    public function testScriptsThatTheServerForgets(): void
    {
        $server = $this->server();
        $keeper = $this->keeper($server->unix(), 0.9);
        $over = self::after(2.0);
        $forgetful = static function () use ($server, $over): bool {
            $server->command('SCRIPT', 'FLUSH');

            return $over();
        };
        self::assertGreaterThanOrEqual(0.3, self::leastLeft($server, $forgetful, 'key'));
        self::assertSame([0, 0], [self::stats($keeper)['lost'], self::stats($keeper)['renewalErrors']]);
    }

    public function testConnectionsThatAreCutAgainAndAgain(): void
    {
        $server = $this->server();
        $keeper = $this->keeper($server->unix(), 0.9);
        $over = self::after(2.0);
        $cutting = static function () use ($server, $over): bool {
            $server->command('CLIENT', 'KILL', 'SKIPME', 'yes', 'TYPE', 'normal');
            usleep(20_000);

            return $over();
        };
        self::assertGreaterThan(0.0, self::leastLeft($server, $cutting, 'key'));
        self::assertSame([true, 0], [$keeper->ask('run return $lock->isAcquired();'), self::stats($keeper)['lost']]);
        self::assertSame('released', $keeper->ask('release'));
    }

    public function testMaxHoldStopsWorkThatHangsAndSaysSo(): void
    {
        $lock = new RedisLock(self::key(), ttl: 0.5, renew: true, maxHold: 0.3, interrupt: true, servers: 'memory://');
        $e = self::caught(static fn () => $lock->synchronized(static function (): never {
            for (;;) {
            }
        }));
        self::assertInstanceOf(RedisLock\LockLostException::class, $e);
        self::assertStringEndsWith(': maxHold ended its renewal, and its ttl ran out', $e->getMessage());
    }

    public function testALeaseThatWasHandedOver(): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        $waiter = $this->renewing($server->unix(), 1.2);
        self::lineUp($server, [$waiter]);
        self::assertSame([], self::threads($waiter), 'a lease is renewed, not a wait');
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $waiter->answer());
        self::assertGreaterThanOrEqual(0.4, self::leastLeft($server, self::after(2.0), 'key'));
    }

    public function testInSynchronizedAndTheSameObjectAgain(): void
    {
        $server = $this->server();
        $keeper = $this->renewing($server->unix(), 0.3);
        for ($i = 1; $i <= 3; $i++) {
            $outcome = $keeper->ask('run return $lock->synchronized(function () use ($believe) {'
                . ' $believe(hrtime(true) / 1e9 + 0.7); return "done"; });');
            self::assertSame('done', $outcome);
            self::assertSame(0, $server->command('EXISTS', 'key'));
            $stats = self::stats($keeper);
            self::assertGreaterThanOrEqual(3 * $i, $stats['renewals']);
            self::assertSame([0, 0], [$stats['lost'], $stats['kept']]);
            self::assertHasOneThread($keeper);
        }
    }

    public function testARefreshWithAnotherTtlLeavesNoGap(): void
    {
        $server = $this->server();
        $keeper = $this->keeper($server->unix(), 30);
        self::assertTrue($keeper->ask('run return $lock->refresh(0.6);'), 'much sooner than the keeper was to look');
        self::assertGreaterThanOrEqual(0.2, self::leastLeft($server, self::after(0.8), 'key'));
        self::assertSame('released', $keeper->ask('release'));

        $keeper = $this->keeper($server->unix(), 0.6);
        self::assertTrue($keeper->ask('run return $lock->refresh(2);'));
        self::assertGreaterThan(1.0, self::leastLeft($server, self::after(0.6), 'key'), 'not cut short');
        self::assertGreaterThanOrEqual(0.2, self::leastLeft($server, self::after(1.5), 'key'));
        self::assertSame('released', $keeper->ask('release'));
    }

    public function testMaxHoldEndsTheRenewalAndTheTtlTheLease(): void
    {
        $server = $this->server();
        $keeper = $this->keeper($server->unix(), 0.6, options: 'maxHold: 1.0');
        $acquired = $keeper->ended;
        $keeper->tell('run return $believe();');
        self::eventually(static fn () => $server->command('EXISTS', 'key') === 0, 'the end of the key');
        $gone = self::now();
        self::assertGreaterThan($acquired + 1.2, $gone, 'renewed up to then');
        self::assertLessThan($acquired + 1.6 + 0.3, $gone);
        [$believed] = $keeper->answer();
        self::assertLessThan($gone, $believed);
        self::assertGreaterThan($acquired + 1.0, $believed);
        self::assertSame(self::LOST, $keeper->ask('run return $look();'));
        self::assertFalse($keeper->ask('run return $lock->refresh();'));
        self::assertHasLost($keeper, 1);

        // It counts from each acquire anew.
        self::assertSame('held', $keeper->ask('acquire'));
        self::assertGreaterThanOrEqual(0.2, self::leastLeft($server, self::after(0.8), 'key'));
        self::assertSame('released', $keeper->ask('release'));
    }

    /** Where renewal is asked for: php.ini, the factory, the lock; the nearer counts. */
    public static function switches(): array
    {
        return [
            'php.ini says yes' => [1, [
                'new RedisLock("a", 1.0)' => true,
                'new RedisLock("b", 1.0, renew: false)' => false,
                '(new RedisLockFactory(ttl: 1.0))->createLock("c")' => true,
                '(new RedisLockFactory(ttl: 1.0, renew: false))->createLock("d")' => false,
                '(new RedisLockFactory(ttl: 1.0, renew: false))->createLock("e", renew: true)' => true,
                'RedisLock::restore("f", "token", 1.0)' => true,
                '(new RedisLockFactory())->createLock("g", 1.0, maxHold: 0.5)' => false,
            ]],
            'php.ini says no' => [0, [
                'new RedisLock("a", 1.0)' => false,
                'new RedisLock("b", 1.0, renew: true)' => true,
                '(new RedisLockFactory(ttl: 1.0, renew: true))->createLock("c")' => true,
                '(new RedisLockFactory(ttl: 1.0, renew: true))->createLock("d", renew: false)' => false,
                'RedisLock::restore("e", "token", 1.0)' => false,
                'RedisLock::restore("f", "token", 1.0, renew: true)' => true,
                '(new RedisLockFactory(renew: true))->restoreLock("g", "token", 1.0)' => true,
                '(new RedisLockFactory(renew: true, maxHold: 0.5))->createLock("h", 1.0)' => false,
                '(new RedisLockFactory(renew: true, maxHold: 0.5))->createLock("i", 1.0, maxHold: INF)' => true,
            ]],
        ];
    }

    /** @dataProvider switches */
    #[DataProvider('switches')]
    public function testWhereItIsAskedFor(int $setting, array $locks): void
    {
        $process = $this->contender(
            'memory://',
            ini: ['redis_lock.renew' => $setting, 'redis_lock.servers' => RedisServer::shared()->unix()],
        );
        $list = '[' . implode(', ', array_keys($locks)) . ']';
        $kept = $process->ask("run \$locks = $list; foreach (\$locks as \$lock) { \$lock->acquire() || exit(1); }"
            . ' usleep(2_500_000); return array_map(fn ($lock) => $lock->isAcquired(), $locks);');
        self::assertSame($locks, array_combine(array_keys($locks), $kept));
        self::assertCount(count(array_filter($locks)), RedisServer::shared()->command('KEYS', '?'));
    }
}
