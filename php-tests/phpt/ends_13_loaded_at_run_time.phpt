--TEST--
A module that dl() loads ends with its request: its thread, its settings and its hook with it
--DESCRIPTION--
The engine unregisters the settings of such a module itself only if the module has nothing to do at its end. What a request
left behind shows in the next one of its process. PHP's own server handles requests one after the other in one process, but
has no dl(): a few lines of C give it the one of the command line.
--SKIPIF--
<?php
if (PHP_ZTS) {
    die('skip dl() is for builds without threads');
}
$config = getenv('PHP_CONFIG') ?: 'php-config';
if (trim((string) shell_exec("command -v cc >/dev/null && $config --version 2>/dev/null")) !== PHP_VERSION) {
    die('skip it takes a C compiler and the headers of this PHP');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';

use RedisLock\Tests\Support\Cleanup;
use RedisLock\Tests\Support\RedisServer;

// As this process has loaded it.
preg_match('~ (/\S*redis_lock\S*\.so)$~m', file_get_contents('/proc/self/maps'), $found);
$extension = $found[1] ?? '';
check('the extension is found', is_file($extension), $extension);
$php = [PHP_BINARY, '-n', '-d', 'extension_dir=' . dirname($extension), '-d', 'enable_dl=1'];
$load = 'dl(' . var_export(basename($extension), true) . ');';
$script = $load . '
    $lock = new RedisLock("key", ttl: 5, renew: true, interrupt: true, servers: "memory://");
    $lock->synchronized(function () { for ($i = 0; $i < 1000; $i++); });
    $lock->acquire();
    echo count(glob("/proc/self/task/*")), " threads";';
foreach (range(1, 8) as $time) {
    exec(implode(' ', array_map('escapeshellarg', [...$php, '-r', $script])) . ' 2>&1', $output, $code);
    $ends[$code . ' ' . implode("\n", $output)] = true;
    $output = [];
}
check('it ends well each time', array_keys($ends) === ['0 2 threads'], array_keys($ends));

$folder = Cleanup::folder();
file_put_contents("$folder/dl.c", <<<'C'
    #include <php.h>

    PHP_FUNCTION(dl);
    PHP_FUNCTION(hook)
    {
        RETURN_LONG((zend_long) zend_interrupt_function);
    }
    ZEND_BEGIN_ARG_INFO_EX(one, 0, 0, 1)
        ZEND_ARG_INFO(0, file)
    ZEND_END_ARG_INFO()
    ZEND_BEGIN_ARG_INFO_EX(none, 0, 0, 0)
    ZEND_END_ARG_INFO()
    static const zend_function_entry functions[] = {PHP_FE(dl, one) PHP_FE(hook, none) PHP_FE_END};
    zend_module_entry dl_module_entry = {STANDARD_MODULE_HEADER, "dl", functions, NULL, NULL, NULL, NULL, NULL, "1",
        STANDARD_MODULE_PROPERTIES};
    ZEND_GET_MODULE(dl)
    C);
$config = getenv('PHP_CONFIG') ?: 'php-config';
echo shell_exec("cc -shared -fPIC -o $folder/dl.so $folder/dl.c \$($config --includes) 2>&1");
file_put_contents("$folder/request.php", '<?php
    $before = hook();
    if ($_GET["load"]) {
        ' . $load . '
        $lock = new RedisLock("key", ttl: 5, renew: $_GET["load"] === "renew", interrupt: true, servers: "memory://");
        $value = $lock->synchronized(fn () => "worked");
    }
    pcntl_async_signals(true);
    pcntl_signal(SIGUSR1, function () use (&$handled) {
        $handled++;
    });
    // Each is handled in the loop, by the function that the engine calls when it is interrupted.
    for ($i = $handled = 0; $i < 10; $i++) {
        exec("kill -USR1 " . getmypid());
    }
    echo json_encode([
        "value" => $value ?? null,
        "handled" => $handled,
        "class" => class_exists("RedisLock"),
        "ttl" => ini_get("redis_lock.ttl"),
        "threads" => count(glob("/proc/self/task/*")),
        "hook is another" => hook() !== $before,
        "hook before" => $before,
        "process" => getmypid(),
    ]);');
$address = '127.0.0.1:' . RedisServer::freePort();
$null = ['file', '/dev/null', 'r+'];
$server = proc_open([...$php, '-d', "extension=$folder/dl.so", '-S', $address, '-t', $folder], [$null, $null, $null], $pipes);
Cleanup::add(fn () => proc_terminate($server, SIGKILL));
eventually(fn () => @stream_socket_client("tcp://$address") !== false) || throw new RuntimeException('There is no server.');
$request = fn (string $load) => json_decode((string) @file_get_contents("http://$address/request.php?load=$load"), true);

$first = $request('');
same('a process without it', [null, 10, false, false, 1, false], array_slice(array_values($first ?? []), 0, 6));
foreach (['plain', 'renew'] as $load) {
    $expected = ['worked', 10, true, '30', 2, true, $first['hook before'], $first['process']];
    same('a request that loads it', $expected, array_values($request($load) ?? []));
    same('the next one is as if it never had been', $first, $request(''));
}
?>
--EXPECT--
the extension is found: yes
it ends well each time: yes
a process without it: yes
a request that loads it: yes
the next one is as if it never had been: yes
a request that loads it: yes
the next one is as if it never had been: yes
