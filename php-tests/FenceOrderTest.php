<?php

namespace RedisLock\Tests;

use RedisLock\Tests\Support\Cleanup;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\WaitTestCase;

/** Fences grow in the order in which the lock is had, in whatever way it is had. */
final class FenceOrderTest extends WaitTestCase
{
    private const PROCESSES = 8;
    /** Of each process. */
    private const ACQUISITIONS = 1_250;

    public function testTenThousandAcquisitionsByEightProcesses(): void
    {
        $server = $this->server();
        $folder = Cleanup::folder();
        // Each notes its fences in one file, while it has the lock: the order of the lines is that of the acquisitions,
        // unless the lease ended before the line was written.
        $process = PhpProcess::code('
            [, $address, $folder, $processes, $acquisitions] = $argv;
            for ($i = 0; $i < $processes; $i++) {
                if (pcntl_fork() === 0) {
                    $lock = new RedisLock("key", fencing: true, servers: $address);
                    $file = fopen("$folder/order", "a");
                    $notes = [];
                    while (count($notes) < $acquisitions) {
                        usleep(mt_rand(0, 6_000));
                        $chance = mt_rand(1, 100);
                        $kind = match (true) {
                            $chance <= 2 => "left to its ttl",
                            $chance <= 30 => "bare",
                            default => "released",
                        };
                        $had = $kind === "left to its ttl"
                            ? new RedisLock("key", 0.02, fencing: true, autoRelease: false, servers: $address)
                            : $lock;
                        $before = hrtime(true);
                        if (!$had->acquire($kind === "bare" ? 0.0 : 60.0)) {
                            $kind === "bare" ? null : exit(1);
                            continue;
                        }
                        $after = hrtime(true);
                        $fence = $had->getFence();
                        fwrite($file, "$fence\n");
                        $notes[] = [$fence, $before, $after, $kind, $had->isAcquired()];
                        $kind === "left to its ttl" || $had->release() || exit(2);
                    }
                    file_put_contents("$folder/notes.$i", json_encode($notes));
                    exit(0);
                }
            }
            $codes = [];
            while (pcntl_wait($status) > 0) {
                $codes[] = pcntl_wifexited($status) ? pcntl_wexitstatus($status) : 255;
            }
            echo json_encode(array_count_values($codes));
        ', [$server->unix(), $folder, self::PROCESSES, self::ACQUISITIONS]);
        self::assertSame(0, $process->wait(), $process->errorOutput());
        self::assertSame('[' . self::PROCESSES . ']', $process->output(), 'how often which exit code: ' . $process->errorOutput());

        $notes = array_merge(...array_map(static fn (string $file) => json_decode(file_get_contents($file)), glob("$folder/notes.*")));
        $order = array_map(intval(...), file("$folder/order"));
        self::assertCount(self::PROCESSES * self::ACQUISITIONS, $notes);
        self::assertCount(count($notes), array_unique($order), 'no two are equal');
        self::assertEqualsCanonicalizing($order, array_column($notes, 0));

        $kinds = array_count_values(array_column($notes, 3));
        self::assertGreaterThan(100, $kinds['left to its ttl']);
        self::assertGreaterThan(500, $kinds['bare']);
        self::assertGreaterThan(1_000, $server->commandCounts()['publish'], 'offers from the queue');

        $held = array_filter($notes, static fn (array $note) => $note[4]);
        self::assertGreaterThan(0.98 * count($notes), count($held));
        self::assertGrowing(array_values(array_intersect($order, array_column($held, 0))));

        // And of all, also of those whose lease was over at once: who asked when another had got it got a greater one.
        usort($notes, static fn (array $a, array $b) => $a[1] <=> $b[1]);
        $had = $notes;
        usort($had, static fn (array $a, array $b) => $a[2] <=> $b[2]);
        [$next, $greatest] = [0, 0];
        foreach ($notes as [$fence, $before]) {
            for (; $had[$next][2] < $before; $next++) {
                $greatest = max($greatest, $had[$next][0]);
            }
            self::assertGreaterThan($greatest, $fence);
        }
    }

    /** @param list<int> $numbers */
    private static function assertGrowing(array $numbers): void
    {
        for ($i = 1; $i < count($numbers); $i++) {
            self::assertGreaterThan($numbers[$i - 1], $numbers[$i], "number $i");
        }
    }
}
