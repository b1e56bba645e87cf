<?php

namespace RedisLock\Tests;

use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\WaitTestCase;
use RedisLockFactory;

/** An acquire that counts only once replicas have it: minReplicas. */
final class ReplicasTest extends WaitTestCase
{
    private RedisServer $primary;

    /** @return list<RedisServer> so many replicas of $this->primary, which have all that it has */
    private function replicas(int $number): array
    {
        $this->primary = $this->server(['repl-diskless-sync' => 'yes']);
        $replicas = [];
        while (count($replicas) < $number) {
            $replicas[] = $this->server(['replicaof' => "127.0.0.1 {$this->primary->port}"]);
        }
        // One that is online may not be sent yet what is written.
        $connection = $this->primary->connect();
        $isConfirmed = static function () use ($connection, $number): bool {
            $connection->command('SET', 'first', 'value');

            return $connection->command('WAIT', $number, 100) === $number;
        };
        // What was written before there was a replica counts as confirmed.
        self::eventually(static fn () => $isConfirmed() && $isConfirmed(), 'replication');
        $connection->command('DEL', 'first');

        return $replicas;
    }

    public function testWhatIsConfirmedIsOnTheReplicas(): void
    {
        $replicas = $this->replicas(2);
        foreach ([1, 2] as $minReplicas) {
            for ($i = 0; $i < 20; $i++) {
                $lock = new RedisLock('key', 30, fencing: $i % 2 === 1, minReplicas: $minReplicas, servers: $this->primary->tcp());
                self::assertTrue($lock->acquire($i % 3));
                $has = array_filter($replicas, static fn (RedisServer $replica) => $replica->command('GET', 'key') === $lock->getToken());
                self::assertGreaterThanOrEqual($minReplicas, count($has));
                if ($i % 2 === 1) {
                    $key = $this->primary->command('KEYS', '*:fence')[0];
                    foreach ($has as $replica) {
                        self::assertSame((string) $lock->getFence(), $replica->command('GET', $key));
                    }
                }
                self::assertTrue($lock->refresh());
                self::assertTrue($lock->release());
            }
        }
        // In the same round trip.
        $lock = (new RedisLockFactory($this->primary->tcp(), minReplicas: 2))->createLock('key');
        self::assertTrue($lock->acquire());
        $before = [$this->primary->commandCounts()['wait'], $this->primary->requests()];
        self::assertTrue($lock->release());
        self::assertTrue($lock->acquire());
        $after = [$this->primary->commandCounts()['wait'], $this->primary->requests()];
        self::assertSame(1, $after[0] - $before[0]);
        // Beside what the replicas say.
        self::assertLessThanOrEqual(2 + 2 * 3, $after[1] - $before[1]);
        self::assertTrue($lock->release());

        self::assertSame('value', $lock->synchronized(static fn () => 'value'));
        self::assertFalse((new RedisLock('key', minReplicas: 1, servers: $this->primary->tcp()))->isAcquired());
    }

    /** Nor is the answer that is still to come taken for another's. */
    public function testBusyIsSaidAtOnceWhereReplicasAreMissing(): void
    {
        $this->setting('command_timeout', 10);
        [, $two] = $this->replicas(2);
        $two->kill(SIGSTOP);
        $address = $this->primary->tcp();
        $holder = new RedisLock('key', 30, servers: $address);
        self::assertTrue($holder->acquire());
        $lock = new RedisLock('key', 30, minReplicas: 2, servers: $address);
        for ($i = 0; $i < 5; $i++) {
            [$acquired, $seconds] = self::timed(static fn () => $lock->acquire($i % 2 * 0.1));
            self::assertFalse($acquired);
            self::assertLessThan(0.1 + self::SLACK, $seconds, 'WAIT would take 5 s');
        }
        self::assertTrue($holder->isAcquired());
        self::assertTrue($holder->release());
    }

    public function testTooFewConfirmAndItIsFreeAgain(): void
    {
        $this->setting('command_timeout', 0.6);
        [$one, $two] = $this->replicas(2);
        $address = $this->primary->tcp();
        $two->kill(SIGSTOP);
        foreach ([[2, '1 of 2'], [3, '1 of 3']] as [$minReplicas, $confirmed]) {
            foreach ([false, true] as $fencing) {
                foreach ([0.0, 0.2] as $wait) {
                    $lock = new RedisLock('key', 30, fencing: $fencing, minReplicas: $minReplicas, servers: $address);
                    $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire($wait), $wait));
                    self::assertSame(ConnectionException::class, $e::class);
                    self::assertStringContainsString("$address gave the key, but it was not kept: $confirmed replicas confirmed it within 0.3 s", $e->getMessage());
                    self::assertFalse($lock->isAcquired());
                    self::assertNull($lock->getToken());
                    self::assertSame(0, $this->primary->command('EXISTS', 'key'), 'free again');
                }
            }
        }
        $called = false;
        $e = self::caught(static fn () => (new RedisLock('key', minReplicas: 2, servers: $address))->synchronized(static function () use (&$called) {
            $called = true;
        }));
        self::assertSame([ConnectionException::class, false], [$e::class, $called]);

        // Who asks for what there is has it.
        $lock = new RedisLock('key', 30, minReplicas: 1, servers: $address);
        self::assertTrue($lock->acquire());
        self::assertSame($lock->getToken(), $one->command('GET', 'key'));
        self::assertFalse((new RedisLock('key', minReplicas: 2, servers: $address))->acquire(), 'busy, and nothing else');
        self::assertFalse((new RedisLock('key', minReplicas: 2, servers: $address))->acquire(0.1));
        self::assertTrue($lock->release());
        $two->kill(SIGCONT);
        self::eventually(static function () use ($address): bool {
            try {
                return (new RedisLock('key', minReplicas: 2, servers: $address))->acquire();
            } catch (ConnectionException) {
                return false;
            }
        }, 'the other one is back');
        self::assertSame([], array_filter($this->primary->command('KEYS', '*'), static fn (string $key) => !str_ends_with($key, ':fence')));
    }

    public function testBusyIsSaidQuickly(): void
    {
        $this->replicas(1);
        $address = $this->primary->tcp();
        $holder = new RedisLock('key', 30, minReplicas: 1, servers: $address);
        self::assertTrue($holder->acquire());
        $other = new RedisLock('key', 30, minReplicas: 1, servers: $address);
        for ($i = 0; $i < 20; $i++) {
            [$held, $seconds] = self::timed(static fn () => $other->acquire());
            self::assertFalse($held);
            self::assertLessThan(0.3, $seconds);
        }
        $e = self::caught(static fn () => $other->synchronized(static fn () => self::fail('not to be called'), 0.1));
        self::assertSame(RedisLock\LockTimeoutException::class, $e::class);
    }

    public function testWhoWaitsIsServedInOrderAndReplicasConfirmIt(): void
    {
        [$replica] = $this->replicas(1);
        $setup = '$lock = new RedisLock($key, 30, minReplicas: 1, servers: $address);';
        $contenders = array_map(fn () => $this->contender($this->primary->tcp(), setup: $setup), range(1, 4));
        self::assertSame('held', $contenders[0]->ask('acquire'));
        self::lineUp($this->primary, array_slice($contenders, 1));
        foreach ($contenders as $i => $contender) {
            if ($i > 0) {
                self::assertSame('held', $contender->answer());
                self::assertLessThan(0.5, $contender->ended - $contenders[$i - 1]->began, 'told');
                self::assertStringContainsString(':' . $contender->process->pid() . ':', (string) $replica->command('GET', 'key'));
            }
            if ($i < 3) {
                self::assertSame('released', $contender->ask('release'));
            }
        }

        // One that waits while the replica stands still is told of that once it would have the key, and passes it on.
        self::lineUp($this->primary, [$contenders[0]]);
        $replica->kill(SIGSTOP);
        $contenders[3]->tell('release');
        $outcome = $contenders[0]->answer();
        self::assertStringStartsWith(ConnectionException::class, $outcome);
        self::assertStringContainsString('0 of 1 replicas confirmed it', $outcome);
        self::assertSame('released', $contenders[3]->answer());
        self::assertSame([], $this->primary->command('KEYS', '*'));
        $replica->kill(SIGCONT);
        self::assertSame('held', $contenders[1]->ask('acquire 5'));
    }

    public function testWhereThereAreNoReplicasItIsRefused(): void
    {
        $servers = ['redis://127.0.0.1:6379', 'redis://127.0.0.1:6380', 'redis://127.0.0.1:6381'];
        foreach ([
            static fn () => new RedisLock('key', minReplicas: 1, servers: 'memory://'),
            static fn () => new RedisLock('key', minReplicas: 1, servers: $servers),
            static fn () => RedisLock::restore('key', 'token', minReplicas: 1, servers: $servers),
            static fn () => new RedisLockFactory($servers, minReplicas: 1),
            static fn () => (new RedisLockFactory('memory://'))->createLock('key', minReplicas: 1),
            static fn () => new RedisLock('key', minReplicas: -1, servers: $servers[0]),
            static fn () => new RedisLock('key', minReplicas: 1_000_001, servers: $servers[0]),
        ] as $number => $call) {
            $e = self::caught($call);
            self::assertSame(\ValueError::class, $e::class, "call $number");
            self::assertStringContainsString('($minReplicas) must be', $e->getMessage());
        }
        self::assertTrue((new RedisLock('key', minReplicas: 0, servers: 'memory://'))->acquire());
    }
}
