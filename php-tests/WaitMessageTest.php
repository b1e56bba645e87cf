<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\LockTimeoutException;
use RedisLock\Tests\Support\Contender;
use RedisLock\Tests\Support\WaitTestCase;

/** What LockTimeoutException says: who holds the key, how long we waited, and how many waited before us. */
final class WaitMessageTest extends WaitTestCase
{
    private const WITHIN = 'The lock "key" could not be had within 0\.[2-9]\d* s; ';
    private const FOR_ANOTHER = ', for another (30|29|28|27)(\.\d+)? s unless it is refreshed';

    private static function assertTimesOutWith(string $pattern, Contender $waiter, float $wait = 0.2): void
    {
        $message = $waiter->ask("run return \$lock->synchronized(fn () => 'called', $wait);");
        $class = preg_quote(LockTimeoutException::class, '/');
        self::assertMatchesRegularExpression("/^$class: $pattern\$/D", $message);
        self::assertDoesNotMatchRegularExpression('/[0-9a-f]{16}/', $message, 'no token');
    }

    public static function numbersOfOthers(): array
    {
        return [
            'nobody' => [0, 'nobody waited before us'],
            'one' => [1, '1 other waited before us'],
            'three' => [3, '3 others waited before us'],
        ];
    }

    /** @dataProvider numbersOfOthers */
    #[DataProvider('numbersOfOthers')]
    public function testOurHolderAndHowManyWaitedBeforeUs(int $others, string $said): void
    {
        $server = $this->server();
        $holder = $this->holder($server->unix());
        self::lineUp($server, $others === 0 ? [] : $this->contenders($others, $server->unix()));
        $waiter = $this->contender($server->unix());
        $who = "process {$holder->process->pid()} on " . preg_quote(gethostname(), '/') . ', which asked for it [0-3] s ago, holds it';
        self::assertTimesOutWith(self::WITHIN . $who . self::FOR_ANOTHER . "; $said", $waiter);
        // One that did not wait was in no queue.
        self::assertTimesOutWith('The lock "key" could not be had within [\d.]+ s; ' . $who . self::FOR_ANOTHER, $waiter, 0);
    }

    public function testAnotherProgram(): void
    {
        $server = $this->server();
        $waiter = $this->contender($server->unix());
        $server->command('SET', 'key', 'their token, which is a secret', 'PX', 30_000);
        $end = '; nobody waited before us';
        self::assertTimesOutWith(self::WITHIN . 'another client holds it' . self::FOR_ANOTHER . $end, $waiter);
        $server->command('SET', 'key', 'their token, which is a secret');
        self::assertTimesOutWith(self::WITHIN . 'another client holds it, and has no ttl; it may be no lock' . $end, $waiter);
    }

    public function testAHolderThatHidesItself(): void
    {
        $server = $this->server();
        $holder = $this->contender($server->unix(), ini: ['redis_lock.identify' => 0]);
        self::assertSame('held', $holder->ask('acquire'));
        $hidden = $this->contender($server->unix(), ini: ['redis_lock.identify' => 0]);
        $hidden->tell('acquire 30');
        self::eventually(static fn () => count($server->command('KEYS', '*')) === 2, 'it waits');
        $waiter = $this->contender($server->unix());
        self::assertTimesOutWith(
            self::WITHIN . 'another client holds it' . self::FOR_ANOTHER . '; 1 other waited before us',
            $waiter,
        );
        self::assertSame('released', $holder->ask('release'));
        self::assertSame('held', $hidden->answer());
    }

    public function testAWaitThatPollsStandsInLineToo(): void
    {
        $server = $this->server(['rename-command' => 'SUBSCRIBE ""']);
        $this->holder($server->unix());
        $waiter = $this->contender($server->unix());
        self::assertTimesOutWith(self::WITHIN . 'process \d+ on \S+, which asked for it [0-3] s ago, holds it' . self::FOR_ANOTHER
            . '; nobody waited before us', $waiter);
    }
}
