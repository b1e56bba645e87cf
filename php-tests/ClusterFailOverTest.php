<?php

namespace RedisLock\Tests;

use RedisLock;
use RedisLock\Tests\Support\Cluster;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\RenewTestCase;

/** Locks in a cluster whose primaries fail: a replica takes over within a few seconds. */
final class ClusterFailOverTest extends RenewTestCase
{
    private Cluster $cluster;
    private RedisServer $primary;
    private string $address;
    private string $key;

    protected function setUp(): void
    {
        $this->cluster = Cluster::shared();
        $this->cluster->heal();
        $this->cluster->flush();
        $this->address = $this->cluster->address();
        $this->primary = $this->cluster->primaries()[random_int(0, 2)];
        $this->key = $this->cluster->key($this->primary);
    }

    public function testAHeldLockIsHeldAndIsHandedOver(): void
    {
        $keeper = $this->keeper($this->address, 9, $this->key);
        $waiters = $this->contenders(2, $this->address, $this->key);
        self::lineUp($this->primary, $waiters, key: $this->key);
        $this->cluster->eventuallyReplicated($this->primary);
        $replica = $this->cluster->failOver($this->primary);

        $other = new RedisLock($this->key, servers: $this->address);
        self::assertFalse($other->acquire());
        self::assertSame($keeper->process->pid(), $other->getHolder()['pid']);
        $left = $replica->command('PTTL', $this->key);
        self::eventually(fn () => $replica->command('PTTL', $this->key) > $left + 500, 'it is renewed');
        self::assertTrue($keeper->ask('run return $lock->isAcquired();'));
        self::assertSame([0, 1], [self::stats($keeper)['lost'], self::stats($keeper)['kept']]);
        self::assertSame(self::pids($waiters), self::queue($replica, $this->key), 'they kept their places');
        self::eventually(static fn () => self::hears($replica) === 2, 'and listen');
        self::assertSame('released', $keeper->ask('release'));
        $last = $keeper;
        foreach ($waiters as $waiter) {
            self::assertSame('held', $waiter->answer());
            self::assertLessThan(0.5, $waiter->ended - $last->began, 'told, and not found');
            self::assertSame('released', $waiter->ask('release'));
            $last = $waiter;
        }
        self::assertSame([], $this->cluster->keys());
    }

    public function testMeanwhileItIsTriedAgain(): void
    {
        $idle = $this->contender($this->address, $this->key);
        self::assertSame('held', $idle->ask('acquire'));
        $late = $this->contender($this->address, $this->cluster->key($this->primary));
        self::assertSame('held', $late->ask('acquire'));
        $this->cluster->eventuallyReplicated($this->primary);
        $replica = $this->cluster->replica($this->primary);
        $this->primary->kill();
        $late->tell('release');
        $this->setting('connect_timeout', 0.2);
        $this->setting('command_timeout', 0.2);
        $hasty = new RedisLock($this->cluster->key($this->primary), servers: $this->address);
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $hasty->acquire()));
        // Down, or what the others answer once they know.
        self::assertInstanceOf(\RedisLock\Exception::class, $e);
        self::assertMatchesRegularExpression('~cannot connect to redis://127\.0\.0\.1:|CLUSTERDOWN~', $e->getMessage());
        $patient = $this->contender($this->address, $this->key);
        $patient->tell('acquire 20');
        $this->cluster->eventuallyTakenOver($replica);
        // Down, if that took longer than it may try again.
        self::assertMatchesRegularExpression('/^released$|^RedisLock\\\\ConnectionException/', $late->answer());
        self::assertSame('released', $idle->ask('release'));
        self::assertSame('held', $patient->answer());
        self::assertLessThan(1.0 + self::SLACK, $patient->ended - $idle->began);
    }

    public function testAScriptThatEndsFreesWhatOthersServe(): void
    {
        $primaries = $this->cluster->primaries();
        // The one that is down comes first.
        usort($primaries, fn (RedisServer $one) => $one === $this->primary ? -1 : 1);
        $keys = array_map($this->cluster->key(...), $primaries);
        $code = '$locks = array_map(fn ($key) => new RedisLock($key, servers: $argv[1]), array_slice($argv, 2));
            foreach ($locks as $lock) { $lock->acquire() || exit(1); }
            echo "held\n";
            fgets(STDIN);
            trigger_error("the end", E_USER_ERROR);';
        $process = PhpProcess::code($code, [$this->address, ...$keys], ['redis_lock.connect_timeout' => 0.2, 'redis_lock.command_timeout' => 0.2]);
        self::assertSame('held', $process->readLine());
        // Otherwise the cluster answers nothing while slots are served by nobody.
        $this->cluster->configure('cluster-require-full-coverage', 'no');
        $this->primary->kill();
        $process->writeLine('end');
        self::assertSame(255, $process->wait());
        foreach (array_slice($keys, 1) as $i => $key) {
            self::assertSame(0, $primaries[$i + 1]->command('EXISTS', $key), 'freed');
        }
        $this->cluster->configure('cluster-require-full-coverage', 'yes');
    }

    public function testOneThatIsSilentHoldsUpNobodyElse(): void
    {
        $primaries = $this->cluster->primaries();
        $keys = array_map($this->cluster->key(...), $primaries);
        $silent = array_search($this->primary, $primaries, true);
        // Otherwise the cluster answers nothing while slots are served by nobody.
        $this->cluster->configure('cluster-require-full-coverage', 'no');
        $setup = '$locks = array_map(fn ($key) => new RedisLock($key, 1.2, servers: $address, renew: true), ' . var_export($keys, true) . ');';
        $keeper = $this->contender($this->address, setup: $setup);
        self::assertSame('all', $keeper->ask('run foreach ($locks as $lock) { $lock->acquire() || exit(1); } return "all";'));
        $replica = $this->cluster->replica($this->primary);
        $this->primary->kill(SIGSTOP);
        try {
            for ($until = self::now() + 3; self::now() < $until; usleep(10_000)) {
                $held = $keeper->ask('run return array_map(fn ($lock) => $lock->isAcquired(), $locks);');
                unset($held[$silent]);
                self::assertNotContains(false, $held);
            }
        } finally {
            $this->primary->kill(SIGCONT);
        }
        $this->cluster->eventuallyTakenOver($replica);
        $this->cluster->configure('cluster-require-full-coverage', 'yes');
        self::assertTrue($keeper->ask("run return \$locks[$silent]->isAcquired() || \$locks[$silent]->acquire(5);"));
        self::assertTrue($keeper->ask('run foreach ($locks as $lock) { $lock->release() || exit(1); } return true;'));
    }

    private static function hears(RedisServer $node): int
    {
        return count($node->command('PUBSUB', Cluster::hasShardedChannels() ? 'SHARDCHANNELS' : 'CHANNELS'));
    }
}
