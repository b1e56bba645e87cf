--TEST--
Keeper: php-fpm whose master renewed a lock in a preloaded script
--DESCRIPTION--
Preloading runs PHP code in the master, which has a keeper before it forks its workers. They have none, and start their own.
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
use RedisLock\Tests\Support\PhpProcess;

require __DIR__ . '/keeper.inc';
require __DIR__ . '/fpm.inc';

$log = server()->folder . '/preload.log';
$preload = server()->folder . '/preload.php';
file_put_contents($preload, <<<PHP
<?php
\$lock = new RedisLock('preload', ttl: 0.3, renew: true, interrupt: true);
\$lock->synchronized(fn () => usleep(200_000));
\$lock->acquire();
file_put_contents('$log', json_encode(RedisLock::stats()['renewals'] > 0 && \$lock->isAcquired()) . "\n", FILE_APPEND);
PHP);
$fpm = new Fpm(2, ['redis_lock.servers' => server()->unix()], [
    'opcache.enable' => 1,
    'opcache.preload' => $preload,
    'opcache.preload_user' => 'root',
    'redis_lock.servers' => server()->unix(),
]);
check('the script was preloaded', str_contains(@file_get_contents($log), 'true'), @file_get_contents($log));
same('its lock is free', [], keys());
$script = $fpm->script('
    $lock = new RedisLock("worker " . getmypid(), ttl: 0.3, renew: true);
    echo $lock->synchronized(fn () => usleep(120_000) ?? RedisLock::stats()["renewals"] > 0) ? getmypid() : "not renewed";
');
$workers = array_unique($fpm->requests($script, times: 12, atOnce: 4));
check('both workers renew', count($workers) === 2 && !in_array('not renewed', $workers, true), $workers);
foreach ($workers as $worker) {
    same('with a thread of their own', ['redis_lock'], PhpProcess::threads((int) $worker));
}
same('nothing is left', [], keys());
?>
--EXPECT--
the script was preloaded: yes
its lock is free: yes
both workers renew: yes
with a thread of their own: yes
with a thread of their own: yes
nothing is left: yes
