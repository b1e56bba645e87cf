<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\CommandException;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\Cluster;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\WaitTestCase;

/** Locks in a cluster in which nothing moves. */
final class ClusterTest extends WaitTestCase
{
    private Cluster $cluster;
    private string $address;

    protected function setUp(): void
    {
        $this->cluster = Cluster::shared();
        $this->cluster->heal();
        $this->cluster->flush();
        $this->address = $this->cluster->address();
    }

    public function testLocksOverAllSlots(): void
    {
        mt_srand(1);
        $served = [];
        for ($i = 0; $i < 300; $i++) {
            // Braces and bytes of all kinds.
            $key = "$i" . substr(str_shuffle('{}{}ab' . random_bytes(4)), 0, mt_rand(1, 10));
            $lock = new RedisLock($key, servers: $this->address);
            $other = new RedisLock($key, servers: $this->address);
            self::assertTrue($lock->acquire(), bin2hex($key));
            self::assertFalse($other->acquire(), bin2hex($key));
            self::assertSame(getmypid(), $other->getHolder()['pid']);
            $node = $this->cluster->serving($key);
            self::assertSame($lock->getToken(), $node->command('GET', $key));
            $served[$node->port] = true;
            self::assertTrue($lock->refresh(60));
            self::assertTrue($lock->release());
            self::assertFalse($lock->release());
            self::assertNull($other->getHolder());
        }
        self::assertCount(3, $served);
        self::assertSame([], $this->cluster->keys());
    }

    public function testALockThatNobodyContendsCostsTwoRequestsAndOneConnection(): void
    {
        $node = $this->cluster->primaries()[0];
        $key = $this->cluster->key($node);
        $code = '$lock = new RedisLock($argv[2], servers: $argv[1]);
            for ($i = 0; $i < 200; $i++) { $lock->acquire() && $lock->release() || exit(1); }
            echo "done\n"; fgets(STDIN);';
        $connections = fn () => array_merge(...array_map(
            static fn (RedisServer $node) => array_map(static fn (string $id) => "$node->port:$id", array_column($node->clients(), 'id')),
            $this->cluster->nodes,
        ));
        $others = $connections();
        $before = $node->commandCounts();
        $process = PhpProcess::code($code, [$this->cluster->address('', $node), $key]);
        self::assertSame('done', $process->readLine());
        $counts = $node->commandCounts();
        self::assertCount(1, array_diff($connections(), $others));
        self::assertSame(200, $counts['set'] - ($before['set'] ?? 0));
        // The script's text goes to the server once, if it did not know it.
        $scripts = fn (array $counts) => ($counts['evalsha'] ?? 0) + ($counts['eval'] ?? 0);
        self::assertLessThanOrEqual(201, $scripts($counts) - $scripts($before));
        $process->kill();
    }

    public static function keysOfAllKinds(): array
    {
        return ['plain' => [''], 'with a tag' => ['{tag}'], 'with an empty tag' => ['{}'], 'with a tag behind an empty one' => ['{}{tag}'],
            'with an open brace' => ['a{b'], 'with a closed brace' => ['}']];
    }

    /** @dataProvider keysOfAllKinds */
    #[DataProvider('keysOfAllKinds')]
    public function testWhoWaitsIsTold(string $begin): void
    {
        foreach ($this->cluster->primaries() as $node) {
            do {
                $key = $begin . bin2hex(random_bytes(4));
                // A tag fixes the slot.
            } while ($begin !== '{tag}' && $begin !== '{}{tag}' && $this->cluster->serving($key) !== $node);
            $holder = $this->holder($this->address, $key);
            $waiters = $this->contenders(2, $this->address, $key);
            foreach ($waiters as $i => $waiter) {
                $waiter->tell('acquire 30');
                self::eventually(fn () => $this->cluster->waiting($key) === $i + 1, 'it stands in the queue');
                self::assertCount($i + 1, $this->cluster->channels(), 'and listens');
            }
            foreach ([$holder, ...$waiters] as $i => $now) {
                $next = [...$waiters, null][$i];
                self::assertSame('released', $now->ask('release'));
                if ($next !== null) {
                    self::assertSame('held', $next->answer(), $key);
                    self::assertLessThan(0.5, $next->ended - $now->began, 'told, and not found');
                }
            }
            self::assertSame([], $this->cluster->keys());
            array_map(static fn ($contender) => $contender->kill(), [$holder, ...$waiters]);
            self::eventually(fn () => $this->cluster->channels() === [], 'nobody listens');
        }
    }

    public function testOfferedKeysAreNotGivenToTheDead(): void
    {
        $key = $this->cluster->key();
        $holder = $this->holder($this->address, $key);
        $node = $this->cluster->serving($key);
        $waiters = $this->contenders(3, $this->address, $key);
        self::lineUp($node, $waiters, key: $key);
        $waiters[0]->kill();
        self::eventually(fn () => count($this->cluster->channels()) === 2, 'its channel is gone');
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $waiters[1]->answer());
        self::assertLessThan(0.5, $waiters[1]->ended - $holder->began);
    }

    public function testFences(): void
    {
        $last = [];
        for ($i = 0; $i < 60; $i++) {
            $key = '{' . $i % 20 . '}{}';
            $lock = new RedisLock($key, fencing: true, servers: $this->address);
            self::assertTrue($lock->acquire());
            self::assertGreaterThan($last[$key] ?? 0, $last[$key] = $lock->getFence());
            $this->cluster->command($key, 'DEL', $key);
        }
    }

    public function testReplicasConfirm(): void
    {
        $key = $this->cluster->key();
        $lock = new RedisLock($key, minReplicas: 1, servers: $this->address);
        self::assertTrue($lock->acquire());
        self::assertSame($lock->getToken(), $this->cluster->command($key, 'GET', $key));
        self::assertTrue($lock->release());
        $this->setting('command_timeout', 0.2);
        $lock = new RedisLock($key, minReplicas: 2, servers: $this->address);
        $e = self::caught(static fn () => $lock->acquire());
        self::assertInstanceOf(ConnectionException::class, $e);
        self::assertStringContainsString('1 of 2 replicas confirmed it', $e->getMessage());
        self::assertSame([], $this->cluster->keys(), 'it was freed');
    }

    public function testOneThreadRenewsLeasesOnAllNodes(): void
    {
        $keys = array_map(fn (int $i) => $this->cluster->key($this->cluster->primaries()[$i % 3]), range(0, 29));
        $setup = '$locks = array_map(fn ($key) => new RedisLock($key, 1.0, servers: $address, renew: true), ' . var_export($keys, true) . ');';
        $keeper = $this->contender($this->address, setup: $setup);
        self::assertSame('all', $keeper->ask('run foreach ($locks as $lock) { $lock->acquire() || exit(1); } return "all";'));
        $least = INF;
        for ($until = self::now() + 2.5; self::now() < $until; usleep(20_000)) {
            foreach ($keys as $key) {
                $least = min($least, $this->cluster->command($key, 'PTTL', $key));
            }
        }
        self::assertGreaterThan(300, $least, 'milliseconds');
        $stats = (array) $keeper->ask('run return RedisLock::stats();');
        self::assertSame([30, 0, 0], [$stats['kept'], $stats['lost'], $stats['renewalErrors']]);
        self::assertGreaterThanOrEqual(30 * 5, $stats['renewals']);
        self::assertSame(['redis_lock'], PhpProcess::threads($keeper->process->pid()));
        self::assertTrue($keeper->ask('run foreach ($locks as $lock) { $lock->release() || exit(1); } return true;'));
        self::assertSame([], $this->cluster->keys());
    }

    public function testAHandleAndForcedRelease(): void
    {
        $key = $this->cluster->key();
        $lock = new RedisLock($key, servers: $this->address);
        self::assertFalse($lock->forceRelease());
        self::assertTrue($lock->acquire());
        $handle = RedisLock::restore($key, $lock->getToken(), servers: $this->address);
        self::assertTrue($handle->refresh(5));
        self::assertTrue((new RedisLock($key, servers: $this->address))->forceRelease());
        self::assertFalse($handle->refresh());
        self::assertFalse($lock->release());
        self::assertSame([], $this->cluster->keys());
    }

    public function testAnySeedWillDo(): void
    {
        $this->setting('connect_timeout', 0.2);
        $key = $this->cluster->key();
        $dead = '127.0.0.1:' . RedisServer::freePort();
        $silent = stream_socket_server('tcp://127.0.0.1:0');
        $silentName = stream_socket_get_name($silent, false);
        // Primaries and replicas.
        foreach ($this->cluster->nodes as $node) {
            $lock = new RedisLock($key, servers: "redis+cluster://$dead,$silentName,127.0.0.1:$node->port");
            self::assertTrue(self::withinDeadline(static fn () => $lock->acquire()));
            self::assertTrue($lock->release());
        }
    }

    public function testNoSeedWillDo(): void
    {
        $this->setting('connect_timeout', 0.2);
        $this->setting('command_timeout', 0.2);
        $dead = '127.0.0.1:' . RedisServer::freePort();
        $silent = stream_socket_server('tcp://127.0.0.1:0');
        $silentName = stream_socket_get_name($silent, false);
        foreach (['acquire' => $dead, 'getHolder' => $silentName, 'forceRelease' => "$dead,$silentName"] as $method => $seeds) {
            $lock = new RedisLock('key', servers: "redis+cluster://user:hidden@$seeds");
            $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->$method()));
            self::assertInstanceOf(ConnectionException::class, $e);
            self::assertStringContainsString("redis+cluster://$seeds", $e->getMessage());
            foreach (explode(',', $seeds) as $seed) {
                self::assertStringContainsString("redis://$seed", $e->getMessage());
            }
            self::assertStringNotContainsString('hidden', $e->getMessage());
        }
    }

    public function testAServerThatIsInNoCluster(): void
    {
        $server = RedisServer::shared();
        $lock = new RedisLock('key', servers: "redis+cluster://127.0.0.1:$server->port");
        $e = self::caught(static fn () => $lock->acquire());
        self::assertInstanceOf(CommandException::class, $e);
        self::assertStringContainsString('cluster support disabled', $e->getMessage());
        self::assertStringContainsString("redis://127.0.0.1:$server->port", $e->getMessage());
    }

    public function testUsersAndWhatTheyMayDo(): void
    {
        $may = ['set', 'get', 'del', 'evalsha', 'eval', 'cluster|slots', 'asking', 'pexpire', 'pttl', 'exists', 'zadd', 'zrange', 'zrank',
            'zrem', 'zscore', 'pubsub|numsub', 'pubsub|shardnumsub', 'time'];
        array_push($may, ...Cluster::hasShardedChannels() ? ['spublish', 'ssubscribe', 'sunsubscribe'] : ['publish', 'subscribe', 'unsubscribe']);
        foreach ($this->cluster->nodes as $node) {
            $node->command('ACL', 'SETUSER', 'shop', 'reset', 'on', '>password', '~shop:*', 'resetchannels', '&shop:*', ...array_map(static fn ($command) => "+$command", $may));
            $node->command('ACL', 'LOG', 'RESET');
        }
        try {
            $address = $this->cluster->address('shop:password');
            $lock = new RedisLock('key', fencing: true, prefix: 'shop:', servers: $address);
            self::assertTrue($lock->acquire());
            self::assertTrue($lock->refresh());
            $waiter = $this->contender($address, 'key', ini: ['redis_lock.prefix' => 'shop:']);
            self::lineUp($this->cluster->serving('shop:key'), [$waiter], key: 'shop:key');
            $released = self::now();
            self::assertTrue($lock->release());
            self::assertSame('held', $waiter->answer());
            self::assertLessThan(0.5, $waiter->ended - $released);
            self::assertSame('released', $waiter->ask('release'));
            foreach ($this->cluster->nodes as $node) {
                self::assertSame([], $node->command('ACL', 'LOG'), 'nothing was refused');
            }

            foreach (['shop:wrong-one', 'nobody:password'] as $login) {
                $wrong = new RedisLock('key', prefix: 'shop:', servers: $this->cluster->address($login));
                [$e, $seconds] = self::timed(static fn () => self::caught(static fn () => $wrong->acquire()));
                self::assertInstanceOf(ConnectionException::class, $e);
                self::assertStringContainsString('WRONGPASS', $e->getMessage());
                self::assertStringNotContainsString(explode(':', $login)[1], $e->getMessage());
                self::assertLessThan(self::SLACK, $seconds, 'it is not tried again and again');
            }
            $elsewhere = new RedisLock('key', prefix: 'other:', servers: $address);
            self::assertStringContainsString('NOPERM', self::caught(static fn () => $elsewhere->acquire())->getMessage());
        } finally {
            foreach ($this->cluster->nodes as $node) {
                $node->command('ACL', 'DELUSER', 'shop');
            }
        }
    }

    public function testAForkedChildHasConnectionsOfItsOwn(): void
    {
        $key = $this->cluster->key();
        $code = '$lock = new RedisLock($argv[2], servers: $argv[1], renew: true, ttl: 1);
            $lock->acquire() || exit(1);
            if (pcntl_fork() === 0) {
                $own = new RedisLock("$argv[2]child", servers: $argv[1], renew: true, ttl: 0.6);
                $own->acquire() || exit(2);
                usleep(1_500_000);
                exit($own->release() && !$lock->isAcquired() && !(new RedisLock($argv[2], servers: $argv[1]))->acquire() ? 0 : 3);
            }
            pcntl_wait($status);
            echo pcntl_wexitstatus($status), " ", (int) $lock->release(), "\n";';
        self::assertSame('0 1', PhpProcess::code($code, [$this->address, $key])->readLine());
        self::assertSame([], $this->cluster->keys());
    }
}
