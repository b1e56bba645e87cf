<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\Subscriber;
use RedisLock\Tests\Support\WaitTestCase;

/** Holders and waiters that die or stop: it costs the living little. */
final class QueueDeathTest extends WaitTestCase
{
    /** What a hand-over takes at most; one more offer to somebody who does not answer would take a second. */
    private const AT_ONCE = 0.8;

    public function testTheFirstWaiterFollowsAHolderThatDiedAsSoonAsItsTtlEnds(): void
    {
        $server = $this->server();
        $waiters = $this->contenders(3, $server->unix());
        $delays = [];
        for ($i = 0; $i < 5; $i++) {
            $holder = $this->contender($server->unix(), ttl: 0.45);
            self::assertSame('held', $holder->ask('acquire'));
            $expiry = self::now() + $server->command('PTTL', 'key') / 1_000;
            self::lineUp($server, $waiters);
            $holder->kill();
            foreach ($waiters as $place => $waiter) {
                self::assertSame('held', $waiter->answer());
                $delays[$place][] = $waiter->ended - $expiry;
                self::assertSame('released', $waiter->ask('release'));
            }
        }
        // Redis counts milliseconds, and so do we. By its safety look alone it would come after 0.25 s at the earliest.
        self::assertGreaterThan(-0.01, min($delays[0]));
        self::assertLessThan(0.2, self::median($delays[0]));
        self::assertLessThan(0.2, self::median($delays[2]));
    }

    public static function watchers(): array
    {
        return ['nobody watches' => [false], 'somebody watches with PSUBSCRIBE *' => [true]];
    }

    /** @dataProvider watchers */
    #[DataProvider('watchers')]
    public function testWaitersThatDieCostNothing(bool $watched): void
    {
        $server = $this->server();
        $subscriber = $watched ? new Subscriber($server) : null;
        $waiters = $this->contenders(5, $server->unix());
        $holder = $this->holder($server->unix());
        self::lineUp($server, $waiters);
        foreach ([0, 1, 3] as $dies) {
            $waiters[$dies]->kill();
        }
        self::eventually(static fn () => count(self::channels($server)) === 2, 'the server sees that they died');

        foreach ([2, 4] as $lives) {
            self::assertSame('released', $holder->ask('release'));
            self::assertSame('held', $waiters[$lives]->answer());
            self::assertLessThan(self::AT_ONCE, $waiters[$lives]->ended - $holder->began);
            $holder = $waiters[$lives];
        }
        self::assertSame([], self::queue($server));
        // Nobody but them was told.
        self::assertCount($watched ? 2 : 0, $subscriber?->messages() ?? []);
    }

    /** @dataProvider watchers */
    #[DataProvider('watchers')]
    public function testTheKeyIsFreeWhenAllWaitersAreDead(bool $watched): void
    {
        $server = $this->server();
        $subscriber = $watched ? new Subscriber($server) : null;
        $waiters = $this->contenders(3, $server->unix());
        $holder = $this->holder($server->unix());
        self::lineUp($server, $waiters);
        foreach ($waiters as $waiter) {
            $waiter->kill();
        }
        self::eventually(static fn () => self::channels($server) === [], 'the server sees that they died');
        self::assertSame('released', $holder->ask('release'));
        self::assertNothingIsLeft($server);
        self::assertSame([], $subscriber?->messages() ?? []);
    }

    public function testAWaiterThatWasStoppedCostsOneOfferAndKeepsItsPlace(): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        [$stopped, $second, $third] = $waiters = $this->contenders(3, $server->unix());
        self::lineUp($server, $waiters);
        $stopped->process->signal(SIGSTOP);

        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $second->answer());
        self::assertGreaterThan(0.9, $second->ended - $holder->began, 'the time of one offer');
        self::assertLessThan(1.0 + self::AT_ONCE, $second->ended - $holder->began);

        $stopped->process->signal(SIGCONT);
        self::eventually(static fn () => self::queue($server) === self::pids([$stopped, $third]), 'it waits on, and first');
        self::assertSame('released', $second->ask('release'));
        self::assertSame('held', $stopped->answer());
        self::assertLessThan(self::AT_ONCE, $stopped->ended - $second->began);
        self::assertSame('released', $stopped->ask('release'));
        self::assertSame('held', $third->answer());
    }

    public function testAWaiterThatWasStoppedForLongerThanItsWaitLeavesTheOfferToTheNext(): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        [$stopped, $next] = $this->contenders(2, $server->unix());
        self::lineUp($server, [$stopped], 'acquire 0.5');
        self::lineUp($server, [$next]);
        $stopped->process->signal(SIGSTOP);
        usleep(500_000); // its wait is over, and it does not know
        self::assertSame('released', $holder->ask('release'));
        $stopped->process->signal(SIGCONT);
        // Its last look may find the offer. Otherwise it passes it on.
        if ($stopped->answer() === 'held') {
            self::assertSame('released', $stopped->ask('release'));
        }
        self::assertSame('held', $next->answer());
        self::assertLessThan(self::AT_ONCE, $next->ended - $holder->began);
        self::assertSame([], self::queue($server));
    }

    public function testFiveWaitersThatWereStoppedCostAnOfferEach(): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        $waiters = $this->contenders(6, $server->unix());
        self::lineUp($server, $waiters);
        $last = array_pop($waiters);
        foreach ($waiters as $waiter) {
            $waiter->process->signal(SIGSTOP);
        }
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $last->answer());
        self::assertLessThan(5 + 2 * self::SLACK, $last->ended - $holder->began, 'and not five times their ttl');
    }

    public function testAWaiterThatForkedIsDeadWhenItDiesThoughItsChildLives(): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        $dies = $this->contender($server->unix(), setup: '
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, function () {
                if (pcntl_fork() === 0) {
                    echo getmypid(), "\n";
                    sleep(60);
                    posix_kill(getmypid(), SIGKILL);
                }
            });
        ');
        $lives = $this->contender($server->unix());
        self::lineUp($server, [$dies, $lives]);
        $dies->process->signal(SIGUSR1);
        $child = (int) $dies->process->readLine();
        try {
            self::assertGreaterThan(1, $child);
            $dies->process->kill();
            self::eventually(static fn () => count(self::channels($server)) === 1, 'the server sees that it died');
            self::assertTrue(posix_kill($child, 0), 'the child lives');
            self::assertSame('released', $holder->ask('release'));
            self::assertSame('held', $lives->answer());
            self::assertLessThan(self::AT_ONCE, $lives->ended - $holder->began);
        } finally {
            posix_kill($child, SIGKILL);
        }
    }
}
