<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\Contender;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\RenewTestCase;
use RedisLock\Tests\Support\Sentinels;

/** A primary that fails, and a replica that takes its place, while a lock is held, waited for, and asked for. */
final class FailOverTest extends RenewTestCase
{
    private Sentinels $sentinels;

    protected function setUp(): void
    {
        $this->sentinels = new Sentinels();
    }

    protected function tearDown(): void
    {
        $this->sentinels->stop();
        parent::tearDown();
    }

    public static function kinds(): array
    {
        return ['a primary that dies' => ['crash'], 'a primary that stands still' => ['hang'], 'by command' => ['command']];
    }

    /**
     * The new primary of a fail-over that is over. One that is told to go is a replica by now: until it is, it takes
     * what comes on connections that are open, and that is lost.
     */
    private function eventuallyFailedOver(RedisServer $old, string $how): RedisServer
    {
        $new = $this->sentinels->eventuallyFailedOver($old);
        if ($how === 'command') {
            $this->eventuallyBack($old, $how);
        }

        return $new;
    }

    /** The old primary is there again, and a replica. */
    private function eventuallyBack(RedisServer $old, string $how): void
    {
        match ($how) {
            'crash' => $old->start(),
            'hang' => $old->kill(SIGCONT),
            'command' => null,
        };
        self::eventually(static function () use ($old): bool {
            try {
                return $old->connect()->command('ROLE')[0] === 'slave';
            } catch (\RuntimeException) {
                return false; // Its connections are closed in that moment.
            }
        }, 'it is a replica');
        $old->reconnect();
    }

    /** Time enough for a fail-over, where the old primary is not silent. */
    private const PATIENT = ['redis_lock.command_timeout' => 10];

    /** @dataProvider kinds */
    #[DataProvider('kinds')]
    public function testARenewedLeaseSurvives(string $how): void
    {
        // What is renewed at a primary that is to go is not renewed at the other one.
        $ttl = $how === 'command' && !$this->sentinels->areQuick ? 40.0 : 6.0;
        $keeper = $this->keeper($this->sentinels->address(), $ttl);
        self::eventually(static fn () => self::stats($keeper)['renewals'] > 0, 'a renewal');
        $this->sentinels->eventuallyReplicated();
        $old = $this->sentinels->failOver($how);
        $new = $this->eventuallyFailedOver($old, $how);

        $renewals = self::stats($keeper)['renewals'];
        self::eventually(static fn () => self::stats($keeper)['renewals'] > $renewals, 'it is renewed at the new primary', $ttl);
        self::assertGreaterThan($ttl * 2 / 3, $new->command('PTTL', 'key') / 1e3);
        $this->eventuallyBack($old, $how);
        self::assertGreaterThan($ttl / 3, self::leastLeft($new, self::after(1.0), 'key'), 'as before');
        self::assertTrue($keeper->ask('run return $lock->isAcquired();'));
        self::assertSame([0, 1], [self::stats($keeper)['lost'], self::stats($keeper)['kept']]);
        self::assertSame('released', $keeper->ask('release'));
        self::assertNothingIsLeft($new);
    }

    /** @dataProvider kinds */
    #[DataProvider('kinds')]
    public function testWhatIsHeldIsRefreshedAndReleasedAtTheNewPrimary(string $how): void
    {
        $address = $this->sentinels->address();
        $patient = $how === 'hang' ? ['redis_lock.command_timeout' => 0.5] : self::PATIENT;
        $holders = array_map(fn (string $key) => $this->contender($address, $key, ini: $patient), ['refreshed', 'released', 'evicted']);
        foreach ($holders as $holder) {
            self::assertSame('held', $holder->ask('acquire'));
        }
        [$refreshing, $releasing] = $holders;
        $evicting = $this->contender($address, 'evicted', ini: $patient);
        self::assertSame('busy', $evicting->ask('acquire'));
        $this->sentinels->eventuallyReplicated();
        $old = $this->sentinels->failOver($how);
        if ($how === 'hang') {
            // Nothing comes from where they are connected; what they are told is what the new one says.
            $this->sentinels->eventuallyFailedOver($old);
        }
        $refreshing->tell('run return $lock->refresh(60);');
        $releasing->tell('release');
        $evicting->tell('run return [$lock->getHolder()["pid"], $lock->forceRelease()];');
        self::assertTrue($refreshing->answer());
        self::assertSame('released', $releasing->answer());
        self::assertSame([$holders[2]->process->pid(), true], $evicting->answer());

        $new = $this->sentinels->eventuallyFailedOver($old);
        if ($how !== 'command') {
            // One that is told to go takes what comes until it goes, and that may not come to its replica.
            self::assertGreaterThan(31_000, $new->command('PTTL', 'refreshed'));
            self::assertSame(['refreshed'], $new->command('KEYS', '*'));
        }
    }

    /** @dataProvider kinds */
    #[DataProvider('kinds')]
    public function testWhoWaitsKeepsItsPlaceAndOvertakesNobody(string $how): void
    {
        $address = $this->sentinels->address();
        $ini = ['redis_lock.command_timeout' => 0.5, 'redis_lock.connect_timeout' => 0.5];
        $holder = $this->contender($address, ini: $ini);
        self::assertSame('held', $holder->ask('acquire'));
        $waiters = [$this->contender($address, ini: $ini), $this->contender($address, ini: $ini)];
        self::lineUp($this->sentinels->primary(), $waiters);
        $this->sentinels->eventuallyReplicated();
        $old = $this->sentinels->failOver($how);
        $new = $this->eventuallyFailedOver($old, $how);

        self::eventually(static fn () => count(self::channels($new)) === 2, 'they listen at the new primary');
        self::assertSame(self::pids($waiters), self::queue($new));
        self::assertStringContainsString(":{$holder->process->pid()}:", $new->command('GET', 'key'));
        self::assertSame('released', $holder->ask('release'));
        foreach ($waiters as $waiter) {
            self::assertSame('held', $waiter->answer());
            // Told, or after a request to the old primary, which it waits for in vain.
            self::assertLessThan(0.5 + self::SLACK, $waiter->ended - $holder->began);
            $holder = $waiter;
            self::assertSame('released', $holder->ask('release'));
        }
        $waiters[0]->process->kill();
        $waiters[1]->process->kill();
        self::assertNothingIsLeft($new);
    }

    public function testARequestThatIsUnderWay(): void
    {
        $process = $this->contender($this->sentinels->address(), ini: ['redis_lock.command_timeout' => 1]);
        self::assertSame('held', $process->ask('acquire'));
        self::assertSame('released', $process->ask('release'));
        $old = $this->sentinels->failOver('hang');
        $process->tell('acquire 30');
        self::assertSame('held', $process->answer());
        $new = $this->sentinels->eventuallyFailedOver($old);
        self::assertSame(1, $new->command('EXISTS', 'key'));
        // What it carries out now is the request that was not answered.
        $this->eventuallyBack($old, 'hang');
        self::assertTrue($process->ask('run return $lock->refresh();'));
        self::assertSame('released', $process->ask('release'));
        self::assertNothingIsLeft($new);
    }

    /** @dataProvider kinds */
    #[DataProvider('kinds')]
    public function testWhoAsksAllTheTimeIsToldOfNoError(string $how): void
    {
        $ini = ['redis_lock.command_timeout' => $how === 'hang' ? 1 : 10];
        $setup = '$turns = function (float $until) use (&$lock): array {
            $turns = $lost = 0;
            for (; hrtime(true) / 1e9 < $until; $turns++) {
                $lock->acquire(30) || exit(1);
                usleep(2_000);
                $lost += $lock->release() ? 0 : 1;
            }
            return [$turns, $lost];
        };';
        // A release that did not come to the new primary leaves the key to its ttl.
        $contenders = array_map(fn () => $this->contender($this->sentinels->address(), ttl: 2, setup: $setup, ini: $ini), [1, 2, 3]);
        $turns = static fn (Contender $contender, float $seconds)
            => $contender->tell('run return $turns(' . (self::now() + $seconds) . ');');
        foreach ($contenders as $contender) {
            self::assertSame('ready', $contender->ask('run return "ready";'));
        }
        array_map(static fn (Contender $contender) => $turns($contender, 1.0), $contenders);
        usleep(300_000);
        $old = $this->sentinels->failOver($how);
        $lost = 0;
        foreach ($contenders as $contender) {
            [$had, $lostByIt] = $contender->answer();
            self::assertGreaterThan(0, $had);
            $lost += $lostByIt;
        }
        // What was held, and was not at the replica yet.
        self::assertLessThanOrEqual(count($contenders), $lost);
        $this->eventuallyFailedOver($old, $how);
        array_map(static fn (Contender $contender) => $turns($contender, 0.3), $contenders);
        foreach ($contenders as $contender) {
            [$had, $lost] = $contender->answer();
            self::assertGreaterThan(0, $had);
            self::assertSame(0, $lost);
        }
    }

    public function testAKeyThatTheReplicaDoesNotHaveIsLost(): void
    {
        $address = $this->sentinels->address();
        $holder = $this->contender($address, 'refreshed', ini: self::PATIENT);
        $keeper = $this->keeper($address, 6.0, 'renewed');
        self::assertSame('held', $holder->ask('acquire'));
        $this->sentinels->eventuallyReplicated();
        // As if they had never come.
        $replica = $this->sentinels->servers[1];
        $replica->command('CONFIG', 'SET', 'replica-read-only', 'no');
        self::assertSame(2, $replica->command('DEL', 'refreshed', 'renewed'));
        $old = $this->sentinels->failOver('crash');
        self::assertFalse($holder->ask('run return $lock->refresh();'));
        self::assertSame(self::LOST, $holder->ask('run return [$lock->isAcquired(), $lock->isExpired(), $lock->getRemainingLifetime()];'));
        self::assertSame('lost', $holder->ask('release'));
        self::assertHasLost($keeper, 1);
        self::assertSame(self::LOST, $keeper->ask('run return $look();'));
        self::assertSame('lost', $keeper->ask('release'));
        self::assertSame([], $this->sentinels->eventuallyFailedOver($old)->command('KEYS', '*'));
    }
}
