--TEST--
php-fpm: a lock that is used in a preloaded script does not tie the workers to one connection
--DESCRIPTION--
Preloading runs PHP code in the master, before it forks its workers: what connects there is inherited by them all.
--SKIPIF--
<?php
require __DIR__ . '/fpm.inc';
if (fpmBinary() === null) {
    die('skip there is no php-fpm of this version');
}
if (!function_exists('opcache_get_status')) {
    die('skip there is no opcache');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';
require __DIR__ . '/fpm.inc';

$log = server()->folder . '/preload.log';
$preload = server()->folder . '/preload.php';
file_put_contents($preload, <<<PHP
<?php
\$lock = new RedisLock('preload', ttl: 300);
file_put_contents('$log', json_encode([\$lock->acquire(), \$lock->release(), \$lock->acquire()]) . getmypid() . "\n", FILE_APPEND);
PHP);
$fpm = new Fpm(3, ['redis_lock.servers' => server()->unix()], [
    'opcache.enable' => 1,
    'opcache.preload' => $preload,
    'opcache.preload_user' => 'root',
    'redis_lock.servers' => server()->unix(),
]);
check('the script was preloaded', preg_match('/^\[true,true,true\]\d+\n$/D', @file_get_contents($log)) === 1, @file_get_contents($log));
check('its lock is free', keys() === [], keys());

$script = $fpm->script('
    $lock = new RedisLock("worker " . getmypid());
    for ($i = 0; $i < 20; $i++) {
        if (!$lock->acquire() || $lock->getHolder()["pid"] !== getmypid() || !$lock->release()) {
            die("replies are mixed");
        }
    }
    echo getmypid();
');
$workers = array_unique($fpm->requests($script, times: 300, atOnce: 6));
check('the workers answer well', count($workers) === 3 && !in_array('replies are mixed', $workers, true), $workers);
$clients = array_filter(server()->clients(), fn (array $client) => $client['cmd'] !== 'NULL');
check('each has its own connection', count($clients) - 3 <= 1 && count($clients) >= 3, $clients);
?>
--EXPECT--
the script was preloaded: yes
its lock is free: yes
the workers answer well: yes
each has its own connection: yes
