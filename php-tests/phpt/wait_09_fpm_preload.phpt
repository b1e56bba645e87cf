--TEST--
Wait: in a preloaded script of php-fpm, before the workers are forked; each worker is told over its own connection
--DESCRIPTION--
What connects in the master, and what it listens to, is not its workers'.
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
\$sockets = fn () => array_filter(array_map(fn (\$file) => @readlink(\$file), glob('/proc/self/fd/*')), fn (\$link) => str_starts_with((string) \$link, 'socket:'));
\$before = \$sockets();
\$lock = new RedisLock('preload', ttl: 300);
\$got = \$lock->acquire(wait: 30);
file_put_contents('$log', json_encode([\$got, array_values(array_diff(\$sockets(), \$before))]));
PHP);
$partner = holdUntil('preload', fn () => queued('preload') !== []);
$fpm = new Fpm(3, ['redis_lock.servers' => server()->unix()], [
    'opcache.enable' => 1,
    'opcache.preload' => $preload,
    'opcache.preload_user' => 'root',
    'redis_lock.servers' => server()->unix(),
]);
[$got, $sockets] = json_decode(@file_get_contents($log) ?: '[null,null]');
same('the preloaded script got the lock by waiting', [true, true, 2], [$got, $partner->wait(), count($sockets)]);
check('nothing is left', eventually(fn () => left() === []), left());
$ofMaster = array_column(subscribers(), 'id');

// Each of the three workers waits, and is told.
$script = $fpm->script('
    $lock = new RedisLock("invoice", ttl: 300);
    echo $lock->acquire(wait: 30) ? "got it " : "busy ", getmypid();
    usleep(20000);
');
$holder = new RedisLock('invoice', ttl: 60);
$holder->acquire();
$answers = [$fpm->ask($script), $fpm->ask($script), $fpm->ask($script)];
check('all workers wait', eventually(fn () => count(queued('invoice')) === 3), queued('invoice'));
$workers = queued('invoice');
$listening = subscribers();
same('each is told over its own connection', 3, count(array_filter($listening, fn (array $client) => $client['sub'] === '1')));
same('none has one of its master', [], array_intersect($sockets, ...[array_merge(...array_map(sockets(...), $workers))]));
$holder->release();
$bodies = array_map(fn (Closure $answer) => $answer(), $answers);
sort($bodies);
sort($workers);
same('and gets the lock', array_map(fn (int $pid) => "got it $pid", $workers), $bodies);
check('nothing is left', eventually(fn () => left() === []), left());
?>
--EXPECT--
the preloaded script got the lock by waiting: yes
nothing is left: yes
all workers wait: yes
each is told over its own connection: yes
none has one of its master: yes
and gets the lock: yes
nothing is left: yes
