<?php

namespace RedisLock\Tests;

use RedisLock\Tests\Support\Cleanup;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\Subscriber;
use RedisLock\Tests\Support\WaitTestCase;

/** Many waiters, many keys, and a client that listens to everything beside them. */
final class QueueLoadTest extends WaitTestCase
{
    public function testTwoHundredProcessesAndOneKey(): void
    {
        $server = $this->server();
        $subscriber = new Subscriber($server);
        $holder = $this->holder($server->unix());
        $folder = Cleanup::folder();
        $process = PhpProcess::code('
            [, $address, $folder] = $argv;
            for ($i = 0; $i < 200; $i++) {
                if (pcntl_fork() === 0) {
                    $lock = new RedisLock("key", servers: $address);
                    $lock->acquire(60) || exit(1);
                    mkdir("$folder/held") || exit(2);
                    usleep(5_000);
                    rmdir("$folder/held") || exit(3);
                    exit($lock->release() ? 0 : 4);
                }
            }
            $codes = [];
            while (pcntl_wait($status) > 0) {
                $codes[] = pcntl_wifexited($status) ? pcntl_wexitstatus($status) : 255;
            }
            echo json_encode(array_count_values($codes));
        ', [$server->unix(), $folder]);
        self::eventuallyQueued($server, 200);
        self::assertSame('released', $holder->ask('release'));
        self::assertSame(0, $process->wait(60), $process->output() . $process->errorOutput());
        self::assertSame('[200]', $process->output(), 'how often which exit code');
        self::assertLessThan(10, self::now() - $holder->began, '200 × 5 ms, and 200 hand-overs');
        $holder->kill();
        self::assertSame([], $server->command('KEYS', '*'));
        $messages = $subscriber->messages();
        self::assertGreaterThanOrEqual(200, count($messages), 'each was told');
        // What tells them is no secret, and tells nothing else.
        self::assertSame([], preg_grep('/^\d+$/D', array_column($messages, 1), PREG_GREP_INVERT));
    }

    public function testTheLivingKeepTheirOrder(): void
    {
        $server = $this->server();
        $subscriber = new Subscriber($server);
        $holder = $this->holder($server->unix());
        $waiters = $this->contenders(20, $server->unix());
        foreach ($waiters as $waiter) {
            $waiter->ask('run return "started";');
        }
        foreach ($waiters as $i => $waiter) {
            $waiter->tell($i === 11 ? 'turn 2.5' : 'turn 30');
            usleep(50_000);
        }
        self::eventuallyQueued($server, 20);
        self::assertSame(self::pids($waiters), self::queue($server));

        foreach ([0, 7, 13] as $dies) {
            $waiters[$dies]->kill();
        }
        $server->command('CLIENT', 'KILL', 'TYPE', 'pubsub');
        $subscriber = new Subscriber($server);
        self::assertSame('busy', $waiters[11]->answer());
        self::eventually(static fn () => count(self::channels($server)) === 16, 'all listen again');
        self::assertSame('released', $holder->ask('release'));
        $living = array_values(array_diff_key($waiters, array_flip([0, 7, 11, 13])));
        $last = $holder->began;
        foreach ($living as $place => $waiter) {
            self::assertSame('had', $waiter->answer());
            self::assertGreaterThan($last, $waiter->began, "place $place");
            $last = $waiter->ended;
        }
        self::assertLessThan(1.0 + self::SLACK, $last - $holder->began, '16 × 5 ms, and 16 hand-overs');
        self::assertSame([], $server->command('KEYS', '*'));
        self::assertGreaterThanOrEqual(16, count($subscriber->messages()));
    }

    public function testFiveThousandKeysContendedOneAfterAnother(): void
    {
        $server = $this->server();
        $subscriber = new Subscriber($server);
        // A child holds each key, and frees it when it sees the queue.
        $process = PhpProcess::code('
            [, $support, $address, $socket] = $argv;
            [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            if (pcntl_fork() === 0) {
                require "$support/RawClient.php";
                $redis = new RedisLock\Tests\Support\RawClient("unix://$socket");
                while (($key = fgets($theirs)) !== "\n") {
                    $lock = new RedisLock(rtrim($key), servers: $address);
                    $lock->acquire() || exit(1);
                    fwrite($theirs, "held\n");
                    while (count($redis->command("KEYS", "*")) === 1) {
                    }
                    $lock->release() || exit(2);
                }
                exit(0);
            }
            function look(): array {
                preg_match("/^VmRSS:\s+(\d+)/m", file_get_contents("/proc/self/status"), $memory);
                return ["memory" => (int) $memory[1], "files" => count(scandir("/proc/self/fd"))];
            }
            for ($i = 1; $i <= 5_000; $i++) {
                fwrite($ours, "key number $i\n");
                fgets($ours) === "held\n" || exit(3);
                $lock = new RedisLock("key number $i", servers: $address);
                $lock->acquire(30) || exit(4);
                $lock->release() || exit(5);
                if ($i === 500) {
                    $early = look();
                }
            }
            unset($lock);
            echo json_encode([$early, look()]), "\n";
            fgets(STDIN);
            fwrite($ours, "\n");
            pcntl_wait($status);
            exit(pcntl_wexitstatus($status));
        ', [__DIR__ . '/Support', $server->unix(), $server->socket]);
        [$early, $late] = json_decode($process->readLine(120) ?? self::fail($process->errorOutput()), true);

        // It lives, and has all that it would keep.
        self::assertNothingIsLeft($server);
        self::assertCount(2 + 2 + 1, $server->clients(), 'two each of the worker, and of its partner, and one that listens');
        self::assertSame($early['files'], $late['files']);
        self::assertLessThan(768, $late['memory'] - $early['memory'], 'kilobytes');
        self::assertGreaterThanOrEqual(5_000, count($subscriber->messages()));
        $process->writeLine('end');
        self::assertSame(0, $process->wait(), $process->errorOutput());
    }
}
