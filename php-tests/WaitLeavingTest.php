<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\Tests\Support\WaitTestCase;

/** Waits that end without the lock: no place in the queue stays behind, and an offer goes on to the next. */
final class WaitLeavingTest extends WaitTestCase
{
    /** @dataProvider transports */
    #[DataProvider('transports')]
    public function testAfterATimeOutNothingIsLeft(string $transport): void
    {
        $server = $this->server(tls: $transport === 'tls');
        $this->holder($server->$transport());
        $waiters = $this->contenders(2, $server->$transport());
        self::lineUp($server, $waiters, 'acquire 0.3');
        foreach ($waiters as $waiter) {
            self::assertSame('busy', $waiter->answer());
            self::assertGreaterThanOrEqual(0.299, $waiter->ended - $waiter->began);
            self::assertLessThan(0.3 + self::SLACK, $waiter->ended - $waiter->began);
        }
        self::assertSame(['key'], $server->command('KEYS', '*'));
        self::eventually(static fn () => self::channels($server) === [], 'no channel');
    }

    public static function waysOut(): array
    {
        $rows = [];
        foreach ([
            'an exception' => 'throw new Exception("out of it");',
            'exit' => 'exit(0);',
            'a fatal error' => 'ini_set("memory_limit", "4M"); str_repeat("x", 1 << 26);',
        ] as $name => $way) {
            $rows[$name] = [$way, false];
            $rows["$name, with an offer in its hand"] = [$way, true];
        }

        return $rows;
    }

    /** @dataProvider waysOut */
    #[DataProvider('waysOut')]
    public function testAHandlerThatEndsTheWaitLeavesNothing(string $way, bool $offered): void
    {
        $server = $this->server();
        // The key is freed within the handler: so it is offered to this waiter, which then goes.
        $leaves = $this->contender($server->unix(), setup: '
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, function () use ($address, $key) {
                ' . ($offered ? '(new RedisLock($key, servers: $address))->forceRelease() || exit(1);' : '') . '
                ' . $way . '
            });
        ');
        $holder = $this->holder($server->unix());
        $next = $this->contender($server->unix());
        self::lineUp($server, [$leaves, $next]);
        $signalled = self::now();
        $leaves->process->signal(SIGUSR1);

        if (str_starts_with($way, 'throw')) {
            self::assertSame('Exception: out of it', $leaves->answer());
            self::eventually(static fn () => count(self::channels($server)) === 1, 'only the next one listens');
        } else {
            self::assertSame(str_starts_with($way, 'exit') ? 0 : 255, $leaves->process->wait());
        }
        if ($offered) {
            self::assertSame('held', $next->answer());
            // Not after the second that the offer would have lasted.
            self::assertLessThan(0.8, $next->ended - $signalled);
            self::assertSame([], self::queue($server));
            self::assertSame('lost', $holder->ask('release'));
        } else {
            self::assertSame(self::pids([$next]), self::queue($server));
            self::assertSame('released', $holder->ask('release'));
            self::assertSame('held', $next->answer());
        }
        self::assertSame('released', $next->ask('release'));
        self::assertSame([], $server->command('KEYS', '*'));
    }

    public function testAForcedReleasePassesTheKeyOn(): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        $waiters = $this->contenders(3, $server->unix());
        self::lineUp($server, $waiters);
        foreach ($waiters as $waiter) {
            $forced = self::now();
            self::assertTrue((new RedisLock('key', servers: $server->tcp()))->forceRelease());
            self::assertSame('held', $waiter->answer());
            self::assertLessThan(0.5, $waiter->ended - $forced);
            self::assertSame('lost', $holder->ask('release'));
            $holder = $waiter;
        }
        self::assertSame('released', $holder->ask('release'));
        self::assertSame([], $server->command('KEYS', '*'));
    }

    public function testTimeOutsAndReleasesAtTheSameMomentLoseNoTurn(): void
    {
        $server = $this->server();
        $holder = $this->contender($server->unix());
        [$first, $second] = $this->contenders(2, $server->unix());
        $delays = $outcomes = [];
        for ($i = 0; $i < 20; $i++) {
            self::assertSame('held', $holder->ask('acquire 5'));
            self::lineUp($server, [$first], 'acquire 0.1');
            self::lineUp($server, [$second], 'turn 30');
            // From a little before to a little after the end of its wait.
            usleep((int) max(0, (0.085 + $i * 0.0015) * 1e6 - 10_000));
            self::assertSame('released', $holder->ask('release'));
            $outcomes[] = $outcome = $first->answer();
            if ($outcome === 'held') {
                self::assertSame('released', $first->ask('release'));
            }
            self::assertSame('had', $second->answer());
            $delays[] = $second->began - $holder->began;
        }
        // An offer that nobody took would hold the second one up for a second.
        $late = array_filter($delays, static fn (float $delay) => $delay > 0.8);
        self::assertLessThan(3, count($late), json_encode([$outcomes, $delays]));
        self::assertSame([], $server->command('KEYS', '*'));
    }
}
