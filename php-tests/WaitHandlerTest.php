<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\WaitTestCase;

/** Signal handlers that wait, or fork, in the middle of a wait. */
final class WaitHandlerTest extends WaitTestCase
{
    public static function orders(): array
    {
        return ['the inner one first' => [false], 'the outer one while the inner one still waits' => [true]];
    }

    /** @dataProvider orders */
    #[DataProvider('orders')]
    public function testAWaitInAHandlerInAWaitAndBothAreTold(bool $outerFirst): void
    {
        $server = $this->server();
        $waiter = $this->contender($server->unix(), setup: '
            $inner = new RedisLock("inner", servers: $address);
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, function () use ($inner) {
                $began = hrtime(true) / 1e9;
                $outcome = $inner->acquire(30) ? "inner held" : "inner busy";
                echo json_encode([$outcome, $began, hrtime(true) / 1e9]), "\n";
                $inner->release();
            });
        ');
        [$holder, $innerHolder] = [$this->contender($server->unix()), $this->contender($server->unix(), 'inner')];
        for ($i = 0; $i < 7; $i++) {
            self::assertSame('held', $holder->ask('acquire'));
            self::assertSame('held', $innerHolder->ask('acquire'));
            self::lineUp($server, [$waiter]);
            $waiter->process->signal(SIGUSR1);
            self::eventuallyQueued($server, 1, 'inner');
            if ($outerFirst) {
                // Told in the inner wait, which has no use for it.
                self::assertSame('released', $holder->ask('release'));
                usleep(100_000);
            }
            self::assertSame('released', $innerHolder->ask('release'));
            self::assertSame('inner held', $waiter->answer());
            $inner[] = $waiter->ended - $innerHolder->began;
            $free = $waiter->ended;
            if (!$outerFirst) {
                self::assertSame('released', $holder->ask('release'));
                $free = $holder->began;
            }
            self::assertSame('held', $waiter->answer());
            $outer[] = $waiter->ended - $free;
            self::assertSame('released', $waiter->ask('release'));
        }
        // Neither would look by itself within half a second.
        self::assertLessThan(0.2, self::median($inner));
        self::assertLessThan(0.2, self::median($outer));
        self::assertSame([], $server->command('KEYS', '*'));
        $waiter->kill();
        self::assertNothingIsLeft($server);
    }

    public function testAChildThatAHandlerForksWaitsOnItsOwnAccount(): void
    {
        $server = $this->server();
        $waiter = $this->contender($server->unix(), setup: '
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, function () use ($address, $key) {
                if (pcntl_fork() === 0) {
                    $own = new RedisLock($key, servers: $address);
                    $began = hrtime(true) / 1e9;
                    $outcome = $own->acquire(30) ? "child held" : "child busy";
                    echo json_encode([$outcome, $began, hrtime(true) / 1e9]), "\n";
                    exit(0);
                }
            });
        ');
        $holder = $this->holder($server->unix());
        $last = $this->contender($server->unix());
        self::lineUp($server, [$waiter]);
        $waiter->process->signal(SIGUSR1);
        self::eventuallyQueued($server, 2);
        self::lineUp($server, [$last]);
        self::assertCount(3, self::channels($server), 'each listens for itself');

        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $waiter->answer());
        self::assertLessThan(0.5, $waiter->ended - $holder->began);
        $waiter->tell('release');
        // The child may have the key before its parent has said so.
        self::assertEqualsCanonicalizing(['released', 'child held'], [$waiter->answer(), $waiter->answer()]);
        // The end of the child frees the key.
        self::assertSame('held', $last->answer());
        self::assertSame('released', $last->ask('release'));
        self::assertSame([], $server->command('KEYS', '*'));
    }

    public function testAChildThatAHandlerForksAndThatEndsLeavesItsParentsPlaceAlone(): void
    {
        $server = $this->server();
        $waiters = array_map(fn () => $this->contender($server->unix(), setup: '
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, function () {
                if (pcntl_fork() === 0) {
                    exit(0);
                }
                pcntl_wait($status);
                echo json_encode(["child ended", 0, pcntl_wexitstatus($status)]), "\n";
            });
        '), range(1, 2));
        $holder = $this->holder($server->unix());
        self::lineUp($server, $waiters);
        for ($i = 0; $i < 5; $i++) {
            $waiters[0]->process->signal(SIGUSR1);
            self::assertSame('child ended', $waiters[0]->answer());
            self::assertSame(0, (int) $waiters[0]->ended);
        }
        self::assertSame(self::pids($waiters), self::queue($server));
        self::assertCount(2, self::channels($server));
        foreach ($waiters as $waiter) {
            self::assertSame('released', $holder->ask('release'));
            self::assertSame('held', $waiter->answer());
            self::assertLessThan(0.5, $waiter->ended - $holder->began);
            $holder = $waiter;
        }
    }
}
