<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\WaitTestCase;

/** Servers and users that cannot subscribe, or cannot tell: waiting is polling then, and nothing fails. */
final class WaitFallbackTest extends WaitTestCase
{
    private const ALL = 'default on nopass ~* &* +@all';
    /** What was enough for everything before waiting was pushed, and still is for all but being told. */
    private const LEAST = 'least on >pw ~* resetchannels -@all +set +get +del +pexpire +pttl +eval +evalsha';
    private const NO_CHANNELS = 'nochannels on >pw ~* resetchannels +@all';

    public static function thoseWhoCannotSubscribe(): array
    {
        return [
            'no channels' => ['nochannels:pw', ['user' => [self::ALL, self::NO_CHANNELS]]],
            'no SUBSCRIBE' => ['silent:pw', ['user' => [self::ALL, 'silent on >pw ~* &* +@all -subscribe']]],
            'the least of rights' => ['least:pw', ['user' => [self::ALL, self::LEAST]]],
            'no SUBSCRIBE in the server' => ['', ['rename-command' => 'SUBSCRIBE ""']],
        ];
    }

    /** @dataProvider thoseWhoCannotSubscribe */
    #[DataProvider('thoseWhoCannotSubscribe')]
    public function testTheyPollAndTryToSubscribeOnce(string $login, array $config): void
    {
        $server = $this->server($config);
        $waiter = $this->contender($server->tcp($login));
        self::assertSame('held', $waiter->ask('acquire'));
        self::assertSame('released', $waiter->ask('release'));

        for ($wait = 1; $wait <= 2; $wait++) {
            $holder = $this->holder($server->unix());
            [$before, $errors] = [$server->requests(), self::errors($server)];
            $waiter->tell('acquire 30');
            self::eventually(static fn () => $server->requests() > $before, 'it asks');
            usleep(500_000);
            self::assertSame('released', $holder->ask('release'));
            self::assertSame('held', $waiter->answer());
            // The pauses grow to 0.25 s.
            self::assertLessThan(0.25 + self::SLACK, $waiter->ended - $holder->began);
            $requests = $server->requests() - $before;
            // Who may not use the queue either is told so by each of its commands, once a wait. Redis 6.2 does not count
            // what a script is told.
            $noQueue = $login === 'least:pw' ? 5 : 0;
            $noChannel = $wait === 1 ? 1 : 0;
            $errors = self::errors($server) - $errors;
            self::assertContains($errors, [$noChannel, $noChannel + $noQueue], 'one try to subscribe, in the first wait');
            self::assertGreaterThan(4, $requests);
            self::assertLessThan(30, $requests, 'no loop');
            self::assertSame('released', $waiter->ask('release'));
            self::assertSame([], $server->command('KEYS', '*'));
            $holder->kill();
        }

        $this->holder($server->unix());
        self::assertSame('busy', $waiter->ask('acquire 0.3'));
        self::assertLessThan(0.3 + self::SLACK, $waiter->ended - $waiter->began);
        self::assertSame(['key'], $server->command('KEYS', '*'), 'no queue');
        self::assertSame('', $waiter->process->errorOutput());
    }

    /** @dataProvider thoseWhoCannotQueue */
    #[DataProvider('thoseWhoCannotQueue')]
    public function testThoseWhoCannotQueuePoll(string $rights): void
    {
        $server = $this->server(['user' => [self::ALL, "idler on >pw ~* &* +@all $rights"]]);
        $waiter = $this->contender($server->tcp('idler:pw'));
        $holder = $this->holder($server->unix());
        $before = $server->requests();
        $waiter->tell('acquire 30');
        self::eventually(static fn () => $server->requests() > $before + 4, 'it asks again and again');
        self::assertSame(['key'], $server->command('KEYS', '*'), 'no queue');
        usleep(500_000);
        self::assertLessThan(30, $server->requests() - $before, 'no loop');
        self::assertLessThan(10, self::errors($server), 'what one script tries in vain');
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $waiter->answer());
        self::assertLessThan(0.25 + self::SLACK, $waiter->ended - $holder->began);
        self::assertSame('released', $waiter->ask('release'));
        self::assertSame([], $server->command('KEYS', '*'));

        $this->holder($server->unix());
        self::assertSame('busy', $waiter->ask('acquire 0.3'));
        self::assertSame('', $waiter->process->errorOutput());
    }

    public static function thoseWhoCannotQueue(): array
    {
        return ['no ZADD' => ['-zadd'], 'no sorted sets' => ['-@sortedset']];
    }

    public static function thoseWhoCannotTell(): array
    {
        return [
            'no channels' => ['nochannels:pw', self::NO_CHANNELS],
            'no PUBLISH' => ['mute:pw', 'mute on >pw ~* &* +@all -publish'],
            'no sorted sets' => ['idler:pw', 'idler on >pw ~* &* +@all -@sortedset'],
            'no PUBSUB' => ['deaf:pw', 'deaf on >pw ~* &* +@all -pubsub'],
            'the least of rights' => ['least:pw', self::LEAST],
        ];
    }

    /** @dataProvider thoseWhoCannotTell */
    #[DataProvider('thoseWhoCannotTell')]
    public function testTheyReleaseWithoutAnErrorAndTheWaitersGetTheKey(string $login, string $user): void
    {
        $server = $this->server(['user' => [self::ALL, $user]]);
        $holder = $this->holder($server->tcp($login));
        $waiters = $this->contenders(2, $server->unix());
        self::lineUp($server, $waiters, 'turn 30');
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('', $holder->process->errorOutput());

        foreach ($waiters as $waiter) {
            self::assertSame('had', $waiter->answer());
            // One sees it at its next look, and tells the other.
            self::assertLessThan(1.0 + self::SLACK, $waiter->began - $holder->began);
        }
        self::assertSame([], $server->command('KEYS', '*'));
    }
}
