<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\CommandException;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\RenewTestCase;
use RedisLock\Tests\Support\Sentinels;

/** Servers that Sentinels find, while none fails over: all that a lock does, and what keeps it from the primary. */
final class SentinelTest extends RenewTestCase
{
    private const PASSWORD = 'of/the@servers?';
    private const SENTINEL_PASSWORD = 'of/the@sentinels&';

    private static ?Sentinels $shared = null;
    /** @var list<Sentinels> */
    private array $sentinels = [];

    protected function tearDown(): void
    {
        foreach ($this->sentinels as $sentinels) {
            $sentinels->stop();
        }
        $this->sentinels = [];
        parent::tearDown();
    }

    public static function tearDownAfterClass(): void
    {
        self::$shared?->stop();
        self::$shared = null;
    }

    /** With passwords for both roles; for tests that hurt nobody. */
    private static function shared(): Sentinels
    {
        return self::$shared ??= new Sentinels(1, self::PASSWORD, self::SENTINEL_PASSWORD);
    }

    private function sentinels(): Sentinels
    {
        return $this->sentinels[] = new Sentinels();
    }

    public function testAllThatALockDoes(): void
    {
        $primary = self::shared()->primary();
        $primary->flush();
        $address = str_replace('/main?', '/main/3?', self::shared()->address());
        $holder = $this->keeper($address, 2.0);
        $database = $primary->connect(3);
        self::assertSame(1, $database->command('EXISTS', 'key'));
        self::eventually(static fn () => self::stats($holder)['renewals'] > 0, 'a renewal');

        $lock = new RedisLock('key', 30, servers: $address);
        self::assertFalse($lock->acquire());
        self::assertSame($holder->process->pid(), $lock->getHolder()['pid']);
        $waiter = $this->contender($address);
        $waiter->tell('acquire 30');
        self::eventually(static fn () => $database->command('KEYS', '*:queue') !== [], 'a queue');
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $waiter->answer());
        self::assertLessThan(0.5, $waiter->ended - $holder->began, 'told');
        self::assertTrue($lock->forceRelease());
        self::assertSame('lost', $waiter->ask('release'));

        self::assertTrue($lock->acquire());
        self::assertTrue($lock->refresh(60));
        self::assertTrue($lock->release());
        self::assertSame('value', $lock->synchronized(static fn () => 'value'));
        self::assertSame([], $database->command('KEYS', '*'));
    }

    public function testUsersOfBothRoles(): void
    {
        $sentinels = self::shared();
        foreach (array_keys($sentinels->ports) as $i) {
            $sentinels->command($i, 'ACL', 'SETUSER', 'asker', 'on', '>why', '+auth', '+sentinel|get-master-addr-by-name');
        }
        $sentinels->primary()->command('ACL', 'SETUSER', 'app', 'on', '>p@ss', '~app:*', 'resetchannels', '&app:*', '+@all', '-@dangerous', '+role');
        $address = $sentinels->address('app:p%40ss', 'sentinel_user=asker&sentinel_password=why');
        $lock = new RedisLock('app:key', servers: $address);
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->release());

        $sentinels->primary()->command('ACL', 'SETUSER', 'app', '-role');
        $sentinels->primary()->killClients();
        $e = self::caught(static fn () => $lock->acquire());
        self::assertInstanceOf(ConnectionException::class, $e);
        self::assertStringContainsString('it does not say its role: NOPERM', $e->getMessage());
    }

    public static function refusals(): array
    {
        $wrong = 'WRONGPASS';

        return [
            'no password of the servers' => ['', null, 'NOAUTH'],
            'a wrong password of the servers' => [':hidden', null, $wrong],
            'a wrong user of the servers' => ['someone:hidden', null, $wrong],
            'no password of the Sentinels' => [null, '', 'NOAUTH'],
            'a wrong password of the Sentinels' => [null, 'sentinel_password=hidden', $wrong],
            'a wrong user of the Sentinels' => [null, 'sentinel_user=someone&sentinel_password=hidden', $wrong],
        ];
    }

    /** @dataProvider refusals */
    #[DataProvider('refusals')]
    public function testARefusalIsToldAtOnce(?string $login, ?string $query, string $why): void
    {
        $this->setting('command_timeout', 30);
        $address = self::shared()->address($login, $query);
        $this->assertIsRefused($address, $why, self::shared()->ports);
    }

    public function testANameThatIsNotKnown(): void
    {
        $this->setting('command_timeout', 30);
        $address = str_replace('/main', '/another', self::shared()->address());
        $this->assertIsRefused($address, 'it knows no primary of that name', self::shared()->ports);
    }

    public function testAServerThatIsNoSentinel(): void
    {
        $this->setting('command_timeout', 30);
        $port = self::shared()->servers[0]->port;
        $address = self::shared()->address(query: 'sentinel_password=' . rawurlencode(self::PASSWORD), ports: [$port]);
        $this->assertIsRefused($address, 'unknown command', [$port]);
    }

    /** @param list<int> $ports */
    private function assertIsRefused(string $address, string $why, array $ports): void
    {
        foreach ([0, 5] as $wait) {
            [$e, $seconds] = self::timed(static fn () => self::caught(static fn () => (new RedisLock('key', servers: $address))->acquire($wait)));
            self::assertInstanceOf(ConnectionException::class, $e);
            self::assertStringContainsString($why, $e->getMessage());
            foreach ($ports as $port) {
                self::assertStringContainsString("127.0.0.1:$port", $e->getMessage());
            }
            foreach (['hidden', 'someone', self::PASSWORD, self::SENTINEL_PASSWORD] as $secret) {
                self::assertStringNotContainsString($secret, $e->getMessage());
            }
            self::assertLessThan(self::SLACK, $seconds, 'to try again is of no use');
        }
    }

    public function testASentinelThatIsDead(): void
    {
        $sentinels = $this->sentinels();
        $sentinels->kill(0);
        $sentinels->kill(1);
        $lock = new RedisLock('key', servers: $sentinels->address());
        self::assertTrue(self::withinDeadline(static fn () => $lock->acquire()));
        self::assertTrue($lock->release());
    }

    public function testASentinelThatIsSilentIsWaitedForOnce(): void
    {
        $sentinels = $this->sentinels();
        $sentinels->kill(0, SIGSTOP);
        $this->setting('connect_timeout', 4);
        $lock = new RedisLock('key', servers: $sentinels->address());
        [$held, $seconds] = self::timed(static fn () => $lock->acquire());
        self::assertTrue($held);
        self::assertGreaterThan(0.9, $seconds, 'a fourth of the time: there are three, and the primary');
        self::assertLessThan(4.0, $seconds);
        $sentinels->primary(1)->killClients();
        [$released, $seconds] = self::timed(static fn () => $lock->release());
        self::assertTrue($released);
        self::assertLessThan(0.9, $seconds, 'who answered last is asked first');
    }

    public function testWithoutSentinelsAConnectionThatIsThereIsOfUseAndNoNewOneIsMade(): void
    {
        $this->setting('connect_timeout', 0.2);
        $this->setting('command_timeout', 0.2);
        $sentinels = $this->sentinels();
        $primary = $sentinels->primary();
        $lock = new RedisLock('key', servers: $sentinels->address());
        self::assertTrue($lock->acquire());
        array_map($sentinels->kill(...), [0, 1, 2]);
        self::assertTrue($lock->refresh());
        $token = $lock->getToken();
        $primary->killClients();

        foreach ([[static fn () => $lock->refresh(), 0], [static fn () => $lock->release(), 0], [static fn () => $lock->getHolder(), 0],
            [static fn () => (new RedisLock('other', servers: $sentinels->address()))->acquire(), 0],
            [static fn () => (new RedisLock('other', servers: $sentinels->address()))->acquire(0.5), 0.5]] as [$call, $wait]) {
            [$e, $seconds] = self::timed(static fn () => self::caught(static fn () => self::withinDeadline($call, $wait)));
            self::assertInstanceOf(ConnectionException::class, $e);
            foreach ($sentinels->ports as $port) {
                self::assertStringContainsString("127.0.0.1:$port: connection refused", $e->getMessage());
            }
            self::assertGreaterThan($wait + 0.3, $seconds, 'there may be one again');
        }
        self::assertTrue($lock->isAcquired());
        self::assertSame($token, $lock->getToken());
    }

    public function testASignalHandlerEndsTheTries(): void
    {
        $sentinels = $this->sentinels();
        array_map($sentinels->kill(...), [0, 1, 2]);
        $contender = $this->contender($sentinels->address(), setup: 'pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, fn () => throw new RuntimeException("enough"));');
        self::assertSame('ready', $contender->ask('run return "ready";'));
        $contender->tell('acquire 30');
        usleep(300_000);
        $sent = self::now();
        $contender->process->signal(SIGUSR1);
        self::assertSame('RuntimeException: enough', $contender->answer());
        self::assertLessThan(0.1 + self::SLACK, $contender->ended - $sent);
    }

    public function testAPrimaryThatCannotServeNowIsAskedAgain(): void
    {
        $sentinels = $this->sentinels();
        $primary = $sentinels->primary();
        $lock = new RedisLock('key', servers: $sentinels->address());
        $this->setting('connect_timeout', 0.3);
        $this->setting('command_timeout', 0.3);
        $held = array_map(static fn (int $i) => new RedisLock("key$i", servers: $sentinels->address()), range(1, 4));
        foreach ($held as $one) {
            self::assertTrue($one->acquire());
        }
        $sentinels->servers[1]->kill();
        $primary->command('CONFIG', 'SET', 'min-replicas-to-write', 1);
        self::eventually(static fn () => preg_match('/^connected_slaves:0/m', $primary->command('INFO', 'replication')) === 1, 'no replica');
        $short = new RedisLock('key', servers: $sentinels->address());
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $short->acquire()));
        self::assertInstanceOf(CommandException::class, $e);
        self::assertStringContainsString('NOREPLICAS', $e->getMessage());
        // Whoever goes away does not wait for as long again as the one before.
        [, $seconds] = self::timed(static function () use (&$held, &$one): void {
            $held = $one = null;
        });
        self::assertLessThan(0.9 + 0.9, $seconds);

        $contender = $this->contender($sentinels->address(), ini: ['redis_lock.command_timeout' => 10]);
        $contender->tell('acquire');
        usleep(300_000);
        self::assertNull($lock->getHolder(), 'to look is allowed');
        $primary->command('CONFIG', 'SET', 'min-replicas-to-write', 0);
        self::assertSame('held', $contender->answer());
    }
}
