<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\TestWith;
use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\LockLostException;
use RedisLock\Tests\Support\Contender;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\RenewTestCase;

/** Renewed leases that are lost for good: taken away by hand, forgotten, or slept through. */
final class RenewLossTest extends RenewTestCase
{
    private const TTL = 3.0;
    /** The next renewal is a third of the ttl away at most; the validity would last for two thirds at least. */
    private const NEXT_RENEWAL = 1.0 + 0.8;

    public function testAKeyThatIsTakenAwayByHandIsLostAtTheNextRenewalAndNeverTakenBack(): void
    {
        $server = $this->server();
        $keepers = $tokens = [];
        foreach (['none', 'string', 'list'] as $type) {
            $keepers[$type] = $this->keeper($server->unix(), self::TTL, $type);
            $keepers[$type]->tell('run return $believe();');
            $tokens[$type] = $server->command('GET', $type);
        }
        $server->command('SET', 'string', 'another');
        $server->command('DEL', 'none', 'list');
        $server->command('RPUSH', 'list', 'item');
        $robbed = self::now();
        foreach ($keepers as $type => $keeper) {
            [, $told] = $keeper->answer();
            self::assertLessThan($robbed + self::NEXT_RENEWAL, $told, $type);
            self::assertLost($keeper);
        }
        // A keeper that had not given up would renew within this time.
        self::assertStays(static function () use ($server): bool {
            $type = static fn (string $key): string => $server->command('TYPE', $key);
            $left = static fn (string $key): int => $server->command('PTTL', $key);

            return [$type('none'), $type('string'), $left('string'), $type('list'), $left('list')] === ['none', 'string', -1, 'list', -1];
        });
        foreach ($keepers as $type => $keeper) {
            $server->command('SET', $type, $tokens[$type], 'PX', 60_000);
            self::assertFalse($keeper->ask('run return $lock->refresh();'), 'for good');
        }
    }

    /** The condition holds for longer than it is to the next renewal. */
    private static function assertStays(callable $condition): void
    {
        for ($over = self::after(self::TTL / 3 + 0.1); !$over(); usleep(10_000)) {
            self::assertTrue($condition());
        }
    }

    /** What holds of every lost lease, and for how many the process has lost so far. */
    private static function assertLost(Contender $keeper): void
    {
        self::assertSame(self::LOST, $keeper->ask('run return $look();'));
        self::assertFalse($keeper->ask('run return $lock->refresh();'));
        self::assertSame('lost', $keeper->ask('release'));
        self::assertSame('lost', $keeper->ask('release'));
        $stats = self::stats($keeper);
        self::assertSame([1, 0], [$stats['lost'], $stats['kept']], 'counted once');
    }

    /** How a callable ends that has worked until its lease was lost. */
    private const ENDS = '
        // What synchronized() made of it, and the warnings.
        $report = function (Closure $end) use (&$lock, $believe): array {
            $warnings = [];
            set_error_handler(function (int $level, string $message) use (&$warnings): bool {
                $warnings[] = [$level, $message];
                return true;
            });
            try {
                return [$lock->synchronized(function () use ($believe, $end) { $believe(); return $end(); }), $warnings];
            } catch (RedisLock\LockLostException $e) {
                return [$e::class, $e->getMessage(), $e->getResult(), $warnings];
            } catch (Exception $e) {
                return [$e::class, $e->getMessage(), $e->getPrevious()?->getMessage(), $warnings];
            } finally {
                restore_error_handler();
            }
        };
    ';

    public function testSynchronizedTellsOfItAndOfTheResult(): void
    {
        $server = $this->server();
        $keeper = $this->renewing($server->unix(), 1.5, setup: self::ENDS);
        $keeper->tell('run return $report(fn () => ["worked"]);');
        self::eventually(static fn () => $server->command('EXISTS', 'key') === 1, 'its turn');
        $server->command('SET', 'key', 'another', 'PX', 60_000);

        [$class, $message, $result, $warnings] = $keeper->answer();
        self::assertSame(LockLostException::class, $class);
        self::assertStringStartsWith('The lock "key" was lost before its holder had finished', $message);
        self::assertSame([['worked'], []], [$result, $warnings]);
        self::assertLost($keeper);
        self::assertSame('another', $server->command('GET', 'key'));
    }

    public function testSynchronizedLetsTheCallablesOwnExceptionThroughAndWarns(): void
    {
        $server = $this->server();
        $keeper = $this->renewing($server->unix(), 1.5, setup: self::ENDS);
        $keeper->tell('run return $report(fn () => throw new DomainException("mine", 0, new Exception("its own")));');
        self::eventually(static fn () => $server->command('EXISTS', 'key') === 1, 'its turn');
        $server->command('DEL', 'key');

        [$class, $message, $previous, $warnings] = $keeper->answer();
        self::assertSame([\DomainException::class, 'mine', 'its own'], [$class, $message, $previous]);
        self::assertCount(1, $warnings);
        self::assertSame(E_WARNING, $warnings[0][0]);
        self::assertStringContainsString('The lock "key" was lost before the exception that ended its holder', $warnings[0][1]);
        self::assertLost($keeper);
        self::assertSame([], $server->command('KEYS', '*'));
    }

    public function testTheNextLeaseOfTheSameObjectIsRenewedAgain(): void
    {
        $server = $this->server();
        $keeper = $this->keeper($server->unix(), 0.9);
        for ($lost = 1; $lost <= 3; $lost++) {
            $server->command('DEL', 'key');
            $keeper->ask('run return $believe();');
            self::assertSame(self::LOST, $keeper->ask('run return $look();'));
            self::assertSame('held', $keeper->ask('acquire'));
            self::assertSame([true, $lost], [$keeper->ask('run return $lock->isAcquired();'), self::stats($keeper)['lost']]);
        }
        self::assertGreaterThanOrEqual(0.3, self::leastLeft($server, self::after(1.5), 'key'));
        self::assertSame('released', $keeper->ask('release'));
        self::assertSame(3, self::stats($keeper)['lost']);
    }

    public function testAServerThatWasRestartedEmpty(): void
    {
        $server = $this->server();
        $keeper = $this->keeper($server->unix(), self::TTL);
        $keeper->tell('run return $believe();');
        $server->restart();
        $restarted = self::now();
        [, $told] = $keeper->answer();
        self::assertLessThan($restarted + self::NEXT_RENEWAL, $told);
        self::assertStays(static fn () => $server->command('KEYS', '*') === []);
        self::assertLost($keeper);
    }

    public function testAProcessThatSleptThroughItsLeaseIsToldWhenItWakes(): void
    {
        [$server, $ttl] = [$this->server(), 0.6];
        $sleeper = $this->keeper($server->unix(), $ttl, setup: self::ENDS);
        $next = $this->renewing($server->unix(), $ttl);
        self::lineUp($server, [$next]);
        $sleeper->tell('run return $believe();');
        usleep(400_000); // renewed at least once
        $sleeper->process->signal(SIGSTOP);
        $stopped = self::now();
        self::assertSame('held', $next->answer());
        self::assertLessThan($stopped + $ttl + 0.5, $next->ended);
        $token = $server->command('GET', 'key');
        usleep((int) (1e6 * max(0, $stopped + $ttl + 2.0 - self::now())));
        $sleeper->process->signal(SIGCONT);
        $woken = self::now();

        [$believed, $told] = $sleeper->answer();
        self::assertLessThan($next->ended, $believed, 'it never believed that it held what another did');
        self::assertLessThan($woken + 0.5, $told);
        self::assertGreaterThanOrEqual($ttl / 3, self::leastLeft($server, self::after($ttl), 'key'), "the next one's is kept");
        self::assertLost($sleeper);
        self::assertSame($token, $server->command('GET', 'key'));
        self::assertSame([true, 0], [$next->ask('run return $lock->isAcquired();'), self::stats($next)['lost']]);
        self::assertSame('released', $next->ask('release'));
    }

    /**
     * @testWith [true]
     *           [false]
     */
    #[TestWith([true])]
    #[TestWith([false])]
    public function testAfterAReleaseThatCouldNotBeSentARefreshMakesItInterruptibleAgain(bool $renew): void
    {
        $server = $this->server();
        $lock = new RedisLock('key', ttl: $renew ? 3.0 : 1.0, renew: $renew, interrupt: true, servers: $server->unix());
        $interrupts = RedisLock::stats()['interrupts'];
        $e = self::caught(static fn () => $lock->synchronized(static function () use ($server, $lock): string {
            self::releaseUnsent($server, $lock);
            self::assertTrue($lock->refresh());
            $server->command('DEL', 'key');
            for ($over = self::after(15.0); !$over();) {
            }

            return 'not interrupted';
        }));
        self::assertInstanceOf(LockLostException::class, $e);
        self::assertSame([null, $interrupts + 1], [$e->getResult(), RedisLock::stats()['interrupts']]);
    }

    public function testAfterAReleaseThatCouldNotBeSentARefreshDoesNotBeginMaxHoldAnew(): void
    {
        $server = $this->server();
        $lock = new RedisLock('key', ttl: 3.0, renew: true, maxHold: 1.0, servers: $server->unix());
        self::assertTrue($lock->acquire());
        usleep(700_000);
        self::releaseUnsent($server, $lock);
        self::assertTrue($lock->refresh());
        // Renewed once more, it would have more than two thirds of its ttl left.
        usleep(1_300_000);
        self::assertLessThan(1.8, $lock->getRemainingLifetime());
        self::assertGreaterThan(0.0, $lock->getRemainingLifetime(), 'or this machine was too busy to tell');
    }

    private static function releaseUnsent(RedisServer $server, RedisLock $lock): void
    {
        $socket = substr($server->unix(), strlen('unix://'));
        $server->command('PING'); // our own connection stays open
        rename($socket, "$socket.away");
        $server->killClients();
        self::assertInstanceOf(ConnectionException::class, self::caught(static fn () => $lock->release()));
        rename("$socket.away", $socket);
        self::assertTrue($lock->isAcquired());
    }
}
