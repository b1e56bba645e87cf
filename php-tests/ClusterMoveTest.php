<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\CommandException;
use RedisLock\Tests\Support\Cluster;
use RedisLock\Tests\Support\Contender;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\RenewTestCase;

/** Locks whose slot is moved to another node, key by key. */
final class ClusterMoveTest extends RenewTestCase
{
    private Cluster $cluster;
    private string $address;
    private string $key;

    protected function setUp(): void
    {
        $this->cluster = Cluster::shared();
        $this->cluster->heal();
        $this->cluster->flush();
        $this->address = $this->cluster->address();
        $this->key = $this->cluster->key();
    }

    /** Where a test begins: before the move, in its middle with the lock's key here or there, or after it. */
    public static function stages(): array
    {
        return ['before the move' => [null], 'the key has not moved yet' => [false], 'the key has moved' => [true]];
    }

    /** @dataProvider stages */
    #[DataProvider('stages')]
    public function testHeldAndReleased(?bool $hasMoved): void
    {
        $lock = new RedisLock($this->key, servers: $this->address);
        $other = new RedisLock($this->key, servers: $this->address);
        self::assertTrue($lock->acquire(), 'and its node is known');
        $to = $this->cluster->other($this->key);
        $from = $this->begin($to, $hasMoved);
        if ($hasMoved === null) {
            $this->cluster->endMove($this->key, $from, $to);
        }
        self::assertFalse($other->acquire());
        self::assertFalse($other->acquire(0.1));
        self::assertSame(getmypid(), $other->getHolder()['pid']);
        self::assertTrue($lock->refresh(20));
        self::assertTrue($lock->isAcquired());
        self::assertTrue($lock->release());
        self::assertTrue($other->acquire(), 'free, it is made at the new place');
        self::assertFalse($lock->acquire());
        self::assertSame(0, $from->command('CLUSTER', 'COUNTKEYSINSLOT', $this->cluster->slot($this->key)));
        self::assertTrue($lock->forceRelease());
        self::assertFalse($other->release());
        self::assertTrue($lock->acquire(1));
        $this->cluster->endMove($this->key, $from, $to);
        self::assertTrue($lock->refresh());
        self::assertTrue($lock->release());
        self::assertSame([], $this->cluster->keys());
    }

    /** @dataProvider stages */
    #[DataProvider('stages')]
    public function testWaitedFor(?bool $hasMoved): void
    {
        $holder = $this->holder($this->address, $this->key);
        $waiters = $this->contenders(2, $this->address, $this->key);
        self::lineUp($this->cluster->serving($this->key), $waiters, 'turn 30', $this->key);
        $to = $this->cluster->other($this->key);
        $from = $this->begin($to, $hasMoved);
        if ($hasMoved === null) {
            $this->cluster->endMove($this->key, $from, $to);
            // They go where they can be told, and keep their places.
            self::eventually(fn () => count(self::channelsOf($to)) === 2 && self::channelsOf($from) === [], 'they listen there');
            self::eventually(fn () => self::queue($to, $this->key) === self::pids($waiters), 'the same queue');
        }
        self::assertSame('released', $holder->ask('release'));
        foreach ($waiters as $waiter) {
            self::assertSame('had', $waiter->answer());
        }
        if ($hasMoved === null) {
            self::assertLessThan(0.5, $waiters[0]->began - $holder->began, 'told, and not found');
        } else {
            // The one or the other has found it first.
            usort($waiters, static fn (Contender $one, Contender $other) => $one->began <=> $other->began);
            self::assertLessThan(1.0 + self::SLACK, $waiters[0]->began - $holder->began);
            $this->cluster->endMove($this->key, $from, $to);
        }
        self::assertGreaterThanOrEqual($waiters[0]->ended, $waiters[1]->began, 'one after the other');
        // A place that was left behind is dropped when it is met.
        $next = new RedisLock($this->key, servers: $this->address);
        self::assertTrue($next->acquire(1));
        self::assertSame([$this->key], $this->cluster->keys());
    }

    public function testWhoBeganToWaitInTheMiddleIsToldAfterIt(): void
    {
        $holder = $this->holder($this->address, $this->key);
        $to = $this->cluster->other($this->key);
        $from = $this->cluster->beginMove($this->key, $to);
        $waiter = $this->contender($this->address, $this->key);
        $waiter->tell('acquire 30');
        self::eventually(fn () => count($this->cluster->channels()) === 1, 'it listens');
        usleep(300_000);
        self::assertSame([], self::queue($from, $this->key), 'there is no queue for it yet');
        $this->cluster->endMove($this->key, $from, $to);
        self::eventually(fn () => self::queue($to, $this->key) === self::pids([$waiter]), 'now there is');
        self::eventually(static fn () => count(self::channelsOf($to)) === 1, 'it listens there');
        usleep(50_000);
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $waiter->answer());
        self::assertLessThan(0.5, $waiter->ended - $holder->began);
    }

    public function testWhoGivesUpInTheMiddleLeavesNoPlaceBehind(): void
    {
        $this->holder($this->address, $this->key);
        $node = $this->cluster->serving($this->key);
        $waiter = $this->contender($this->address, $this->key);
        self::lineUp($node, [$waiter], 'acquire 1', $this->key);
        $to = $this->cluster->other($this->key);
        $from = $this->cluster->beginMove($this->key, $to);
        $this->cluster->moveKeys($from, $to, $this->key);
        self::assertSame('busy', $waiter->answer());
        self::assertSame([], self::queue($from, $this->key));
        self::assertSame([], self::queue($to, $this->key));
        $this->cluster->endMove($this->key, $from, $to);
    }

    /** @dataProvider stages */
    #[DataProvider('stages')]
    public function testRenewed(?bool $hasMoved): void
    {
        $keeper = $this->keeper($this->address, 1.5, $this->key);
        $to = $this->cluster->other($this->key);
        $from = $this->begin($to, $hasMoved);
        if ($hasMoved === null) {
            $this->cluster->endMove($this->key, $from, $to);
        }
        // It follows where the key goes.
        $look = new RedisLock($this->key, servers: $this->address);
        for ($until = self::now() + 2.5; self::now() < $until; usleep(10_000)) {
            self::assertGreaterThan(0.3, $look->getHolder()['ttl'] ?? 0.0);
        }
        self::assertTrue($keeper->ask('run return $lock->isAcquired();'));
        self::assertSame([0, 1], [self::stats($keeper)['lost'], self::stats($keeper)['kept']]);
        self::assertGreaterThanOrEqual(3, self::stats($keeper)['renewals']);
        $this->cluster->endMove($this->key, $from, $to);
        self::assertSame('released', $keeper->ask('release'));
    }

    public function testAFenceIsWaitedForUntilTheSlotHasMoved(): void
    {
        $this->setting('connect_timeout', 0.3);
        $this->setting('command_timeout', 0.3);
        $lock = new RedisLock($this->key, fencing: true, servers: $this->address);
        $other = new RedisLock($this->key, fencing: true, servers: $this->address);
        self::assertTrue($lock->acquire());
        $to = $this->cluster->other($this->key);
        $from = $this->cluster->beginMove($this->key, $to);
        self::assertFalse($other->acquire(), 'busy');
        self::assertTrue($lock->refresh());
        self::assertTrue($lock->release());
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $other->acquire()));
        self::assertInstanceOf(CommandException::class, $e, 'neither had nor busy');
        $waiter = $this->contender($this->address, $this->key, setup: '$lock = new RedisLock($key, fencing: true, servers: $address);');
        $waiter->tell('acquire 10');
        usleep(300_000);
        $this->cluster->endMove($this->key, $from, $to);
        self::assertSame('held', $waiter->answer());
        self::assertGreaterThan($lock->getFence(), $waiter->ask('run return $lock->getFence();'));
    }

    public function testThereAreNeverTwoHolders(): void
    {
        $setup = '$haveTurns = function () use ($lock) {
            for ($turns = [], $until = microtime(true) + 4; microtime(true) < $until; $turns[] = [$began, $ended]) {
                if (!$lock->acquire(10)) {
                    return "busy";
                }
                $began = hrtime(true) / 1e9;
                usleep(random_int(100, 3_000));
                $ended = hrtime(true) / 1e9;
                if (!$lock->isAcquired() || !$lock->release()) {
                    return "lost";
                }
            }
            return $turns;
        };';
        $contenders = array_map(fn () => $this->contender($this->address, $this->key, setup: $setup), range(1, 4));
        foreach ($contenders as $contender) {
            $contender->tell('run return $haveTurns();');
        }
        $moves = 0;
        for ($until = self::now() + 4; self::now() < $until; $moves++) {
            $to = $this->cluster->other($this->key);
            $from = $this->cluster->beginMove($this->key, $to);
            usleep(random_int(0, 100_000));
            // The key alone, if there is one, and then the rest.
            $this->cluster->moveKeys($from, $to, $this->key);
            usleep(random_int(0, 100_000));
            $this->cluster->endMove($this->key, $from, $to);
            usleep(random_int(0, 100_000));
        }
        $turns = [];
        foreach ($contenders as $contender) {
            $had = $contender->answer();
            self::assertIsArray($had, (string) json_encode($had));
            array_push($turns, ...$had);
        }
        self::assertGreaterThan(5, $moves);
        self::assertGreaterThan(100, count($turns));
        sort($turns);
        for ($i = 1; $i < count($turns); $i++) {
            self::assertGreaterThanOrEqual($turns[$i - 1][1], $turns[$i][0], 'one after the other');
        }
        self::assertTrue((new RedisLock($this->key, servers: $this->address))->acquire(2));
    }

    /** The lock's slot is about to be moved. @return RedisServer from where */
    private function begin(RedisServer $to, ?bool $hasMoved): RedisServer
    {
        $from = $this->cluster->beginMove($this->key, $to);
        if ($hasMoved === true) {
            $this->cluster->moveKeys($from, $to, $this->key);
        }

        return $from;
    }

    private static function channelsOf(RedisServer $node): array
    {
        return $node->command('PUBSUB', Cluster::hasShardedChannels() ? 'SHARDCHANNELS' : 'CHANNELS');
    }
}
