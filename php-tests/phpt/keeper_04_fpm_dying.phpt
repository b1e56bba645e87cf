--TEST--
Keeper: requests of php-fpm that die in the middle of their renewed locks
--DESCRIPTION--
The engine jumps out of native code then. What is renewed must end with the request all the same, and the thread must not
notice.
--SKIPIF--
<?php
require __DIR__ . '/fpm.inc';
if (fpmBinary() === null) {
    die('skip there is no php-fpm of this version');
}
?>
--FILE--
<?php
require __DIR__ . '/keeper.inc';
require __DIR__ . '/fpm.inc';

$fpm = new Fpm(1, ['redis_lock.servers' => server()->unix(), 'redis_lock.renew' => 1, 'redis_lock.ttl' => 0.6, 'memory_limit' => '16M']);
$worker = (int) $fpm->requests($fpm->script('$lock = new RedisLock("key"); $lock->acquire(); echo getmypid();'))[0];
$thread = keepers($worker);
$loop = 'for ($until = microtime(true) + 0.3; microtime(true) < $until; ) {}';
foreach ([
    'plain end' => ['', ''],
    'exit()' => ['exit(1);', ''],
    'uncaught exception' => ['throw new DomainException("of the callable");', 'Uncaught DomainException: of the callable'],
    'memory limit' => ['str_repeat("x", 1 << 26);', 'Allowed memory size'],
    'error' => ['trigger_error("of the callable", E_USER_ERROR);', 'Fatal error: of the callable'],
    'lost' => ['(new RedisLock("key"))->forceRelease(); for (;;) {}', 'Uncaught RedisLock\LockLostException: The lock "key" was lost'],
    'lost, and memory limit on the way out' => [
        'try { (new RedisLock("key"))->forceRelease(); for (;;) {} } finally { str_repeat("x", 1 << 26); }',
        'Allowed memory size',
    ],
] as $how => [$end, $says]) {
    $ways = [
        'synchronized()' => "(new RedisLock('key', interrupt: true))->synchronized(function () { $loop $end });",
        'two of them, in a fiber' => "(new Fiber(fn () => (new RedisLock('outer', interrupt: true))->synchronized(
            fn () => (new RedisLock('key', interrupt: true))->synchronized(function () { $loop $end })
        )))->start();",
        'acquire(), in a static property' => "class Box { public static \$lock; }
            Box::\$lock = new RedisLock('key', interrupt: true);
            Box::\$lock->acquire();
            $loop $end",
    ];
    if (str_starts_with($how, 'lost')) {
        // Nothing is thrown without synchronized().
        unset($ways['acquire(), in a static property']);
    }
    foreach ($ways as $where => $code) {
        [$answer] = $fpm->requests($fpm->script($code));
        check("$where, $how", $says === '' ? $answer === '' : str_contains($answer, $says), $answer);
        same('  is free, nothing is renewed any more', ['{"kept":0}', []], [
            $fpm->requests($fpm->script('echo json_encode(array_intersect_key(RedisLock::stats(), ["kept" => 0]));'))[0], keys(),
        ]);
        server()->flush();
    }
}
same('all in one worker, with one thread', [$thread, 1], [keepers($worker), count($thread)]);
$stats = json_decode($fpm->requests($fpm->script('echo json_encode(RedisLock::stats());'))[0], true);
check('which renewed, and lost what was lost', $stats['renewals'] >= 10 && $stats['lost'] === 4 && $stats['interrupts'] === 4, $stats);
?>
--EXPECT--
synchronized(), plain end: yes
  is free, nothing is renewed any more: yes
two of them, in a fiber, plain end: yes
  is free, nothing is renewed any more: yes
acquire(), in a static property, plain end: yes
  is free, nothing is renewed any more: yes
synchronized(), exit(): yes
  is free, nothing is renewed any more: yes
two of them, in a fiber, exit(): yes
  is free, nothing is renewed any more: yes
acquire(), in a static property, exit(): yes
  is free, nothing is renewed any more: yes
synchronized(), uncaught exception: yes
  is free, nothing is renewed any more: yes
two of them, in a fiber, uncaught exception: yes
  is free, nothing is renewed any more: yes
acquire(), in a static property, uncaught exception: yes
  is free, nothing is renewed any more: yes
synchronized(), memory limit: yes
  is free, nothing is renewed any more: yes
two of them, in a fiber, memory limit: yes
  is free, nothing is renewed any more: yes
acquire(), in a static property, memory limit: yes
  is free, nothing is renewed any more: yes
synchronized(), error: yes
  is free, nothing is renewed any more: yes
two of them, in a fiber, error: yes
  is free, nothing is renewed any more: yes
acquire(), in a static property, error: yes
  is free, nothing is renewed any more: yes
synchronized(), lost: yes
  is free, nothing is renewed any more: yes
two of them, in a fiber, lost: yes
  is free, nothing is renewed any more: yes
synchronized(), lost, and memory limit on the way out: yes
  is free, nothing is renewed any more: yes
two of them, in a fiber, lost, and memory limit on the way out: yes
  is free, nothing is renewed any more: yes
all in one worker, with one thread: yes
which renewed, and lost what was lost: yes
