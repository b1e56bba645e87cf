<?php

namespace RedisLock\Tests\Support;

/**
 * Takes away what tests made (processes, folders) when this process ends, also when a test failed
 * or somebody pressed Ctrl-C.
 */
final class Cleanup
{
    /** @var array<int, \Closure> */
    private static array $tasks = [];
    private static int $owner = 0;

    /** @return int a number for forget() */
    public static function add(\Closure $task): int
    {
        if (self::$owner === 0) {
            self::$owner = getmypid();
            register_shutdown_function(self::run(...));
            pcntl_async_signals(true);
            foreach ([SIGINT, SIGTERM] as $signal) {
                pcntl_signal($signal, static fn () => exit(128 + $signal));
            }
        }
        self::$tasks[] = $task;

        return array_key_last(self::$tasks);
    }

    public static function forget(int $number): void
    {
        unset(self::$tasks[$number]);
    }

    /** Removes the folder with all that is in it. */
    public static function remove(string $path): void
    {
        if (is_dir($path) && !is_link($path)) {
            foreach (array_diff(scandir($path), ['.', '..']) as $name) {
                self::remove("$path/$name");
            }
            rmdir($path);
        } else {
            @unlink($path);
        }
    }

    /** A new folder, short enough a path for Unix sockets; it is gone when this process ends. */
    public static function folder(): string
    {
        $folder = sys_get_temp_dir() . '/redis-lock-' . bin2hex(random_bytes(4));
        mkdir($folder, 0700);
        self::add(static fn () => is_dir($folder) && self::remove($folder));

        return $folder;
    }

    private static function run(): void
    {
        // A forked child runs its parent's shutdown functions; what they would remove is not the child's.
        if (getmypid() === self::$owner) {
            // Last made, first removed: a server's folder goes after the server.
            foreach (array_reverse(self::$tasks) as $task) {
                $task();
            }
        }
    }
}
