<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\Contender;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\RenewTestCase;

/** Renewal and forks: a child has nothing of its parent's keeper, and may have one of its own. */
final class RenewForkTest extends RenewTestCase
{
    private const SETUP = '
        ini_set("display_errors", "0"); // they would be read as answers
        $threads = fn (): int => count(glob("/proc/self/task/*"));
        $own = new RedisLock("own", 0.6, renew: true, servers: $address);
        // Runs it in a fork; how that ended, as an exit code.
        $fork = function (Closure $child): int {
            $pid = pcntl_fork();
            if ($pid === 0) {
                $child();
                exit(0);
            }
            pcntl_waitpid($pid, $status);
            return pcntl_wifexited($status) ? pcntl_wexitstatus($status) : 128 + pcntl_wtermsig($status);
        };
        unset($look, $believe); // they hold the object of $lock, too
        // What a child finds, and what it can do.
        $child = function () use (&$lock, $own, $threads): void {
            echo json_encode([
                "threads" => $threads(),
                "stats" => array_sum(RedisLock::stats()),
                "inherited" => [$lock->isAcquired(), $lock->isExpired(), $lock->getRemainingLifetime()],
                "acquires" => $own->acquire(),
                "can do nothing with what it inherited" => [$lock->release(), $lock->acquire(), $lock = null],
                "its threads" => $threads(),
                "its lease is kept" => usleep(1_300_000) ?? $own->isAcquired(),
                "its stats" => RedisLock::stats(),
            ]), "\n";
        };
    ';

    public function testAChildHasNoThreadAndMayStartItsOwn(): void
    {
        $server = $this->server();
        $keeper = $this->keeper($server->unix(), 0.9, setup: self::SETUP);
        self::eventually(static fn () => self::stats($keeper)['renewals'] > 0, 'the keeper is at work');
        $keeper->tell('run return $fork($child);');
        $over = static fn () => $server->command('EXISTS', 'own') === 1;
        self::assertGreaterThanOrEqual(0.3, self::leastLeft($server, $over, 'key'));
        self::assertGreaterThanOrEqual(0.2, self::leastLeft($server, self::after(1.2), 'own'), 'the child keeps its own');
        self::assertCount(4, $server->clients(), 'two each');

        $seen = json_decode($keeper->process->readLine(), true);
        self::assertSame(0, $keeper->answer());
        $stats = $seen['its stats'];
        unset($seen['its stats']);
        self::assertSame([
            'threads' => 1,
            'stats' => 0,
            'inherited' => [false, false, null],
            'acquires' => true,
            'can do nothing with what it inherited' => [false, false, null],
            'its threads' => 2,
            'its lease is kept' => true,
        ], $seen);
        self::assertGreaterThan(2, $stats['renewals']);
        self::assertSame([1, 0], [$stats['kept'], $stats['lost']]);
        self::assertSame(0, $server->command('EXISTS', 'own'), "freed at the child's end");
        self::assertKept($server, $keeper);
    }

    public static function ends(): array
    {
        return [
            'exit' => ['exit(7);', 7],
            'a fatal error' => ['ini_set("memory_limit", "4M"); str_repeat("x", 1 << 26);', 255],
            'kill' => ['posix_kill(getmypid(), SIGKILL);', 128 + SIGKILL],
        ];
    }

    /** @dataProvider ends */
    #[DataProvider('ends')]
    public function testTheEndOfAChildDoesNothingToTheParentsLease(string $end, int $status): void
    {
        $server = $this->server();
        $keeper = $this->keeper($server->unix(), 0.9, setup: self::SETUP);
        self::eventually(static fn () => self::stats($keeper)['renewals'] > 0, 'the keeper is at work');
        foreach (['', '$own->acquire() || exit(1);', '$own->acquire() || exit(1); usleep(300_000);'] as $before) {
            self::assertSame($status, $keeper->ask("run return \$fork(function () use (\$own) { $before $end });"));
            self::assertLessThan(0.3 + 0.7, $keeper->ended - $keeper->began, 'it waits for no thread');
            if ($before !== '' && $status === 128 + SIGKILL) {
                self::eventually(static fn () => $server->command('EXISTS', 'own') === 0, 'the end of its ttl', 0.6 + 0.4);
            }
            self::assertSame(0, $server->command('EXISTS', 'own'));
        }
        self::assertKept($server, $keeper);
    }

    public static function parentsEnds(): array
    {
        return array_map(static fn (array $end) => [$end[0]], self::ends());
    }

    /** @dataProvider parentsEnds */
    #[DataProvider('parentsEnds')]
    public function testAChildThatOutlivesItsParentKeepsItsOwnLeaseAndNotTheParents(string $end): void
    {
        $server = $this->server();
        $keeper = $this->keeper($server->unix(), 0.9, setup: self::SETUP);
        self::eventually(static fn () => self::stats($keeper)['renewals'] > 0, 'the keeper is at work');
        $keeper->tell('run if (pcntl_fork() === 0) {'
            . ' $own->acquire() || exit(1); echo getmypid(), "\n"; fgets(STDIN); echo $own->isAcquired() ? "kept" : "lost", "\n"; exit; }'
            . " usleep(100_000); $end");
        $child = (int) $keeper->process->readLine();
        try {
            self::eventually(static fn () => !$keeper->process->isRunning(), 'the end of the parent');
            self::eventually(static fn () => $server->command('EXISTS', 'key') === 0, "the end of the parent's lease", 0.9 + 0.4);
            self::assertGreaterThanOrEqual(0.2, self::leastLeft($server, self::after(1.0), 'own'));
            self::assertCount(2, $server->clients(), "nothing of the parent's is open");
            $keeper->process->writeLine('that will do');
            self::assertSame('kept', $keeper->process->readLine());
            self::eventually(static fn () => $server->command('KEYS', '*') === [], "the end of the child's lease");
        } finally {
            posix_kill($child, SIGKILL);
        }
    }

    public function testForksWhileTheKeeperIsBusy(): void
    {
        $server = $this->server();
        $keeper = $this->contender($server->unix(), setup: '
            $locks = array_map(fn (int $i) => new RedisLock("key$i", 4.0, renew: true, servers: $address), range(1, 1000));
            foreach ($locks as $lock) {
                $lock->acquire() || exit(1);
            }
            $wait = function () use (&$running, &$codes): void {
                pcntl_wait($status);
                $running--;
                $codes[] = pcntl_wifexited($status) ? pcntl_wexitstatus($status) : 128 + pcntl_wtermsig($status);
            };
            $storm = function () use ($wait, $address, &$running, &$codes): array {
                for ($i = $running = 0, $codes = []; $i < 200; $i++) {
                    if ($running === 8) {
                        $wait();
                    }
                    $running++;
                    if (pcntl_fork() === 0) {
                        pcntl_alarm(20); // ends one that hangs
                        if ($i % 3 > 0) {
                            $own = new RedisLock("own$i", renew: true, servers: $address);
                            $own->acquire() && RedisLock::stats()["kept"] === 1 || exit(2);
                            $i % 3 === 1 || $own->release() || exit(3);
                        }
                        exit(0);
                    }
                }
                while ($running > 0) {
                    $wait();
                }
                return array_count_values($codes);
            };
        ');
        self::assertSame('ready', $keeper->ask('run return "ready";'));
        $keeper->tell('run return $storm();');
        $keys = array_map(static fn (int $i) => "key$i", range(1, 1_000));
        self::assertGreaterThan(0.0, self::leastLeft($server, self::after(1.0), ...$keys));
        self::assertSame([200], $keeper->answer(60), 'how often which exit code');
        self::assertGreaterThanOrEqual(4.0 / 3, self::leastLeft($server, self::after(1.0), ...$keys));
        self::assertSame([0, 1_000], [self::stats($keeper)['lost'], self::stats($keeper)['kept']]);
        self::assertCount(1_000, $server->command('KEYS', '*'), 'and none of the children');
    }

    private static function assertKept(RedisServer $server, Contender $keeper): void
    {
        self::assertGreaterThanOrEqual(0.3, self::leastLeft($server, self::after(1.0), 'key'));
        self::assertHasOneThread($keeper);
        self::assertCount(2, $server->clients());
        self::assertSame([0, 1], [self::stats($keeper)['lost'], self::stats($keeper)['kept']]);
        self::assertSame('released', $keeper->ask('release'));
        self::assertSame([], $server->command('KEYS', '*'));
    }
}
