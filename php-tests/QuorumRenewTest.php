<?php

namespace RedisLock\Tests;

use RedisLock\LockLostException;
use RedisLock\Tests\Support\QuorumTestCase;
use RedisLock\Tests\Support\RedisServer;

/** Leases in a quorum that keep themselves, by a majority; and forks, which have nothing of them. */
final class QuorumRenewTest extends QuorumTestCase
{
    private const TTL = 1.2;

    public function testALeaseIsKeptWhileNodesComeAndGo(): void
    {
        $servers = implode(' ', $this->quorum());
        $keeper = $this->keeper($servers, self::TTL);
        [$a, $b, $c] = $this->nodes;
        self::assertGreaterThanOrEqual(self::TTL / 3, self::leastLeft($a, self::after(self::TTL * 1.5), 'key'));
        self::assertHasOneThread($keeper);
        foreach ($this->nodes as $node) {
            self::assertLessThanOrEqual(2, count($node->clients()), 'one more for the thread');
        }

        $c->stop();
        self::assertGreaterThanOrEqual(self::TTL / 3, self::leastLeft($a, self::after(self::TTL * 1.5), 'key'));
        $c->start();
        self::assertGreaterThanOrEqual(self::TTL / 3, self::leastLeft($b, self::after(self::TTL), 'key'));
        self::assertSame(0, $c->command('EXISTS', 'key'), 'not created anew');
        $b->command('SCRIPT', 'FLUSH');
        self::assertGreaterThanOrEqual(self::TTL / 3, self::leastLeft($b, self::after(self::TTL), 'key'));
        self::assertTrue($keeper->ask('run return $lock->isAcquired();'));
        self::assertSame([0, 1], [self::stats($keeper)['lost'], self::stats($keeper)['kept']]);
        self::assertHasOneThread($keeper);

        // The third holds what it granted since: with it there is a majority without the first.
        self::assertSame('released', $keeper->ask('release'));
        $this->assertNoKeys();
        self::assertSame('held', $keeper->ask('acquire'));
        $a->kill(SIGSTOP);
        self::assertGreaterThanOrEqual(self::TTL / 4, self::leastLeft($c, self::after(self::TTL * 1.5), 'key'));
        $a->kill(SIGCONT);
        self::eventually(static fn () => $a->command('PTTL', 'key') <= 0, 'it missed the renewals');
        self::assertGreaterThanOrEqual(self::TTL / 3, self::leastLeft($c, self::after(self::TTL), 'key'));
        self::assertSame('released', $keeper->ask('release'));
        $this->assertNoKeys();
    }

    public function testAKeyThatEndedEarlyOnOneNodeIsNotCreatedThereAnew(): void
    {
        $servers = $this->quorum();
        $keeper = $this->keeper(implode(' ', $servers), self::TTL);
        foreach ([['DEL', 'key'], ['SET', 'key', 'another', 'PX', 60_000]] as $command) {
            $this->nodes[1]->command(...$command);
            $renewals = self::stats($keeper)['renewals'];
            self::eventually(static fn () => self::stats($keeper)['renewals'] >= $renewals + 3, 'renewals');
            self::assertSame($command[2] ?? null, $this->values()[1]);
        }
        self::assertSame(0, self::stats($keeper)['lost']);
        self::assertSame('released', $keeper->ask('release'));
        self::eventually(fn () => $this->values() === [null, 'another', null], 'the other one is left alone');
    }

    public function testTheLossOfAMajorityIsToldByTheNextRenewal(): void
    {
        $servers = implode(' ', $this->quorum());
        $keeper = $this->keeper($servers, self::TTL);
        $keeper->tell('run return $believe();');
        $this->nodes[0]->flush();
        $this->nodes[2]->flush();
        $flushed = self::now();
        [, $told] = $keeper->answer();
        self::assertLessThan(self::TTL / 3 + 0.5, $told - $flushed);
        self::assertSame(self::LOST, $keeper->ask('run return $look();'));
        self::assertHasLost($keeper, 1);
        self::assertSame('lost', $keeper->ask('release'));
        self::eventually(fn () => $this->values() === [null, null, null], 'nothing is left', 5.0);
        self::assertSame('held', $keeper->ask('acquire'));
    }

    public function testAMajorityThatIsGoneForLongerThanTheTtlLosesTheLeaseInTime(): void
    {
        $servers = implode(' ', $this->quorum());
        $synchronized = '$work = function () use (&$address): array {
            $lock = new RedisLock("key", ' . self::TTL . ', renew: true, interrupt: true, servers: $address);
            try {
                $lock->synchronized(function () { while (true) { usleep(200); $GLOBALS["last"] = hrtime(true) / 1e9; } });
            } catch (RedisLock\LockLostException $e) {
                return [get_class($e), $e->getMessage(), $GLOBALS["last"]];
            }
        };';
        $workers = [];
        foreach ([SIGSTOP, SIGKILL] as $signal) {
            $worker = $this->contender($servers, setup: $synchronized);
            $worker->tell('run return $work();');
            foreach ($this->nodes as $node) {
                self::eventually(static fn () => $node->command('EXISTS', 'key') === 1, 'it works');
            }
            usleep((int) (self::TTL * 1e6));
            $this->nodes[1]->kill($signal);
            $this->nodes[2]->kill($signal);
            $gone = self::now();
            [$class, $message, $last] = $worker->answer();
            self::assertSame(LockLostException::class, $class);
            self::assertLessThan($gone + self::TTL, $last, 'while nobody else could have it');
            self::assertGreaterThan($gone + self::TTL / 3, $last, 'and not at the first failure');
            self::assertStringNotContainsString('?', $message);
            if ($signal === SIGSTOP) {
                $this->nodes[1]->kill(SIGCONT);
                $this->nodes[2]->kill(SIGCONT);
            }
            $worker->ask('run return 1;');
            $this->assertNoKeys([$this->nodes[0]]);
        }
    }

    public function testAMajorityThatIsGoneForHalfOfTheTtlIsSurvived(): void
    {
        $servers = implode(' ', $this->quorum());
        $keeper = $this->keeper($servers, 3.0);
        self::eventually(static fn () => self::stats($keeper)['renewals'] > 0, 'a renewal');
        foreach ([0, 1] as $i) {
            $this->nodes[$i]->kill(SIGSTOP);
        }
        usleep(1_000_000);
        foreach ([0, 1] as $i) {
            $this->nodes[$i]->kill(SIGCONT);
        }
        self::assertGreaterThan(0.0, self::leastLeft($this->nodes[0], self::after(1.0), 'key'));
        self::assertGreaterThanOrEqual(1.0, self::leastLeft($this->nodes[0], self::after(1.5), 'key'), 'as before');
        self::assertSame([0, 1], [self::stats($keeper)['lost'], self::stats($keeper)['kept']]);
        self::assertSame('released', $keeper->ask('release'));
        $this->assertNoKeys();
    }

    public function testManyLeasesAreRenewedByOneThreadInFewRequests(): void
    {
        $servers = implode(' ', $this->quorum());
        $keeper = $this->contender($servers, setup: '
            for ($i = 0; $i < 200; $i++) {
                $locks[$i] = new RedisLock("key$i", 2.0, renew: true, servers: $address);
                $locks[$i]->acquire() || exit(1);
            }');
        self::assertSame(200, $keeper->ask('run return RedisLock::stats()["kept"];'));
        $before = $this->nodes[1]->requests();
        usleep(3_000_000);
        self::assertLessThan(400, $this->nodes[1]->requests() - $before, 'in pipelines');
        self::assertHasOneThread($keeper);
        foreach ($this->nodes as $node) {
            self::assertSame(200, $node->command('DBSIZE'));
        }
        self::assertSame(0, self::stats($keeper)['lost']);
        $keeper->ask('run $locks = [];');
        $this->assertNoKeys();
    }

    public function testAForkedChildHasNothingOfItsParentsAndCanTakeItsOwn(): void
    {
        $servers = implode(' ', $this->quorum());
        $keeper = $this->contender($servers, ttl: self::TTL, setup: '
            ini_set("display_errors", "0");
            $lock = new RedisLock($key, (float) $ttl, renew: true, servers: $address);
            $sockets = fn () => count(array_filter(array_map(fn ($fd) => (string) @readlink($fd), glob("/proc/self/fd/*")), fn ($to) => str_starts_with($to, "socket:")));
            // Those of the process that runs the tests.
            $others = $sockets();
            $fork = function () use (&$lock, $address, $sockets, $others): int {
                $pid = pcntl_fork();
                if ($pid === 0) {
                    $own = new RedisLock("own", ' . self::TTL . ', renew: true, servers: $address);
                    $busy = new RedisLock($lock->getKey(), servers: $address);
                    echo json_encode([
                        "sockets" => $sockets() - $others,
                        "inherited" => [$lock->isAcquired(), $lock->isExpired(), $lock->getRemainingLifetime(), $lock->release()],
                        "busy" => [$lock->acquire(), $busy->acquire(), $busy->acquire(0.2)],
                        "its own" => [$own->acquire(), usleep(2_000_000), $own->isAcquired()],
                        "kept" => RedisLock::stats()["kept"],
                    ]), "\n";
                    exit(0);
                }
                pcntl_waitpid($pid, $status);
                return $status;
            };');
        self::assertSame('held', $keeper->ask('acquire'));
        self::eventually(static fn () => self::stats($keeper)['renewals'] > 0, 'the keeper is at work');
        foreach ($this->nodes as $node) {
            // One that is being made at that very moment is not known to be a socket yet.
            self::eventually(static fn () => count($node->clients()) === 2, 'two connections');
        }
        self::assertHasOneThread($keeper);
        $keeper->tell('run return $fork();');
        $over = fn () => $this->nodes[2]->command('EXISTS', 'own') === 1;
        self::eventually($over, 'the child has its own');
        self::assertGreaterThanOrEqual(self::TTL / 3, self::leastLeft($this->nodes[0], self::after(1.5), 'key', 'own'));
        $seen = json_decode($keeper->process->readLine(), true);
        self::assertSame(0, $keeper->answer());
        self::assertSame([
            'sockets' => 0,
            'inherited' => [false, false, null, false],
            'busy' => [false, false, false],
            'its own' => [true, null, true],
            'kept' => 1,
        ], $seen);
        foreach ($this->nodes as $node) {
            self::eventually(static fn () => $node->command('KEYS', '*') === ['key'], "the parent's");
        }
        self::assertGreaterThanOrEqual(self::TTL / 3, self::leastLeft($this->nodes[1], self::after(1.5), 'key'));
        self::assertTrue($keeper->ask('run return $lock->isAcquired();'));
        self::assertSame('released', $keeper->ask('release'));
        $this->assertNoKeys();
    }
}
