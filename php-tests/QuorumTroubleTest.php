<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\QuorumTestCase;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\TcpProxy;

/** A minority of the servers is down, and nobody notices; a majority is, and that is no "busy". */
final class QuorumTroubleTest extends QuorumTestCase
{
    public static function troubles(): array
    {
        return [
            'refuses' => [
                static fn (RedisServer $node) => $node->stop(),
                static fn (RedisServer $node) => $node->start(),
            ],
            'is silent' => [
                static fn (RedisServer $node) => $node->kill(SIGSTOP),
                static fn (RedisServer $node) => $node->kill(SIGCONT),
            ],
            'answers after 5 s' => [
                static fn (RedisServer $node, TcpProxy $proxy) => $proxy->delay(5),
                static fn (RedisServer $node, TcpProxy $proxy) => $proxy->pass(),
            ],
            'takes no writes' => [
                static fn (RedisServer $node) => $node->command('REPLICAOF', '127.0.0.1', RedisServer::freePort()),
                static fn (RedisServer $node) => $node->command('REPLICAOF', 'NO', 'ONE'),
            ],
        ];
    }

    /** @dataProvider troubles */
    #[DataProvider('troubles')]
    public function testAMinorityThatIsDownCostsNothingAfterTheFirstCallAndIsUsedAgainWhenItIsBack(\Closure $begin, \Closure $end): void
    {
        $this->setting('command_timeout', 0.3);
        $this->setting('connect_timeout', 0.3);
        $proxies = $this->proxiedQuorum(5);
        $servers = self::addresses($proxies);
        [$living, $down] = [array_slice($this->nodes, 0, 3, true), array_slice($this->nodes, 3, null, true)];
        $lock = new RedisLock('key', 30, servers: $servers);
        $healthy = self::pace($lock);
        foreach ($down as $i => $node) {
            $begin($node, $proxies[$i]);
        }

        [$held, $seconds] = self::timed(static fn () => $lock->acquire());
        self::assertTrue($held);
        self::assertLessThan(2 * 0.3 + self::SLACK, $seconds);
        $this->assertOnAll($lock, nodes: $living);
        $other = new RedisLock('key', 30, servers: $servers);
        self::assertFalse($other->acquire());
        self::assertFalse($other->acquire(0.3));
        self::assertSame(getmypid(), $other->getHolder()['pid']);
        self::assertTrue($lock->refresh(60));
        self::assertTrue($lock->release());
        $this->assertNoKeys($living);

        // Also for a new process, whose first call meets it.
        $waiter = $this->contender(implode(' ', $servers), ini: ['redis_lock.command_timeout' => 0.3, 'redis_lock.connect_timeout' => 0.3]);
        self::assertTrue($lock->acquire());
        $waiter->tell('acquire 30');
        self::eventually(fn () => self::channels($this->nodes[0]) !== [] && self::channels($this->nodes[1]) !== [], 'it waits');
        usleep(100_000);
        $freed = self::now();
        self::assertTrue($lock->release());
        self::assertSame('held', $waiter->answer());
        self::assertLessThan(0.5, $waiter->ended - $freed, 'told');
        self::assertSame('released', $waiter->ask('release'));

        $connections = array_map(static fn (TcpProxy $proxy) => $proxy->connections(), array_slice($proxies, 3));
        [$pace, $seconds] = self::timed(static fn () => self::pace($lock));
        self::assertLessThan(3 * $healthy + 0.002, $pace);
        self::assertLessThan(50 * (3 * $healthy + 0.002) + 0.3 + self::SLACK, $seconds, 'all in all');
        foreach (array_slice($proxies, 3) as $i => $proxy) {
            self::assertLessThan(20, $proxy->connections() - $connections[$i], 'not one for each call');
        }

        foreach ($down as $i => $node) {
            $end($node, $proxies[$i]);
        }
        $isBack = function () use ($lock, $down): bool {
            if (!$lock->acquire()) {
                return false; // another holds what it should not
            }
            usleep(20_000);
            $isOnThem = array_unique($this->values('key', $down)) === [3 => $lock->getToken()];
            $lock->release();

            return $isOnThem;
        };
        self::eventually($isBack, 'they are used again', 10.0);
        $frees = fn (): bool => $waiter->ask('turn 30') === 'had' && array_filter($this->values()) === [];
        self::eventually($frees, 'what the other one asked of them is freed', 10.0);
        $this->assertNoKeys();
    }

    public function testWhatASilentNodeMayHoldOfEarlierLeasesIsFreedWhenItIsBack(): void
    {
        $this->setting('command_timeout', 0.2);
        $this->setting('connect_timeout', 0.2);
        $servers = $this->quorum();
        $silent = $this->nodes[2];
        $other = new RedisLock('other', 300, servers: $servers);
        self::pace($other, 2);
        $silent->kill(SIGSTOP);

        // These are asked for of it, and it will carry that out. The connection is given up before the first is released.
        $locks = array_map(static fn ($i) => new RedisLock("key$i", 300, servers: $servers), range(1, 3));
        foreach ($locks as $lock) {
            self::assertTrue($lock->acquire());
        }
        usleep(250_000);
        foreach ($locks as $lock) {
            self::assertTrue($lock->release());
        }
        $silent->kill(SIGCONT);
        self::eventually(static function () use ($other, $silent): bool {
            self::pace($other, 1);

            return array_filter($silent->command('KEYS', '*'), static fn (string $key) => $key !== 'other') === [];
        }, 'it is free', 10.0);
        $this->assertNoKeys();
    }

    public static function outages(): array
    {
        $proxied = self::troubles();

        return [
            'all refuse' => [fn ($node) => $node->stop(), fn ($node) => $node->start(), 'connection refused'],
            'all are silent' => [...$proxied['is silent'], 'nothing came within'],
            'all answer after 5 s' => [...$proxied['answers after 5 s'], 'nothing came within'],
            'none takes writes' => [...$proxied['takes no writes'], 'READONLY'],
        ];
    }

    /** @dataProvider outages */
    #[DataProvider('outages')]
    public function testWithoutAMajorityEachNodesReasonIsToldAndNothingIsLeft(\Closure $begin, \Closure $end, string $why): void
    {
        $this->setting('command_timeout', 0.3);
        $this->setting('connect_timeout', 0.3);
        $proxies = $this->proxiedQuorum();
        $servers = self::addresses($proxies);
        // Refused by the node itself, and not by what stands before it.
        $why === 'connection refused' && $servers = self::addresses($this->nodes);
        $lock = new RedisLock('key', 30, servers: $servers);
        self::pace($lock, 2);
        self::assertTrue($lock->acquire());
        foreach ([1, 2] as $i) {
            $begin($this->nodes[$i], $proxies[$i]);
        }

        $other = new RedisLock('other', 30, servers: $servers);
        // The first call may be on its way when it learns that a connection is closed.
        self::eventually(static fn () => str_contains(self::caught($other->acquire(...))->getMessage(), $why), $why);
        $synchronized = static fn () => $other->synchronized(static fn () => self::fail('not to be called'), 2.0);
        foreach ([[$other->acquire(...), 0.0], [static fn () => $other->acquire(2.0), 2.0], [$synchronized, 2.0], [$lock->refresh(...), 0.0], [$lock->release(...), 0.0]] as $number => [$call, $wait]) {
            $e = self::caught(static fn () => self::withinDeadline($call, $wait));
            self::assertSame(ConnectionException::class, $e::class, "call $number: {$e->getMessage()}");
            foreach ([1, 2] as $i) {
                self::assertStringContainsString($servers[$i], $e->getMessage());
            }
            self::assertSame(2, substr_count(strstr($e->getMessage(), ': '), $why), "call $number: {$e->getMessage()}");
        }
        self::assertFalse($other->isAcquired());
        $this->assertNoKeys([$this->nodes[0]]);

        foreach ([1, 2] as $i) {
            $end($this->nodes[$i], $proxies[$i]);
        }
        $back = self::now();
        $again = new RedisLock('again', 30, servers: $servers);
        self::eventually(static function () use ($again): bool {
            try {
                return $again->acquire();
            } catch (ConnectionException) {
                return false;
            }
        }, 'it works', 10.0);
        self::assertLessThan(0.6 + self::SLACK, self::now() - $back, 'at once');
        self::assertTrue($again->release());
        unset($lock, $other, $call);
        self::eventually(function () use ($again): bool {
            self::pace($again, 1);

            return $this->values('other') === [null, null, null] && $this->values() === [null, null, null];
        }, 'all is free', 10.0);
    }

    public function testReasonsOfAllKindsAreToldTogether(): void
    {
        // Of thirteen, six are fit: the seventh reason is the one that settles it.
        $this->quorum(8);
        $fit = array_slice($this->nodes, 0, 6);
        [$silent, $readOnly] = array_slice($this->nodes, 6);
        $closed = $this->server(['requirepass' => 'right']);
        $strict = $this->server();
        $strict->command('ACL', 'SETUSER', 'default', '-set', '-evalsha', '-eval');
        $full = $this->server(['maxmemory' => 1, 'maxmemory-policy' => 'noeviction']);
        $port = RedisServer::freePort();
        $silent->kill(SIGSTOP);
        $readOnly->command('REPLICAOF', '127.0.0.1', $port);
        $servers = self::addresses([$silent, $readOnly, $closed, $strict, $full]);
        // The same server by another name, with a wrong password.
        array_push($servers, "redis://user:secret@127.0.0.1:$port", "redis://:secret@localhost:$closed->port");
        $all = [...self::addresses($fit), ...$servers];

        foreach ([0.0, 1.0] as $wait) {
            $lock = new RedisLock('key', 30, servers: $all);
            $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire($wait), $wait));
            self::assertSame(ConnectionException::class, $e::class);
            $message = $e->getMessage();
            foreach ([
                "no answer from $servers[0]: nothing came within 1 s", "$servers[1] answered with an error: READONLY",
                "cannot connect to $servers[2]: NOAUTH", "$servers[3] answered with an error: NOPERM", "$servers[4] answered with an error: OOM",
                "cannot connect to redis://127.0.0.1:$port: connection refused", "cannot connect to redis://localhost:$closed->port: authentication failed: WRONGPASS",
            ] as $reason) {
                self::assertStringContainsString($reason, $message);
            }
            self::assertStringNotContainsString('secret', $message);
            self::assertSame(6, substr_count($message, '; '), 'no other reason');
        }
        $this->assertNoKeys($fit);
    }

    public function testAMajorityThatGoesDownInTheMiddleOfAWaitEndsIt(): void
    {
        $servers = $this->quorum();
        $holder = $this->holder(implode(' ', $servers));
        $waiter = $this->contender(implode(' ', $servers));
        $waiter->tell('acquire 30');
        self::eventually(fn () => self::channels($this->nodes[2]) !== [], 'it waits');
        $killed = self::now();
        $this->nodes[0]->kill();
        $this->nodes[1]->kill();
        $outcome = $waiter->answer();
        self::assertStringStartsWith(ConnectionException::class, $outcome);
        foreach ([2, 2, 1] as $i => $times) {
            self::assertSame($times, substr_count($outcome, $servers[$i]), "the third has no fault: $outcome");
        }
        self::assertLessThan(1.0 + 3.0 + self::SLACK, $waiter->ended - $killed);
        self::eventually(fn () => self::channels($this->nodes[2]) === [], 'nobody listens');
        $this->nodes[0]->start();
        $holder->ask('release');
        $holder->kill();
        $this->assertNoKeys([$this->nodes[0], $this->nodes[2]]);
        self::assertSame('held', $waiter->ask('acquire 5'), 'works at once');
    }

    public function testSlowNodesEatTheValidity(): void
    {
        $proxies = $this->proxiedQuorum();
        $servers = self::addresses($proxies);
        $quick = new RedisLock('quick', servers: $servers);
        self::pace($quick, 2);
        foreach ($proxies as $proxy) {
            $proxy->delay(0.075);
            $proxy->delayRequests(0.075);
        }
        $lock = new RedisLock('key', 1.0, servers: $servers);
        [$held, $seconds] = self::timed(static fn () => $lock->acquire());
        self::assertTrue($held);
        self::assertGreaterThanOrEqual(0.15, $seconds);
        self::assertLessThan(0.45, $seconds, 'all at the same time');
        self::assertLessThanOrEqual(0.85 - 0.01, $lock->getRemainingLifetime());
        self::assertTrue($lock->release());

        foreach ([0.2, 0.1] as $ttl) {
            $lock = new RedisLock('key', $ttl, servers: $servers);
            $e = self::caught(static fn () => $lock->acquire());
            self::assertSame(ConnectionException::class, $e::class);
            self::assertSame(3, substr_count($e->getMessage(), 'nothing came within'), $e->getMessage());
            self::assertFalse($lock->isAcquired());
        }
        usleep(150_000);
        $this->assertNoKeys();
        foreach ($this->nodes as $node) {
            self::assertSame(0, $node->command('EXISTS', 'key'));
        }
    }

    public function testOneSlowNodeIsNotWaitedFor(): void
    {
        $proxies = $this->proxiedQuorum();
        $lock = new RedisLock('key', 30, servers: self::addresses($proxies));
        self::pace($lock, 2);
        $proxies[1]->delay(0.15);
        self::assertLessThan(0.1, self::pace($lock, 30));
        self::assertTrue($lock->acquire());
        $this->assertOnAll($lock);
        self::assertTrue($lock->release());
        $this->assertNoKeys();
    }

    public function testAServerThatForgotItsScriptsIsTaughtThem(): void
    {
        $servers = $this->quorum();
        $lock = new RedisLock('key', 30, servers: $servers);
        $fenced = new RedisLock('fenced', 30, fencing: true, servers: $servers);
        foreach ([[2], [0, 1, 2]] as $forgetful) {
            foreach ([
                static fn () => $lock->acquire(), static fn () => $lock->refresh(), static fn () => $lock->getHolder() !== null,
                static fn () => $lock->release(), static fn () => $fenced->acquire(), static fn () => $fenced->release(),
                static fn () => $lock->acquire(1), static fn () => !(new RedisLock('key', servers: $servers))->acquire(0.05),
                static fn () => $lock->forceRelease(),
            ] as $number => $call) {
                foreach ($forgetful as $i) {
                    $this->nodes[$i]->command('SCRIPT', 'FLUSH');
                }
                self::assertTrue($call(), "call $number");
            }
            // What is over already is mended by the next call.
            self::assertNull($lock->getHolder());
            $this->assertNoKeys();
        }
    }

    public function testANodeThatLostItsMemoryIsOneOfAMinority(): void
    {
        $servers = $this->quorum();
        $lock = new RedisLock('key', 30, servers: $servers);
        self::assertTrue($lock->acquire());
        $this->assertOnAll($lock);
        $this->nodes[1]->flush();
        self::assertTrue($lock->refresh());
        self::assertNull($this->values()[1], 'not created anew');
        self::assertFalse((new RedisLock('key', servers: $servers))->acquire());
        self::eventually(fn () => $this->values()[1] === null, 'what another won in vain is freed');
        self::assertTrue($lock->release());
        $this->assertNoKeys();

        self::assertTrue($lock->acquire());
        $this->assertOnAll($lock);
        $this->nodes[0]->flush();
        $this->nodes[1]->flush();
        self::assertFalse($lock->refresh());
        self::assertFalse($lock->isAcquired());
        self::assertTrue($lock->isExpired());
        $this->assertNoKeys();
        self::assertFalse($lock->release());
        self::assertTrue($lock->acquire());
    }
}
