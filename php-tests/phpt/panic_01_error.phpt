--TEST--
Panic: what fails inside the native code is an \Error, prints nothing, and the object works on
--DESCRIPTION--
No input is known to make the extension panic, so the test breaks its ground: in a copy of the built file, the system's
clock is replaced by one that fails on demand, which Rust's standard library takes for impossible.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

$folder = sys_get_temp_dir() . '/redis_lock_panic.' . getmypid();
mkdir($folder);
register_shutdown_function(static function () use ($folder): void {
    array_map('unlink', glob("$folder/*"));
    rmdir($folder);
});

// PHP loads an extension so that nothing can be put before the C library; a function of another name it has to look for.
preg_match('~/\S*libredis_lock\.so~', file_get_contents('/proc/self/maps'), $extension);
$binary = str_replace("\0clock_gettime\0", "\0clock_gettimX\0", file_get_contents($extension[0]), $count);
check('the clock is replaced', $count > 0);
file_put_contents("$folder/extension.so", $binary);
file_put_contents("$folder/extension.ini", "extension=$folder/extension.so");
file_put_contents("$folder/clock.c", <<<'C'
    #include <errno.h>
    #include <stdlib.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>

    int clock_gettimX(clockid_t id, struct timespec *time) {
        if (id == CLOCK_REALTIME && getenv("BROKEN_CLOCK")) {
            errno = EINVAL;
            return -1;
        }
        return (int) syscall(SYS_clock_gettime, id, time);
    }
    C);
exec("cc -shared -fPIC -o $folder/clock.so $folder/clock.c 2>&1", $said, $failed);
same('the library is built', 0, $failed ? $said : 0);

file_put_contents("$folder/script.php", <<<'PHP'
    <?php
    $lock = new RedisLock('key', servers: 'memory://');
    putenv('BROKEN_CLOCK=1');
    try {
        $lock->acquire();
        echo "nothing was thrown\n";
    } catch (\Error $error) {
        echo $error::class, str_starts_with($error->getMessage(), 'Rust panic: ') ? " of a panic" : " $error", ' in line ', $error->getLine(), "\n";
    }
    putenv('BROKEN_CLOCK');
    echo json_encode([$lock->isAcquired(), $lock->acquire(), $lock->synchronized(...) !== null, $lock->release()]), "\n";
    PHP);
$process = proc_open(
    [PHP_BINARY, "$folder/script.php"],
    [1 => ['pipe', 'w'], 2 => ['file', "$folder/stderr", 'w']],
    $pipes,
    null,
    ['LD_PRELOAD' => "$folder/clock.so", 'PHP_INI_SCAN_DIR' => ":$folder"] + getenv(),
);
echo stream_get_contents($pipes[1]);
same('the process ends well', 0, proc_close($process));
?>
--EXPECT--
the clock is replaced: yes
the library is built: yes
Error of a panic in line 5
[false,true,true,true]
the process ends well: yes
