<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\Contender;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\Subscriber;
use RedisLock\Tests\Support\WaitTestCase;

/** First come, first served, told at once, and with few requests. */
final class QueueOrderTest extends WaitTestCase
{
    /** @dataProvider transports */
    #[DataProvider('transports')]
    public function testFirstComeFirstServed(string $transport): void
    {
        $server = $this->server(tls: $transport === 'tls');
        $address = $server->$transport();
        $holder = $this->holder($address);
        $waiters = $this->contenders(6, $address);
        self::lineUp($server, $waiters);
        self::assertSame(self::pids($waiters), self::queue($server));

        self::assertSame('released', $holder->ask('release'));
        foreach ($waiters as $i => $waiter) {
            self::assertSame('held', $waiter->answer());
            self::assertSame(self::pids(array_slice($waiters, $i + 1)), self::queue($server), 'the others wait');
            self::assertSame('released', $waiter->ask('release'));
        }
        foreach ($waiters as $waiter) {
            $waiter->kill();
        }
        self::assertNothingIsLeft($server);
    }

    public function testATryWithoutWaitingDoesNotSlipInWhileTheKeyIsHandedOver(): void
    {
        $server = $this->server();
        $barger = $this->contender($server->unix(), setup: '
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, function () use (&$stop) { $stop = true; });
        ');
        $holder = $this->holder($server->unix());
        $barger->tell('run for ($tries = 0; empty($stop); $tries++) { if ($lock->acquire()) { return -$tries; } usleep(100); } return $tries;');
        $this->handOver(30, $server, $holder, $this->contender($server->unix()));
        $barger->process->signal(SIGUSR1);
        self::assertGreaterThan(100, $barger->answer(), 'tries, all in vain');
    }

    /** @dataProvider transports */
    #[DataProvider('transports')]
    public function testAWaiterIsToldAtOnce(string $transport): void
    {
        $server = $this->server(tls: $transport === 'tls');
        $address = $server->$transport();
        $delays = $this->handOver(15, $server, $this->holder($address), $this->contender($address));
        // It would look by itself after 0.7 s at the earliest.
        self::assertLessThan(0.1, self::median($delays));
    }

    public function testAContendedAcquisitionTakesThreeRequests(): void
    {
        $server = $this->server();
        [$one, $two] = [$this->holder($server->unix()), $this->contender($server->unix())];
        $this->handOver(4, $server, $one, $two); // now both of them know the way
        $before = $server->requests();
        $this->handOver(20, $server, $one, $two);
        $requests = $server->requests() - $before;
        self::assertGreaterThanOrEqual(60, $requests, 'ask, ask again when told, leave');
        self::assertLessThanOrEqual(63, $requests, 'and hardly a look of one that was not told for most of a second');
    }

    /**
     * Lets each wait until the other releases.
     *
     * @return list<float> seconds from each release to the end of the wait
     */
    private function handOver(int $times, RedisServer $server, Contender $holder, Contender $waiter): array
    {
        for ($delays = []; count($delays) < $times; [$holder, $waiter] = [$waiter, $holder]) {
            self::lineUp($server, [$waiter]);
            self::assertSame('released', $holder->ask('release'));
            self::assertSame('held', $waiter->answer());
            $delays[] = $waiter->ended - $holder->began;
        }

        return $delays;
    }

    public function testWhereNobodyWaitsNothingMoreIsSentOrWritten(): void
    {
        $server = $this->server();
        $subscriber = new Subscriber($server);
        [$fresh, $used] = [$this->contender($server->unix()), $this->contender($server->unix())];
        $holder = $this->holder($server->unix());
        self::lineUp($server, [$used]);
        $holder->ask('release');
        self::assertSame('held', $used->answer());
        $used->ask('release');
        $holder->kill();
        foreach (['acquire', 'release'] as $order) {
            $fresh->ask($order); // connects, and makes the scripts known
        }
        self::assertCount(1, $subscriber->messages());

        $server->resetCommandCounts();
        // One that has waited before keeps its place to listen, and nothing more for that.
        foreach (['fresh' => $fresh, 'used' => $used] as $name => $contender) {
            $before = $server->requests();
            self::assertSame('held', $contender->ask('acquire 30'));
            self::assertSame(['key'], $server->command('KEYS', '*'));
            self::assertSame('released', $contender->ask('release'));
            self::assertSame(2, $server->requests() - $before, $name);
            self::assertSame([], $server->command('KEYS', '*'));
        }
        self::assertSame([], $subscriber->messages());
        $unwanted = array_flip(['zadd', 'publish', 'pubsub|numsub', 'subscribe', 'unsubscribe']);
        self::assertSame([], array_intersect_key($server->commandCounts(), $unwanted));
    }

    public function testAnIdleWaiterHardlyAsksAndUsesNoCpu(): void
    {
        $server = $this->server();
        $this->holder($server->unix());
        $waiter = $this->contender($server->unix());
        self::lineUp($server, [$waiter]);
        $cpu = static function () use ($waiter): float {
            $fields = explode(' ', explode(') ', file_get_contents("/proc/{$waiter->process->pid()}/stat"))[1]);

            return ($fields[11] + $fields[12]) / 100; // hundredths of a second, of the program and for it in the kernel
        };

        [$requests, $seconds, $start] = [$server->requests(), $cpu(), self::now()];
        usleep(4_000_000);
        self::assertLessThan(0.1, $cpu() - $seconds);
        self::assertLessThanOrEqual(1.5 * (self::now() - $start), $server->requests() - $requests);
    }
}
