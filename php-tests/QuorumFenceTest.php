<?php

namespace RedisLock\Tests;

use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\QuorumTestCase;
use RedisLock\Tests\Support\RedisServer;

/** Fences in a quorum: the greatest that a node gave, which a majority remembers before it is told. */
final class QuorumFenceTest extends QuorumTestCase
{
    /** @return list<int> what each of these nodes remembers; 0: nothing */
    private function remembered(?array $nodes = null): array
    {
        return array_map(static function (RedisServer $node): int {
            $keys = $node->command('KEYS', 'key{????}:redis_lock:fence');

            return $keys === [] ? 0 : (int) $node->command('GET', $keys[0]);
        }, $nodes ?? $this->nodes);
    }

    private static function remember(RedisServer $node, int $fence): void
    {
        $node->command('SET', $node->command('KEYS', 'key{????}:redis_lock:fence')[0], $fence);
    }

    private static function forget(RedisServer $node): void
    {
        foreach ($node->command('KEYS', 'key{????}:redis_lock:fence') as $key) {
            $node->command('DEL', $key);
        }
    }

    public function testItGrowsWhateverAMinorityRemembersAndAMajorityRemembersIt(): void
    {
        $servers = $this->quorum();
        $lock = new RedisLock('key', 30, fencing: true, servers: $servers);
        [$a, $b, $c] = $this->nodes;
        $last = 0;
        $next = function (?array $nodes = null) use ($lock, &$last): int {
            self::assertTrue($lock->acquire());
            $fence = $lock->getFence();
            self::assertGreaterThan($last, $fence);
            $remembered = array_filter($this->remembered($nodes), static fn (int $one) => $one === $fence);
            self::assertGreaterThanOrEqual(2, count($remembered), 'a majority remembers it already');
            self::assertTrue($lock->refresh());
            self::assertSame($fence, $lock->getFence());
            self::assertTrue($lock->release());

            return $last = $fence;
        };
        $time = (int) (microtime(true) * 1e6);
        self::assertEqualsWithDelta($time, $next(), 2e6);
        $next();

        // One is an hour ahead, and its fence is that of all from then on, also without it.
        self::eventually(fn () => min($this->remembered()) > 0, 'all remember one');
        self::remember($b, $time + 3_600_000_000);
        for ($i = 0; $last < $time + 3_600_000_000; $i++) {
            // It is heard of as soon as it is one of the fastest two.
            self::assertLessThan(1_000, $i);
            $next();
        }
        self::forget($b);
        $next();
        self::forget($a);
        $next();
        $b->stop();
        $next([$a, $c]);
        $b->start(); // empty
        for ($i = 0; $i < 20; $i++) {
            $next();
            usleep(10_000);
        }
        $c->kill(SIGSTOP);
        $next([$a, $b]);
        $c->kill(SIGCONT);
        self::forget($a);
        $next();
        foreach ($this->nodes as $node) {
            self::eventually(static fn () => array_filter($node->command('KEYS', '*'), static fn ($key) => !str_ends_with($key, ':fence')) === [], 'only fences');
            foreach ($node->command('KEYS', '*') as $key) {
                self::assertGreaterThan(86_400_000, $node->command('PTTL', $key) + 1_000_000);
                self::assertLessThanOrEqual(86_400_000 + 30_000, $node->command('PTTL', $key));
            }
        }
    }

    public function testItGrowsOverAllProcessesWhileNodesForgetFallSilentOrAreAhead(): void
    {
        $servers = implode(' ', $this->quorum());
        $log = $this->nodes[0]->folder . '/fences';
        touch($log);
        $contenders = array_map(fn () => $this->contender($servers, setup: '
            $lock = new RedisLock($key, 30, fencing: true, servers: $address);
            $work = function (string $log, int $times) use (&$lock): int {
                for ($had = 0; $had < $times; $had++) {
                    if (!$lock->acquire(20)) {
                        break;
                    }
                    file_put_contents($log, $lock->getFence() . "\n", FILE_APPEND);
                    usleep(500);
                    $lock->release();
                }
                return $had;
            };'), range(1, 4));
        foreach ($contenders as $contender) {
            $contender->tell("run return \$work('$log', 60);");
        }
        [$a, $b, $c] = $this->nodes;
        foreach ([
            static fn () => self::remember($a, (int) ((microtime(true) + 600) * 1e6)),
            static fn () => self::forget($b),
            static fn () => $c->kill(SIGSTOP),
            static fn () => $c->kill(SIGCONT),
            static fn () => self::forget($a),
            static fn () => self::remember($c, 7),
        ] as $number => $trouble) {
            self::eventually(static fn () => substr_count(file_get_contents($log), "\n") > 30 * $number, 'progress');
            $trouble();
            // A majority is to have the fence of the next before another one forgets.
            $length = strlen(file_get_contents($log));
            self::eventually(static fn () => strlen(file_get_contents($log)) >= $length + 3 * 17, 'progress');
        }
        foreach ($contenders as $contender) {
            self::assertSame(60, $contender->answer());
        }
        $fences = array_map(intval(...), file($log));
        self::assertCount(240, $fences);
        for ($i = 1; $i < count($fences); $i++) {
            self::assertGreaterThan($fences[$i - 1], $fences[$i], "fence $i");
        }
        self::assertGreaterThanOrEqual(2, count(array_filter($this->remembered(), static fn (int $one) => $one >= end($fences))));
    }

    public function testWithoutAMajorityThatRemembersItNothingIsHeld(): void
    {
        $servers = $this->quorum();
        $lock = new RedisLock('key', 30, fencing: true, servers: $servers);
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->release());
        $this->assertNoKeys();
        // Two cannot keep a fence: what they have in its place is none.
        foreach ([0, 1] as $i) {
            $keys = $this->nodes[$i]->command('KEYS', '*');
            $this->nodes[$i]->command('SET', $keys[0], str_repeat('9', 20));
        }
        $e = self::caught(static fn () => $lock->acquire());
        self::assertSame(ConnectionException::class, $e::class);
        self::assertSame(2, substr_count($e->getMessage(), 'holds no fence'), $e->getMessage());
        self::assertNull($lock->getFence());
        $this->assertNoKeys();
    }
}
