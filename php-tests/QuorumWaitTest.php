<?php

namespace RedisLock\Tests;

use RedisLock;
use RedisLock\Tests\Support\Contender;
use RedisLock\Tests\Support\QuorumTestCase;

/** Waiting for a lock in a quorum, where nobody stands in line: all who wait are told, and one of them has it. */
final class QuorumWaitTest extends QuorumTestCase
{
    private const ROUNDS = 200;

    /** Waits until somebody hears on all of these nodes that the key is freed. */
    private function eventuallyHeard(int $listeners = 1, ?array $nodes = null): void
    {
        foreach ($nodes ?? $this->nodes as $node) {
            self::eventually(static function () use ($node, $listeners): bool {
                $channels = self::channels($node);

                return $channels !== [] && $node->command('PUBSUB', 'NUMSUB', $channels[0])[1] >= $listeners;
            }, "$listeners who listen");
        }
        usleep(30_000); // and has looked once more after that
    }

    public function testAReleaseWakesWhoWaitsAtOnce(): void
    {
        $servers = implode(' ', $this->quorum());
        $holder = $this->holder($servers);
        $waiter = $this->contender($servers);
        $seconds = [];
        for ($i = 0; $i < 15; $i++) {
            $waiter->tell('acquire 30');
            $this->eventuallyHeard();
            self::assertSame('released', $holder->ask('release'));
            self::assertSame('held', $waiter->answer());
            $seconds[] = $waiter->ended - $holder->began;
            [$holder, $waiter] = [$waiter, $holder];
        }
        // The pause before its try is 10 ms at most; looks come once a second.
        self::assertLessThan(0.05, self::median($seconds));
        self::assertLessThan(0.5, max($seconds));
        self::assertSame('released', $holder->ask('release'));
        $this->assertNoKeys();
    }

    public function testALeaseOfTheSameTokenWakesWhenItEndsAgain(): void
    {
        $servers = implode(' ', $this->quorum());
        $owner = $this->contender($servers, setup: '$lock = RedisLock::restore($key, "the night shift", 30, servers: $address);');
        // Theirs is no token of ours, which who waits for would have to look for often.
        $token = str_repeat('0123456789abcdef', 2) . ':host:1:1796000000';
        $owner->ask("run \$lock = RedisLock::restore(\$key, '$token', 30, servers: \$address);");
        $waiter = $this->contender($servers);
        $seconds = [];
        for ($i = 0; $i < 7; $i++) {
            self::assertSame('held', $owner->ask('acquire 5'));
            $waiter->tell('acquire 30');
            $this->eventuallyHeard();
            self::assertSame('released', $owner->ask('release'));
            self::assertSame('held', $waiter->answer());
            $seconds[] = $waiter->ended - $owner->began;
            self::assertSame('released', $waiter->ask('release'));
        }
        self::assertLessThan(0.05, self::median($seconds));
    }

    public function testAnyNodeIsEnoughToBeToldBy(): void
    {
        $servers = $this->quorum();
        $holder = $this->holder(implode(' ', $servers));
        for ($down = 0; $down < 3; $down++) {
            $this->nodes[$down]->stop();
            $waiter = $this->contender(implode(' ', $servers));
            $waiter->tell('acquire 30');
            $this->eventuallyHeard(nodes: array_diff_key($this->nodes, [$down => 0]));
            self::assertSame('released', $holder->ask('release'));
            self::assertSame('held', $waiter->answer());
            self::assertLessThan(0.5, $waiter->ended - $holder->began, 'told');
            // One that goes down meanwhile takes nothing from who waits.
            $next = $this->contender(implode(' ', $servers));
            $this->nodes[$down]->start();
            $next->tell('acquire 30');
            $this->eventuallyHeard();
            $this->nodes[($down + 1) % 3]->killClients();
            $this->nodes[$down]->command('CLIENT', 'KILL', 'TYPE', 'pubsub');
            self::assertSame('released', $waiter->ask('release'));
            self::assertSame('held', $next->answer());
            self::assertLessThan(0.5 + 0.3, $next->ended - $waiter->began, 'told');
            $waiter->kill();
            $holder = $next;
            $holder->ask('run $lock->refresh();');
        }
    }

    public function testAHolderThatDiedIsWaitedForUntilItsTtlEnds(): void
    {
        $servers = implode(' ', $this->quorum());
        $holder = $this->contender($servers, ttl: 1.2);
        self::assertSame('held', $holder->ask('acquire'));
        $waiters = [$this->contender($servers), $this->contender($servers)];
        foreach ($waiters as $waiter) {
            $waiter->tell('turn 30');
        }
        $holder->kill();
        foreach ($waiters as $waiter) {
            self::assertSame('had', $waiter->answer());
            self::assertGreaterThan(1.19, $waiter->began - $holder->began);
            self::assertLessThan(1.2 + 0.7, $waiter->began - $holder->began);
        }
        $this->assertNoKeys();
    }

    public function testAWaitEndsInTimeAndLeavesNothing(): void
    {
        $servers = $this->quorum();
        $holder = new RedisLock('key', 30, servers: $servers);
        self::assertTrue($holder->acquire());
        $waiter = new RedisLock('key', 30, servers: $servers);
        foreach ([0.05, 0.4] as $wait) {
            [$held, $seconds] = self::timed(static fn () => $waiter->acquire($wait));
            self::assertFalse($held);
            self::assertGreaterThanOrEqual($wait, $seconds);
            self::assertLessThan($wait + 0.4, $seconds);
            $this->assertOnAll($holder);
        }
        unset($waiter);
        self::assertTrue($holder->release());
        $this->assertNothingOnAnyNode();
    }

    public function testAnIdleWaiterAsksSeldom(): void
    {
        $servers = implode(' ', $this->quorum());
        $this->holder($servers);
        $waiter = $this->contender($servers);
        $waiter->tell('acquire 30');
        $this->eventuallyHeard();
        $before = array_map(static fn ($node) => $node->requests(), $this->nodes);
        usleep(3_000_000);
        foreach ($this->nodes as $i => $node) {
            // A look is a question, and at most one that frees.
            self::assertLessThanOrEqual(3 * 1.5 * 2, $node->requests() - $before[$i]);
        }
        $waiter->kill();
    }

    /** No node is ever down, but each connection is closed again and again, also where something was to be freed. */
    public function testAWaitOutlivesItsConnections(): void
    {
        $servers = $this->quorum();
        $holder = $this->holder(implode(' ', $servers));
        $waiter = $this->contender(implode(' ', $servers));
        $waiter->tell('acquire 30');
        for ($i = 0, $until = self::now() + 3.0; self::now() < $until; $i++) {
            $this->nodes[$i % 3]->killClients();
            usleep(20_000);
        }
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $waiter->answer());
        self::assertSame('released', $waiter->ask('release'));
        $this->assertNoKeys();
    }

    public function testAWaiterThatIsKilledLeavesNothing(): void
    {
        $servers = implode(' ', $this->quorum());
        $holder = $this->holder($servers);
        $waiters = $this->contenders(4, $servers);
        foreach ($waiters as $waiter) {
            $waiter->tell('acquire 30');
        }
        $this->eventuallyHeard(4);
        foreach (array_slice($waiters, 1) as $waiter) {
            $waiter->kill();
        }
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $waiters[0]->answer());
        self::assertLessThan(0.5, $waiters[0]->ended - $holder->began);
        self::assertSame('released', $waiters[0]->ask('release'));
        $waiters[0]->ask('run $lock = null;');
        $this->assertNothingOnAnyNode();
    }

    public function testAVoteThatIsSplitHasNoTwoWinnersAndLeavesNothing(): void
    {
        $servers = implode(' ', $this->quorum());
        $contenders = $this->contenders(5, $servers);
        foreach ($contenders as $contender) {
            self::assertSame('had', $contender->ask('turn 5'));
        }
        $tries = [];
        for ($round = 0; $round < self::ROUNDS; $round++) {
            for ($try = 1; ; $try++) {
                foreach ($contenders as $contender) {
                    $contender->tell('acquire');
                }
                $outcomes = array_map(static fn (Contender $contender) => $contender->answer(), $contenders);
                $winners = array_keys($outcomes, 'held', true);
                self::assertCount(5 - count($winners), array_keys($outcomes, 'busy', true), json_encode($outcomes));
                self::assertLessThanOrEqual(1, count($winners), 'who has it has not released it yet');
                if ($winners !== []) {
                    self::assertSame('released', $contenders[$winners[0]]->ask('release'));
                    break;
                }
                self::assertLessThan(30, $try, 'somebody wins');
            }
            $tries[] = $try;
        }
        self::assertLessThan(3, array_sum($tries) / self::ROUNDS, 'tries on average');
        $this->assertNoKeys();
    }

    public function testContentionExcludesServesAllAndLeavesNothing(): void
    {
        $servers = implode(' ', $this->quorum());
        $file = $this->nodes[0]->folder . '/counter';
        file_put_contents($file, '0');
        $work = <<<'PHP'
            $work = function (string $file, float $seconds) use (&$lock): array {
                [$had, $two, $longest] = [0, 0, 0.0];
                for ($until = hrtime(true) / 1e9 + $seconds; ($began = hrtime(true) / 1e9) < $until; $had++) {
                    if (!$lock->acquire(20)) {
                        return ['busy for 20 s'];
                    }
                    $longest = max($longest, hrtime(true) / 1e9 - $began);
                    $two += !@mkdir("$file.held");
                    $count = (int) file_get_contents($file);
                    usleep(random_int(0, 4_000));
                    file_put_contents($file, (string) ($count + 1));
                    rmdir("$file.held");
                    $lock->release() || $two++;
                    usleep(random_int(0, 20_000));
                }
                return [$had, $two, $longest];
            };
            PHP;
        $contenders = array_map(fn () => $this->contender($servers, setup: $work), range(1, 8));
        foreach ($contenders as $contender) {
            $contender->tell("run return \$work('$file', 4.0);");
        }
        // Meanwhile one node is away for a while.
        usleep(1_200_000);
        $this->nodes[1]->kill(SIGSTOP);
        usleep(1_200_000);
        $this->nodes[1]->kill(SIGCONT);
        $all = 0;
        foreach ($contenders as $contender) {
            $outcome = $contender->answer();
            self::assertCount(3, $outcome, json_encode($outcome));
            [$had, $two, $longest] = $outcome;
            self::assertSame(0, $two, 'somebody else was there');
            self::assertGreaterThan(3, $had);
            self::assertLessThan(3.0, $longest);
            $all += $had;
        }
        self::assertSame((string) $all, file_get_contents($file), 'each has counted');
        self::assertGreaterThan(100, $all);
        // Whatever the silent one was asked for is taken back by those who asked.
        self::eventually(function () use ($contenders): bool {
            foreach ($contenders as $contender) {
                $contender->ask('turn 20');
            }

            return array_filter($this->values()) === [];
        }, 'nothing is left', 10.0);
    }

    public function testAHandlerThatThrowsDuringAWaitOrACommandLeavesNoKey(): void
    {
        $proxies = $this->proxiedQuorum();
        $servers = implode(' ', self::addresses($proxies));
        $setup = 'pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, fn () => throw new DomainException("stop"));
            pcntl_signal(SIGUSR2, function () use (&$address, &$inner) {
                $inner[] = (new RedisLock("inner", 30, servers: $address))->synchronized(fn () => true);
            });';
        $contender = $this->contender($servers, setup: $setup);
        self::assertSame('had', $contender->ask('turn 5'));
        $holder = new RedisLock('key', 30, servers: self::addresses($this->nodes));
        self::assertTrue($holder->acquire());

        // Waiting.
        $contender->tell('acquire 30');
        self::eventually(fn () => self::channels($this->nodes[2]) !== [], 'it waits');
        $contender->process->signal(SIGUSR2);
        usleep(100_000);
        $sent = self::now();
        $contender->process->signal(SIGUSR1);
        self::assertSame('DomainException: stop', $contender->answer());
        self::assertLessThan(0.5, $contender->ended - $sent);
        self::assertSame([true], $contender->ask('run return $inner;'));
        self::assertTrue($holder->release());
        $this->assertNoKeys();

        // In the middle of a command, which is carried out by all.
        foreach ($proxies as $proxy) {
            $proxy->delay(0.4);
        }
        foreach (['acquire', 'acquire 5'] as $order) {
            $contender->tell($order);
            self::eventually(fn () => array_filter($this->values()) !== [], 'it is carried out');
            $contender->process->signal(SIGUSR1);
            self::assertSame('DomainException: stop', $contender->answer());
            self::assertFalse($contender->ask('run return $lock->isAcquired();'));
            self::eventually(fn () => array_filter($this->values()) === [], 'no key');
        }
        $contender->tell('acquire');
        self::eventually(fn () => array_filter($this->values()) !== [], 'it is carried out');
        $contender->process->signal(SIGUSR2);
        self::assertSame('held', $contender->answer(), 'a handler that takes another lock meanwhile');
        self::assertSame([true, true], $contender->ask('run return $inner;'));
        self::assertSame('released', $contender->ask('release'));
        foreach ($proxies as $proxy) {
            $proxy->pass();
        }
        self::assertSame('had', $contender->ask('turn 5'));
        $this->assertNoKeys();
    }
}
