--TEST--
A module that dl() loads ends with its request: its thread, its settings and its hook with it
--DESCRIPTION--
The engine unregisters the settings of such a module itself only if the module has nothing to do at its end.
--SKIPIF--
<?php
if (PHP_ZTS) {
    die('skip dl() is for builds without threads');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';

// As this process has loaded it.
preg_match('~ (/\S*redis_lock\S*\.so)$~m', file_get_contents('/proc/self/maps'), $found);
$extension = $found[1] ?? '';
check('the extension is found', is_file($extension), $extension);
$script = 'dl(' . var_export(basename($extension), true) . ');
    $lock = new RedisLock("key", ttl: 5, renew: true, interrupt: true, servers: "memory://");
    $lock->synchronized(function () { for ($i = 0; $i < 1000; $i++); });
    $lock->acquire();
    echo count(glob("/proc/self/task/*")), " threads";';
foreach (range(1, 8) as $time) {
    $command = [PHP_BINARY, '-n', '-d', 'extension_dir=' . dirname($extension), '-d', 'enable_dl=1', '-r', $script];
    exec(implode(' ', array_map('escapeshellarg', $command)) . ' 2>&1', $output, $code);
    $ends[$code . ' ' . implode("\n", $output)] = true;
    $output = [];
}
check('it ends well each time', array_keys($ends) === ['0 2 threads'], array_keys($ends));
?>
--EXPECT--
the extension is found: yes
it ends well each time: yes
