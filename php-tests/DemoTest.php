<?php

namespace RedisLock\Tests;

use RedisLock\Tests\Support\Cleanup;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\Shell;

/** bin/demo shows what it promises, and cleans up. */
final class DemoTest extends LockTestCase
{
    public function testItTellsTheStoryAndLeavesNothingBehind(): void
    {
        $folder = Cleanup::folder();
        [$code, $output] = Shell::run('exec bin/demo', ['TMPDIR' => $folder]);

        self::assertSame(0, $code, $output);
        self::assertMatchesRegularExpression('/Without a lock.*charged [2-5] times.*With a lock.*charged once/s', $output);
        self::assertMatchesRegularExpression('/kill -9 \d+.*\n +[23]\.\d s later  worker 2 .*CHARGED/s', $output);
        self::assertNothingLeft($folder);
    }

    public function testInterruptedItLeavesNothingInAServerOfOthers(): void
    {
        $folder = Cleanup::folder();
        $server = RedisServer::shared();
        $server->command('SET', 'key of another program', 'x');
        $demo = new Shell('exec bin/demo', ['TMPDIR' => $folder, 'REDIS_URL' => $server->unix()]);
        $demo->waitFor('Worker 2 waits for the lock');
        // Worker 2 may stand in the queue already.
        $keys = preg_grep('/:redis_lock:queue$/D', $server->command('KEYS', '*'), PREG_GREP_INVERT);
        self::assertCount(2, $keys, 'The lock of the killed worker is there.');
        posix_kill($demo->pid, SIGTERM);
        [$code, $output] = $demo->wait();

        self::assertSame(128 + SIGTERM, $code, $output);
        self::assertSame(['key of another program'], $server->command('KEYS', '*'));
        self::assertNothingLeft($folder);
    }

    public function testAServerThatIsNotThereIsTold(): void
    {
        $port = RedisServer::freePort();
        [$code, $output] = Shell::run('exec bin/demo', ['REDIS_URL' => "redis://:secret@127.0.0.1:$port"]);

        self::assertSame(1, $code, $output);
        self::assertStringContainsString("redis://127.0.0.1:$port", $output);
        self::assertStringNotContainsString('secret', $output);
    }

    /** No file in its temporary folder, and no process that was started with a path in it. */
    private static function assertNothingLeft(string $folder): void
    {
        self::assertSame(['.', '..'], scandir($folder));
        $left = array_filter(
            glob('/proc/[0-9]*/cmdline'),
            static fn (string $file) => str_contains((string) @file_get_contents($file), $folder),
        );
        self::assertSame([], $left);
    }
}
