--TEST--
Wait: in php-fpm; a worker is told over one connection for all its requests, and nothing listens after a request
--DESCRIPTION--
The process lives on: a channel that a request leaves behind would stay for the worker's life, and with it the memory of
client and server.
--SKIPIF--
<?php
require __DIR__ . '/fpm.inc';
if (fpmBinary() === null) {
    die('skip there is no php-fpm of this version');
}
if (PHP_ZTS) {
    die('skip the time limit has another signal there');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';
require __DIR__ . '/fpm.inc';

$fpm = new Fpm(1, ['redis_lock.servers' => server()->unix(), 'redis_lock.ttl' => 300, 'memory_limit' => '16M']);
$holder = new RedisLock('invoice', ttl: 60);
$holder->acquire();
$holder->release();
$before = server()->info('total_connections_received');
[$worker] = $fpm->requests($fpm->script('echo getmypid();'));
$worker = (int) $worker;

$ways = [
    'acquire()' => '$lock = new RedisLock("invoice"); echo $lock->acquire(wait: 30) ? "got it" : "busy"; ',
    'in a static property' => 'class Box { public static $lock; }
        Box::$lock = new RedisLock("invoice");
        echo Box::$lock->acquire(wait: 30) ? "got it" : "busy"; ',
    'in a cycle, released' => '$box = new stdClass;
        $box->box = $box;
        $box->lock = new RedisLock("invoice");
        echo $box->lock->acquire(wait: 30) && $box->lock->release() ? "got it" : "busy";
        unset($box); ',
    'autoRelease off, released' => '$lock = new RedisLock("invoice", autoRelease: false);
        echo $lock->acquire(wait: 30) && $lock->release() ? "got it" : "busy"; ',
    'in the session handler' => '
        ini_set("session.use_cookies", 0);
        ini_set("session.cache_limiter", "");
        session_set_save_handler(new class implements SessionHandlerInterface {
            private $lock;
            function open($path, $name): bool { return true; }
            function close(): bool { return true; }
            function read($id): string|false { return ""; }
            function write($id, $data): bool { return ($this->lock = new RedisLock("invoice"))->acquire(wait: 30); }
            function destroy($id): bool { return true; }
            function gc($max): int|false { return 0; }
        }, false);
        session_start();
        $_SESSION["changed"] = true;
        echo "got it"; ',
];
$ends = [
    'plain end' => ['', 'got it'],
    'exit()' => ['exit(1);', 'got it'],
    'exception' => ['throw new DomainException("of the request");', 'Uncaught DomainException: of the request'],
    'memory limit' => ['str_repeat("x", 1 << 26);', 'Allowed memory size'],
    'error' => ['trigger_error("of the request", E_USER_ERROR);', 'Fatal error: of the request'],
];
$listeners = [];
foreach ($ways as $way => $code) {
    foreach ($ends as $end => [$finish, $says]) {
        $holder->acquire();
        $answer = $fpm->ask($fpm->script($code . $finish));
        awaitQueued('invoice', $worker);
        $listeners[] = array_column(subscribers(), 'id');
        $holder->release();
        $body = $answer();
        // What was printed before is thrown away when memory runs out.
        check("$way, $end", str_contains($body, $says) && !str_contains($body, 'busy'), $body);
        check('  nothing is left', eventually(fn () => left() === []), left());
        server()->flush();
    }
}

$holder->acquire();
$answer = $fpm->ask($fpm->script('
    $lock = new RedisLock("invoice");
    echo json_encode([$lock->acquire(wait: 0.1), $lock->acquire(wait: 0.1)]);
'));
same('two waits in vain', '[false,false]', $answer());
check('  nothing but the other one is left', eventually(fn () => left() === ['invoice']), left());

$answer = $fpm->ask($fpm->script('
    set_time_limit(60);
    $other = new RedisLock("other key");
    $other->synchronized(fn () => (new RedisLock("invoice"))->synchronized(fn () => print("called"), wait: 30));
'));
awaitQueued('invoice', $worker);
posix_kill($worker, SIGPROF);
$body = $answer();
check('the time limit in a wait', str_contains($body, 'Maximum execution time of 60 seconds exceeded'), $body);
check('  nothing but the other one is left', eventually(fn () => left() === ['invoice']), left());
$holder->release();

same('it was the same worker all the time', [(string) $worker], $fpm->requests($fpm->script('echo getmypid();')));
check('told over the same connection', count($listeners[0]) === 1 && array_unique($listeners, SORT_REGULAR) === [$listeners[0]], $listeners);
same('beside which it has one more', 2, server()->info('total_connections_received') - $before);
same('nothing is left', [], left());
?>
--EXPECT--
acquire(), plain end: yes
  nothing is left: yes
acquire(), exit(): yes
  nothing is left: yes
acquire(), exception: yes
  nothing is left: yes
acquire(), memory limit: yes
  nothing is left: yes
acquire(), error: yes
  nothing is left: yes
in a static property, plain end: yes
  nothing is left: yes
in a static property, exit(): yes
  nothing is left: yes
in a static property, exception: yes
  nothing is left: yes
in a static property, memory limit: yes
  nothing is left: yes
in a static property, error: yes
  nothing is left: yes
in a cycle, released, plain end: yes
  nothing is left: yes
in a cycle, released, exit(): yes
  nothing is left: yes
in a cycle, released, exception: yes
  nothing is left: yes
in a cycle, released, memory limit: yes
  nothing is left: yes
in a cycle, released, error: yes
  nothing is left: yes
autoRelease off, released, plain end: yes
  nothing is left: yes
autoRelease off, released, exit(): yes
  nothing is left: yes
autoRelease off, released, exception: yes
  nothing is left: yes
autoRelease off, released, memory limit: yes
  nothing is left: yes
autoRelease off, released, error: yes
  nothing is left: yes
in the session handler, plain end: yes
  nothing is left: yes
in the session handler, exit(): yes
  nothing is left: yes
in the session handler, exception: yes
  nothing is left: yes
in the session handler, memory limit: yes
  nothing is left: yes
in the session handler, error: yes
  nothing is left: yes
two waits in vain: yes
  nothing but the other one is left: yes
the time limit in a wait: yes
  nothing but the other one is left: yes
it was the same worker all the time: yes
told over the same connection: yes
beside which it has one more: yes
nothing is left: yes
