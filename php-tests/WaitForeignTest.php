<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\Cleanup;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\WaitTestCase;

/** Keys that other programs hold: they tell nobody when they free one. */
final class WaitForeignTest extends WaitTestCase
{
    public static function foreignKeys(): array
    {
        return ['with a ttl' => [['PX', 60_000]], 'without a ttl' => [[]]];
    }

    /** @dataProvider foreignKeys */
    #[DataProvider('foreignKeys')]
    public function testADeleteByAnotherProgramIsNoticed(array $ttl): void
    {
        $server = $this->server();
        $keys = array_map(static fn (int $i) => "key$i", range(10, 29));
        foreach ($keys as $key) {
            $server->command('SET', $key, 'theirs', ...$ttl);
            $waiters[$key] = $this->contender($server->unix(), $key);
            self::lineUp($server, [$waiters[$key]], key: $key);
        }
        usleep(600_000); // the pauses between their looks are at their longest now
        foreach ($keys as $key) {
            $deleted[$key] = self::now();
            $server->command('DEL', $key);
            usleep(17_000);
        }
        foreach ($keys as $key) {
            self::assertSame('held', $waiters[$key]->answer());
            $delays[] = $waiters[$key]->ended - $deleted[$key];
        }
        // With the default bounds of the pauses, 10 and 250 ms.
        self::assertLessThan(0.2, array_sum($delays) / count($delays));
    }

    public function testTheEndOfItsTtlIsNoticed(): void
    {
        $server = $this->server();
        $waiter = $this->contender($server->unix(), ini: ['redis_lock.poll_min' => 5, 'redis_lock.poll_max' => 5]);
        for ($i = 0; $i < 5; $i++) {
            $server->command('SET', 'key', 'theirs', 'PX', 300);
            $expiry = self::now() + 0.3;
            self::assertSame('held', $waiter->ask('acquire 30'));
            $delays[] = $waiter->ended - $expiry;
            self::assertSame('released', $waiter->ask('release'));
        }
        self::assertLessThan(0.2, self::median($delays));
    }

    public function testOursAndAnotherProgramThatPollsExcludeEachOtherAndAllGetTheirTurns(): void
    {
        $server = $this->server();
        $folder = Cleanup::folder();
        // It looks every 10 ms and holds the key for 3 ms.
        $other = PhpProcess::code('
            [, $support, $address, $folder] = $argv;
            require "$support/RawClient.php";
            $redis = new RedisLock\Tests\Support\RawClient($address);
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, function () use (&$stop) { $stop = true; });
            echo "ready\n";
            for ($turns = 0; empty($stop); usleep(10_000)) {
                if ($redis->command("SET", "key", "theirs", "NX", "PX", 30_000) === "OK") {
                    $turns++;
                    mkdir("$folder/held") || exit(1);
                    usleep(3_000);
                    rmdir("$folder/held");
                    $redis->command("DEL", "key");
                }
            }
            echo $turns;
        ', [__DIR__ . '/Support', 'unix://' . $server->socket, $folder]);
        self::assertSame('ready', $other->readLine());

        $ours = array_map(fn () => $this->contender($server->unix()), range(1, 3));
        $turns = 'run for ($i = 0; $i < 20; $i++) { $lock->synchronized(function () use ($argv) {'
            . " mkdir('$folder/held') || exit(1); usleep(3_000); rmdir('$folder/held'); }, 30); } return 'done';";
        foreach ($ours as $contender) {
            $contender->tell($turns);
        }
        foreach ($ours as $contender) {
            self::assertSame('done', $contender->answer(60), $contender->process->errorOutput());
        }
        self::assertTrue($other->isRunning(), $other->output() . $other->errorOutput());
        $other->signal(SIGUSR1);
        self::assertSame(0, $other->wait());
        self::assertGreaterThan(0, (int) substr($other->output(), 6), 'turns of the other program');
        self::assertSame([], $server->command('KEYS', '*'));
    }
}
