<?php

namespace RedisLock\Tests;

use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\QuorumTestCase;
use RedisLock\Tests\Support\RedisServer;
use RedisLockFactory;

/** Servers that were started a moment ago may have forgotten whom they gave the key, and do not give it. */
final class RestartGuardTest extends QuorumTestCase
{
    /** Its uptime is told in whole seconds. */
    private static function eventuallyUpFor(RedisServer $server, int $seconds): void
    {
        self::eventually(static fn () => $server->info('uptime_in_seconds') >= $seconds, "up for $seconds s");
    }

    private function assertTooYoung(RedisLock $lock, RedisServer ...$young): void
    {
        foreach ([0.0, 0.1] as $wait) {
            $e = self::caught(static fn () => $lock->acquire($wait));
            self::assertSame(ConnectionException::class, $e::class);
            foreach ($young as $server) {
                self::assertMatchesRegularExpression("~{$server->tcp()} was not asked: it has been up for [0-2](\.\d+)? s, less than the restartGuard of 3 s~", $e->getMessage());
            }
            self::assertSame(count($young), substr_count($e->getMessage(), 'has been up'), $e->getMessage());
            self::assertFalse($lock->isAcquired());
        }
    }

    public function testAMajorityMustBeOldEnough(): void
    {
        $servers = $this->quorum();
        [$a, $b, $c] = $this->nodes;
        $lock = new RedisLock('key', 2.0, restartGuard: 3, servers: $servers);
        $single = new RedisLock('single', 2.0, restartGuard: 3, servers: $servers[0]);
        $factory = new RedisLockFactory([$servers[0]], ttl: 2.0, restartGuard: 3);
        $this->assertTooYoung($single, $a);
        $this->assertTooYoung($factory->createLock('made'), $a);
        $e = self::caught(static fn () => $lock->acquire());
        self::assertSame(ConnectionException::class, $e::class);
        self::assertStringContainsString('less than the restartGuard of 3 s', $e->getMessage());
        self::assertTrue((new RedisLock('unguarded', 2.0, servers: $servers))->acquire());
        $this->assertNoKeys();

        // On the connections that were told so, too.
        foreach ($this->nodes as $node) {
            self::eventuallyUpFor($node, 4);
        }
        foreach ([$single, $factory->createLock('made'), $lock, new RedisLock('fenced', 2.0, restartGuard: 3, fencing: true, servers: $servers)] as $one) {
            self::assertTrue($one->acquire());
            self::assertTrue($one->refresh());
            self::assertTrue($one->release());
        }
        self::assertTrue($lock->acquire());

        $c->restart();
        self::assertTrue($lock->release());
        self::assertTrue($lock->acquire());
        // What the young one has granted does not count, and is freed with the rest.
        self::assertTrue($lock->release());
        $this->assertNoKeys();

        // The holder had it on two; one of them forgot, and would give it to another together with the third.
        self::assertTrue($lock->acquire());
        $b->restart();
        $c->flush();
        $other = new RedisLock('key', 2.0, restartGuard: 3, servers: $servers);
        $e = self::caught(static fn () => $other->acquire());
        self::assertSame(ConnectionException::class, $e::class, 'an answer of the first alone is none');
        $this->assertTooYoung(new RedisLock('free', 2.0, restartGuard: 3, servers: $servers), $b, $c);
        self::assertSame($lock->getToken(), $this->values()[0]);
        unset($lock);
        $this->assertNoKeys();

        $a->restart();
        $this->assertTooYoung($single, $a);
    }

    public function testAServerThatDoesNotSayItsAge(): void
    {
        $this->quorum();
        foreach ([0, 1] as $i) {
            $this->nodes[$i]->command('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all', '-info');
        }
        // Of any two that settle it, one is not told.
        $all = [$this->nodes[0]->tcp('app:secret'), $this->nodes[1]->tcp('app:secret'), $this->nodes[2]->tcp()];
        foreach ([$all[0], $all] as $servers) {
            $lock = new RedisLock('key', 1.0, restartGuard: 600, servers: $servers);
            $e = self::caught(static fn () => $lock->acquire());
            self::assertSame(ConnectionException::class, $e::class);
            self::assertStringContainsString('restartGuard needs to know how long it has been up: NOPERM', $e->getMessage());
            self::assertStringNotContainsString('secret', $e->getMessage());
            self::assertTrue((new RedisLock('key', 1.0, servers: $servers))->acquire());
        }
    }

    public function testOneThatIsShorterThanTheTtlIsRefused(): void
    {
        $server = RedisServer::shared()->tcp();
        foreach ([
            ['restartGuard', static fn () => new RedisLock('key', 2.0, restartGuard: 1.9, servers: $server)],
            ['restartGuard', static fn () => new RedisLock('key', restartGuard: 29, servers: $server)],
            ['restartGuard', static fn () => new RedisLockFactory($server, ttl: 2.0, restartGuard: 1.9)],
            ['restartGuard', static fn () => RedisLock::restore('key', 'token', 2.0, restartGuard: 1.9, servers: $server)],
            ['restartGuard', static fn () => new RedisLock('key', 2.0, restartGuard: NAN, servers: $server)],
            ['restartGuard', static fn () => new RedisLock('key', 2.0, restartGuard: -1, servers: $server)],
            ['ttl', static fn () => (new RedisLockFactory($server, ttl: 2.0, restartGuard: 3))->createLock('key', ttl: 4)],
            ['ttl', static fn () => RedisLock::restore('key', 'token', 2.0, restartGuard: 3, servers: $server)->refresh(3.1)],
        ] as $number => [$parameter, $call]) {
            $e = self::caught($call);
            self::assertSame(\ValueError::class, $e::class, "call $number");
            self::assertStringContainsString("(\$$parameter) must", $e->getMessage());
        }
        self::assertFalse((new RedisLock('key', 2.0, restartGuard: 2.0, servers: $server))->isAcquired());
    }
}
