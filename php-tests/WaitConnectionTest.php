<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\WaitTestCase;

/** The connection over which a process is told: one at most, replaced when it breaks; and servers that go away. */
final class WaitConnectionTest extends WaitTestCase
{
    /** @dataProvider transports */
    #[DataProvider('transports')]
    public function testTheFirstWaitOpensOneAndItServesAllLocksOfTheProcess(string $transport): void
    {
        $server = $this->server(tls: $transport === 'tls');
        $address = $server->$transport();
        $process = $this->contender($address);
        $connections = fn () => count($server->clients());

        self::assertSame('held', $process->ask('acquire 30'));
        self::assertSame('released', $process->ask('release'));
        self::assertSame(1, $connections(), 'nothing to wait for');
        $holder = $this->holder($address);
        self::assertSame('busy', $process->ask('acquire'));
        self::assertSame(2, $connections(), 'no wait; the other one is the holder');

        self::assertSame('busy', $process->ask('acquire 0.05'));
        self::assertSame(3, $connections());
        self::assertNothingButTheHolder($server);

        // The one who got the key in the end stays where it can be told, until it goes.
        self::lineUp($server, [$process]);
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $process->answer());
        self::assertSame('released', $process->ask('release'));
        self::assertCount(1, self::channels($server));
        self::assertSame(3, $connections());

        $others = $this->contender($address, setup: '$locks = array_map(fn ($i) => new RedisLock("other$i", servers: $address), range(1, 5));');
        self::assertSame('done', $others->ask('run foreach ($locks as $other) { $other->acquire() || exit(1); } return "done";'));
        self::assertSame(4, $connections());
        $waits = 'run $waiters = array_map(fn ($i) => new RedisLock("other$i", servers: $address), range(1, 5));'
            . ' foreach ($waiters as $waiter) { if ($waiter->acquire(0.02)) { return "held"; } } return "busy";';
        self::assertSame('busy', $process->ask($waits));
        self::assertSame(4, $connections());
        self::assertSame('done', $process->ask('run $lock = $waiters = null; return "done";'));
        self::eventually(static fn () => self::channels($server) === [], 'no channel');
        self::assertSame(4, $connections(), 'it stays for the next wait');
    }

    private static function assertNothingButTheHolder($server): void
    {
        self::assertSame(['key'], $server->command('KEYS', '*'));
        self::eventually(static fn () => self::channels($server) === [], 'no channel');
    }

    public static function kills(): array
    {
        return ['subscribers' => [['TYPE', 'pubsub']], 'all connections' => [[]]];
    }

    /** @dataProvider kills */
    #[DataProvider('kills')]
    public function testItIsReplacedWithinTheWaitAndThePlaceIsKept(array $filter): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        $waiters = $this->contenders(3, $server->unix());
        self::lineUp($server, $waiters);
        for ($i = 0; $i < 2; $i++) {
            // One that breaks again within a second is not replaced.
            usleep($i * 1_100_000);
            $before = self::subscribers($server);
            self::assertCount(3, $before);
            $server->command('CLIENT', 'KILL', 'SKIPME', 'yes', ...$filter);
            self::eventually(static function () use ($server, $before): bool {
                $now = self::subscribers($server);

                return count($now) === 3 && array_intersect($now, $before) === [];
            }, 'three new connections', 1.0 + self::SLACK);
            self::eventually(static fn () => self::queue($server) === self::pids($waiters), 'the same queue');
        }

        $holder->ask('release');
        foreach ($waiters as $waiter) {
            self::assertSame('held', $waiter->answer());
            // Told, over the new connection.
            self::assertLessThan(0.5, $waiter->ended - $holder->began);
            $holder = $waiter;
            self::assertSame('released', $holder->ask('release'));
        }
    }

    public function testOneThatBreaksAgainAndAgainIsReplacedByPolling(): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        $waiter = $this->contender($server->unix());
        self::lineUp($server, [$waiter]);
        $before = $server->info('total_connections_received');
        for ($until = self::now() + 0.5; self::now() < $until; usleep(2_000)) {
            $server->command('CLIENT', 'KILL', 'TYPE', 'pubsub');
        }
        self::assertLessThan(5, $server->info('total_connections_received') - $before, 'no loop');
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $waiter->answer());
        self::assertLessThan(0.25 + self::SLACK, $waiter->ended - $holder->began);
        self::assertSame('released', $waiter->ask('release'));
        self::assertSame([], $server->command('KEYS', '*'));

        // The next wait tries anew.
        $holder->ask('acquire');
        self::lineUp($server, [$waiter]);
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $waiter->answer());
    }

    public function testAReleaseWhileItIsBrokenIsNotMissed(): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        $waiters = $this->contenders(3, $server->unix());
        self::lineUp($server, $waiters, 'turn 30');
        $server->command('CLIENT', 'KILL', 'TYPE', 'pubsub');
        self::assertSame('released', $holder->ask('release'));
        foreach ($waiters as $waiter) {
            self::assertSame('had', $waiter->answer());
            self::assertLessThan(1.0 + self::SLACK, $waiter->began - $holder->began);
        }
        self::assertSame([], $server->command('KEYS', '*'));
    }

    /** @dataProvider transports */
    #[DataProvider('transports')]
    public function testAServerThatDiesEndsTheWait(string $transport): void
    {
        $server = $this->server(tls: $transport === 'tls');
        $this->holder($server->$transport());
        $waiter = $this->contender($server->$transport());
        self::lineUp($server, [$waiter]);
        $killed = self::now();
        $server->kill();
        self::assertStringStartsWith(ConnectionException::class, $waiter->answer(), 'down, not busy');
        self::assertLessThan(1.0 + 3.0 + self::SLACK, $waiter->ended - $killed, 'its next look, connect_timeout, 2 × command_timeout');
    }

    public function testAServerThatIsSilentEndsTheWait(): void
    {
        $server = $this->server();
        $this->holder($server->unix());
        $waiter = $this->contender($server->unix());
        self::lineUp($server, [$waiter]);
        $stopped = self::now();
        $server->kill(SIGSTOP);
        $outcome = $waiter->answer();
        $server->kill(SIGCONT);
        self::assertStringStartsWith(ConnectionException::class, $outcome);
        self::assertLessThan(1.0 + 3.0 + self::SLACK, $waiter->ended - $stopped);
    }

    public function testAServerThatIsStartedAgainIsWaitedFor(): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        $waiters = $this->contenders(3, $server->unix());
        self::lineUp($server, $waiters, 'turn 30');
        $restarted = self::now();
        $server->restart(); // empty: the holder has lost the key
        foreach ($waiters as $waiter) {
            // Down, if it looked at that very moment.
            self::assertMatchesRegularExpression('/^had$|^RedisLock\\\\ConnectionException/', $waiter->answer());
            self::assertLessThan(1.0 + 3.0 + self::SLACK, $waiter->ended - $restarted);
        }
        self::assertSame([], $server->command('KEYS', '*'));
        self::assertSame('lost', $holder->ask('release'));
    }
}
