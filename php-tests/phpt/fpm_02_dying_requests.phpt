--TEST--
php-fpm: a request that dies frees its locks at its end, and its worker serves the next one
--DESCRIPTION--
The process lives on: what a request leaves behind would stay until the ttl ends.
--SKIPIF--
<?php
require __DIR__ . '/fpm.inc';
if (fpmBinary() === null) {
    die('skip there is no php-fpm of this version');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';
require __DIR__ . '/fpm.inc';

$fpm = new Fpm(1, ['redis_lock.servers' => server()->unix(), 'redis_lock.ttl' => 300, 'memory_limit' => '16M']);
$before = server()->info('total_connections_received');
$held = "\$held = (new RedisLock('key'))->getHolder()['pid'] === getmypid() ? 'held' : 'not held'; echo \$held;";
$pids = [];
foreach ([
    'plain end' => ['', 'held'],
    'exit()' => ['exit(1);', 'held'],
    'uncaught exception' => ['throw new DomainException("of the callable");', 'Uncaught DomainException: of the callable'],
    'memory limit' => ['str_repeat("x", 1 << 26);', 'Allowed memory size'],
    'error' => ['trigger_error("of the callable", E_USER_ERROR);', 'Fatal error: of the callable'],
    'answer sent early' => ['fastcgi_finish_request(); usleep(200000); str_repeat("x", 1 << 26);', 'held'],
] as $how => [$end, $says]) {
    foreach ([
        'synchronized()' => "(new RedisLock('key'))->synchronized(function () { $held $end });",
        'acquire()' => "\$lock = new RedisLock('key'); \$lock->acquire(); $held $end",
        'acquire(), in a static property' =>
            "class Box { public static \$lock; } Box::\$lock = new RedisLock('key'); Box::\$lock->acquire(); $held $end",
    ] as $where => $code) {
        [$answer] = $fpm->requests($fpm->script($code));
        check("$where, $how", str_contains($answer, $says) && !str_contains($answer, 'not held'), $answer);
        // An early answer says nothing about the end, but the next request comes after it.
        [$next] = $how === 'answer sent early' ? $fpm->requests($fpm->script('echo "after it";')) : ['after it'];
        same('  is free', ['after it', []], [$next, keys()]);
        server()->flush();
    }
}

[$answer] = $fpm->requests($fpm->script('
    ini_set("redis_lock.prefix", "changed:");
    echo (new RedisLock("key"))->synchronized(fn () => ini_get("redis_lock.prefix"));
'));
same('a setting that a request changes', 'changed:', $answer);
same('  is the old one in the next', [''], $fpm->requests($fpm->script('echo ini_get("redis_lock.prefix");')));
same('one connection was enough for all that', 1, server()->info('total_connections_received') - $before);
?>
--EXPECT--
synchronized(), plain end: yes
  is free: yes
acquire(), plain end: yes
  is free: yes
acquire(), in a static property, plain end: yes
  is free: yes
synchronized(), exit(): yes
  is free: yes
acquire(), exit(): yes
  is free: yes
acquire(), in a static property, exit(): yes
  is free: yes
synchronized(), uncaught exception: yes
  is free: yes
acquire(), uncaught exception: yes
  is free: yes
acquire(), in a static property, uncaught exception: yes
  is free: yes
synchronized(), memory limit: yes
  is free: yes
acquire(), memory limit: yes
  is free: yes
acquire(), in a static property, memory limit: yes
  is free: yes
synchronized(), error: yes
  is free: yes
acquire(), error: yes
  is free: yes
acquire(), in a static property, error: yes
  is free: yes
synchronized(), answer sent early: yes
  is free: yes
acquire(), answer sent early: yes
  is free: yes
acquire(), in a static property, answer sent early: yes
  is free: yes
a setting that a request changes: yes
  is the old one in the next: yes
one connection was enough for all that: yes
