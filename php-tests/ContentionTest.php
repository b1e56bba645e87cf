<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\Cleanup;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\RedisServer;

/** Many processes and one lock. */
final class ContentionTest extends LockTestCase
{
    /** @dataProvider transports */
    #[DataProvider('transports')]
    public function testNoIncrementOfACounterIsLost(string $transport): void
    {
        $file = Cleanup::folder() . '/counter';
        file_put_contents($file, '0');
        $workers = [];
        for ($i = 0; $i < 8; $i++) {
            $workers[] = PhpProcess::code('
                $lock = new RedisLock("counter", servers: $argv[1]);
                for ($i = 0; $i < 500; $i++) {
                    $lock->synchronized(function () use ($argv) {
                        $count = (int) file_get_contents($argv[2]);
                        file_put_contents($argv[2], (string) ($count + 1));
                    }, wait: 30);
                }
            ', [self::address($transport), $file]);
        }
        foreach ($workers as $worker) {
            self::assertSame(0, $worker->wait(120), $worker->output() . $worker->errorOutput());
        }
        self::assertSame('4000', file_get_contents($file));
    }

    public function testAHolderThatIsKilledFreesTheKeyByItsTtl(): void
    {
        $address = RedisServer::shared()->tcp();
        $holder = PhpProcess::code('
            $lock = new RedisLock("key", 1.0, servers: $argv[1]);
            $lock->acquire();
            echo "held\n";
            sleep(60);
        ', [$address]);
        self::assertSame('held', $holder->readLine());
        $holder->kill();
        self::assertSame(128 + SIGKILL, $holder->wait());

        $lock = new \RedisLock('key', servers: $address);
        self::assertFalse($lock->acquire());
        self::assertSame($holder->pid(), $lock->getHolder()['pid']);
        [$acquired, $seconds] = self::timed(static fn () => $lock->acquire(20));
        self::assertTrue($acquired);
        self::assertLessThan(1.0 + self::SLACK, $seconds);
    }

    public function testSeveralWaitersAllGetTheirTurn(): void
    {
        $address = RedisServer::shared()->unix();
        $holder = new \RedisLock('key', servers: $address);
        $holder->acquire();
        $waiters = [];
        for ($i = 0; $i < 5; $i++) {
            $waiters[] = PhpProcess::code('
                $lock = new RedisLock("key", servers: $argv[1]);
                echo "waits\n", $lock->acquire(30) ? "held" : "busy", "\n";
                usleep(20_000);
                echo $lock->release() ? "released" : "lost", "\n";
            ', [$address]);
        }
        foreach ($waiters as $waiter) {
            self::assertSame('waits', $waiter->readLine());
        }
        $holder->release();
        foreach ($waiters as $waiter) {
            self::assertSame(0, $waiter->wait());
            self::assertSame("waits\nheld\nreleased\n", $waiter->output());
        }
        self::assertSame(0, RedisServer::shared()->command('DBSIZE'));
    }
}
