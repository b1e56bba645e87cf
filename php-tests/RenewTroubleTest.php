<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\RenewTestCase;
use RedisLock\Tests\Support\TcpProxy;

/** Servers and networks that fail while a lease is to be renewed: it survives what is shorter than its validity. */
final class RenewTroubleTest extends RenewTestCase
{
    private const TTL = 1.5;

    public static function troubles(): array
    {
        return [
            'a silent network' => [
                static fn (RedisServer $server, TcpProxy $proxy) => $proxy->silence(),
                static fn (RedisServer $server, TcpProxy $proxy) => $proxy->pass(),
                true,
            ],
            'a server that stands still' => [
                static fn (RedisServer $server) => $server->kill(SIGSTOP),
                static fn (RedisServer $server) => $server->kill(SIGCONT),
                false,
            ],
            'a server that is down, and remembers' => [
                static fn (RedisServer $server) => $server->stop(),
                static fn (RedisServer $server) => $server->start(),
                false,
            ],
            'a server that takes no writes' => [
                static fn (RedisServer $server) => $server->command('REPLICAOF', '127.0.0.1', RedisServer::freePort()),
                static fn (RedisServer $server) => $server->command('REPLICAOF', 'NO', 'ONE'),
                false,
            ],
        ];
    }

    /** @dataProvider troubles */
    #[DataProvider('troubles')]
    public function testShorterThanTheValidityItIsSurvived(\Closure $begin, \Closure $end, bool $proxied): void
    {
        [$server, $proxy] = $this->network();
        $keeper = $this->keeper(($proxied ? $proxy : $server)->tcp(), self::TTL);
        // Right after a renewal, so that the next one is due in the middle.
        self::eventually(static fn () => self::stats($keeper)['renewals'] > 0, 'a renewal');
        $begin($server, $proxy);
        usleep(900_000);
        $end($server, $proxy);
        self::assertGreaterThan(0.0, self::leastLeft($server, self::after(0.5), 'key'));
        self::assertGreaterThanOrEqual(self::TTL / 3, self::leastLeft($server, self::after(1.0), 'key'), 'as before');
        self::assertTrue($keeper->ask('run return $lock->isAcquired();'));
        self::assertSame([0, 1], [self::stats($keeper)['lost'], self::stats($keeper)['kept']]);
        self::assertSame('released', $keeper->ask('release'));
        $proxy->stop();
    }

    public static function silences(): array
    {
        $silence = static fn (RedisServer $server, TcpProxy $proxy) => $proxy->silence();
        $pass = static fn (RedisServer $server, TcpProxy $proxy) => $proxy->pass();

        return [
            // What is open stays so; new connections are taken, and get no answer either.
            'on a connection that was in use' => [$silence, $pass, '', 1],
            // The connection is to be opened, which ends with the answer to the password.
            'where none can be opened' => [$silence, $pass, 'shop:password@', 0],
            'of a server that is down' => [
                static fn (RedisServer $server) => $server->stop(),
                static fn (RedisServer $server) => $server->start(),
                '',
                0,
            ],
        ];
    }

    /**
     * What README.md promises: two thirds of the ttl, less the time-out and the pause that a try may take which began in
     * the silence. That is more than half of it here.
     *
     * @dataProvider silences
     */
    #[DataProvider('silences')]
    public function testHalfOfTheTtlIsSurvivedAtTheWorstMoment(\Closure $begin, \Closure $end, string $user, int $renewals): void
    {
        [$ttl, $timeout] = [8.0, 0.4];
        self::assertGreaterThan($ttl / 2, 0.99 * $ttl - 0.002 - $ttl / 3 - $timeout - 0.5);
        [$server, $proxy] = $this->network();
        $server->command('ACL', 'SETUSER', 'shop', 'on', '>password', '~*', '&*', '+@all');
        $lock = '$lock = new RedisLock($key, (float) $ttl, servers: $address, renew: true);';
        $keeper = $this->contender(str_replace('//', "//$user", $proxy->tcp()), ttl: $ttl, setup: $lock, ini: [
            'redis_lock.connect_timeout' => $timeout,
            'redis_lock.command_timeout' => $timeout,
        ]);
        self::assertSame('held', $keeper->ask('acquire'));
        self::eventually(static fn () => self::stats($keeper)['renewals'] === $renewals, "$renewals renewals");
        // A third of the ttl after the last, less what is allowed for clocks that differ.
        $due = $ttl * 2 / 3 + $ttl / 100 + 0.002;
        $isNearlyDue = static fn () => $server->command('PTTL', 'key') / 1e3 < $due + 0.1;
        for (;;) {
            self::eventually($isNearlyDue, 'it is nearly due');
            $begin($server, $proxy);
            if (self::stats($keeper)['renewals'] === $renewals) {
                break;
            }
            // It was renewed first, for this process was held up: the next time, then.
            $end($server, $proxy);
            $renewals = self::stats($keeper)['renewals'];
        }
        usleep((int) ($ttl / 2 * 1e6));
        self::assertGreaterThan(0, self::stats($keeper)['renewalErrors']);
        $end($server, $proxy);
        self::eventually(static fn () => self::stats($keeper)['renewals'] > $renewals, 'it is renewed again');
        self::assertGreaterThan($ttl / 2, $server->command('PTTL', 'key') / 1e3);
        self::assertTrue($keeper->ask('run return $lock->isAcquired();'));
        self::assertSame([0, 1], [self::stats($keeper)['lost'], self::stats($keeper)['kept']]);
        self::assertSame('released', $keeper->ask('release'));
        $proxy->stop();
    }

    /** @dataProvider troubles */
    #[DataProvider('troubles')]
    public function testLongerThanTheValidityTheLeaseIsLostInTime(\Closure $begin, \Closure $end, bool $proxied): void
    {
        [$server, $proxy] = $this->network();
        $keeper = $this->keeper(($proxied ? $proxy : $server)->tcp(), self::TTL);
        self::eventually(static fn () => self::stats($keeper)['renewals'] > 0, 'a renewal');
        $keeper->tell('run return $believe();');
        $began = self::now();
        $begin($server, $proxy);
        $begun = self::now();

        [$believed, $told] = $keeper->answer();
        self::assertLessThan($begun + self::TTL, $believed, 'when the key may be gone');
        self::assertGreaterThan($began + self::TTL / 2, $told, 'not at the first failure');
        self::assertSame(self::LOST, $keeper->ask('run return $look();'));
        self::assertHasLost($keeper, 1);
        self::assertGreaterThan(0, self::stats($keeper)['renewalErrors']);

        // Back again, and the key has ended: nothing of the failed renewals brings it back.
        usleep((int) (1e6 * max(0, $begun + self::TTL - self::now())));
        $end($server, $proxy);
        for ($over = self::after(0.5); !$over(); usleep(10_000)) {
            self::assertSame(0, $server->command('EXISTS', 'key'));
        }
        self::assertSame('lost', $keeper->ask('release'));
        self::assertSame('held', $keeper->ask('acquire'));
        self::assertGreaterThanOrEqual(self::TTL / 3, self::leastLeft($server, self::after(1.0), 'key'));
        self::assertSame(1, self::stats($keeper)['lost']);
        $proxy->stop();
    }

    public function testNobodyBelievesInALeaseWhoseKeyIsGone(): void
    {
        [$server, $proxy] = $this->network();
        // Whose phases and lengths differ: the network falls silent before, in and after a renewal.
        $keeper = $this->contender($proxy->tcp(), setup: '
            $locks = [];
            for ($i = 0; $i < 25; $i++) {
                usleep(10_000);
                $locks[$i] = new RedisLock("key$i", 0.5 + 0.04 * $i, renew: true, servers: $address);
                $locks[$i]->acquire() || exit(1);
            }
            $believe = function () use ($locks): array {
                for ($last = []; $locks !== []; usleep(100)) {
                    foreach ($locks as $i => $lock) {
                        $now = hrtime(true) / 1e9;
                        if ($lock->isAcquired()) {
                            $last[$i] = $now;
                        } else {
                            unset($locks[$i]);
                        }
                    }
                }
                ksort($last);
                return $last;
            };
        ');
        self::assertSame('ready', $keeper->ask('run return "ready";'));
        $next = $this->contender($server->unix(), 'key24');
        self::lineUp($server, [$next], key: 'key24');
        $keeper->tell('run return $believe();');
        usleep(300_000);
        $proxy->silence();

        // When each was gone at the latest.
        $gone = [];
        $look = 'local gone = {} for i = 0, 23 do gone[i + 1] = redis.call("EXISTS", "key" .. i) end return gone';
        self::eventually(static function () use ($server, $look, &$gone): bool {
            $seen = $server->command('EVAL', $look, 0);
            $gone += array_fill_keys(array_keys($seen, 0, true), self::now());

            return count($gone) === 24;
        }, 'the end of all keys');
        self::assertSame('held', $next->answer());
        $gone[24] = $next->ended;
        $believed = (array) $keeper->answer();
        self::assertCount(25, $believed);
        foreach ($believed as $i => $last) {
            self::assertLessThan($gone[$i], $last, "key$i: two believed in it at once");
        }
        self::assertHasLost($keeper, 25);
        $proxy->pass();
        self::assertTrue($next->ask('run return $lock->refresh();'), 'the silence took nothing of the next one');
        $proxy->stop();
    }

    /** @return array{RedisServer, TcpProxy} a server that remembers its keys when it is started again, and the way to it */
    private function network(): array
    {
        $server = $this->server(['appendonly' => 'yes', 'appendfsync' => 'always']);

        return [$server, new TcpProxy($server->port)];
    }
}
