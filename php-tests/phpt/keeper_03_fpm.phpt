--TEST--
Keeper: in php-fpm; one idle thread a worker, for all its requests
--DESCRIPTION--
Workers are forked after the extension has started, and live for many requests: leases end with the request, and the thread
lives on. Between requests it must cost nothing, and nothing of one request may be thrown into the next one.
--SKIPIF--
<?php
require __DIR__ . '/fpm.inc';
if (fpmBinary() === null) {
    die('skip there is no php-fpm of this version');
}
?>
--FILE--
<?php
use RedisLock\Tests\Support\PhpProcess;

require __DIR__ . '/keeper.inc';
require __DIR__ . '/fpm.inc';

$fpm = new Fpm(2, ['redis_lock.servers' => server()->unix(), 'redis_lock.renew' => 1]);
$pid = $fpm->script('echo getmypid();');
$workers = array_map(intval(...), array_values(array_unique($fpm->requests($pid, times: 20, atOnce: 4))));
$master = (int) $fpm->requests($fpm->script('echo posix_getppid();'))[0];
same('there is none before the first lock', [2, [], [], []], [count($workers), ...array_map(PhpProcess::threads(...), [$master, ...$workers])]);

$counter = "$fpm->folder/counter";
file_put_contents($counter, '0');
$answers = array_count_values($fpm->requests($fpm->script("
    \$left = new RedisLock('own ' . getmypid(), ttl: 0.3);
    \$left->acquire() || die('the worker\'s last request left its lock');
    (new RedisLock('counter', interrupt: true))->synchronized(function () {
        \$count = (int) file_get_contents('$counter');
        usleep(100);
        file_put_contents('$counter', \$count + 1);
    }, wait: 60);
    echo 'done';
"), times: 600, atOnce: 6));
same('600 requests lose no update', ['600', ['done' => 600]], [file_get_contents($counter), $answers]);
check('nothing is left', eventually(fn () => left() === []), left());
$keepers = array_map(keepers(...), $workers);
same('each worker has one thread, the master none', [['redis_lock'], ['redis_lock'], []], array_map(PhpProcess::threads(...), [...$workers, $master]));

// Longer than the ttl.
$answer = $fpm->ask($fpm->script('
    echo (new RedisLock("invoice", ttl: 0.6))->synchronized(fn () => usleep(1_000_000) ?? "done");
'));
eventually(fn () => holder('invoice') !== null);
for ($least = INF, $until = now() + 0.8; now() < $until; usleep(5_000)) {
    $least = min($least, server()->command('PTTL', 'invoice'));
}
same('a request that takes longer than its ttl', 'done', $answer());
check('  the key never fell under a third', $least > 200, $least);
same('  then it is free', [], keys());

// What is lost in a request stays there.
$next = $fpm->script('
    for ($until = microtime(true) + 0.3; microtime(true) < $until; ) {
    }
    echo json_encode(RedisLock::stats());
');
foreach ([
    'caught' => ['$lock->synchronized(function () { for (;;) {} });', ' was lost before its holder had finished'],
    'lost, but it ends before' => ['$lock->acquire(); usleep(150_000); echo "the end";', 'the end'],
    'exit() in finally' => ['$lock->synchronized(function () { try { usleep(1); } finally { usleep(150_000); exit("the end"); } });', 'the end'],
    'fatal error in finally' => ['$lock->synchronized(function () {
        try { usleep(1); } finally { usleep(150_000); trigger_error("the end", E_USER_ERROR); }
    });', 'the end'],
    'suspended in a fiber' => ['
        class Box { public static $fiber; }
        Box::$fiber = new Fiber(fn () => $lock->synchronized(Fiber::suspend(...)));
        Box::$fiber->start();
        usleep(150_000);
        echo "the end";
    ', 'the end'],
] as $how => [$code, $says]) {
    // All requests go to both workers.
    $bodies = $fpm->requests($fpm->script("\$lock = new RedisLock('key ' . getmypid(), ttl: 0.1, renew: false, interrupt: true); $code"), 6, 2);
    check("$how: in each request", array_filter($bodies, fn (string $body) => !str_contains($body, $says)) === [], $bodies);
    $bodies = $fpm->requests($next, 4, 2);
    check('  not in the next ones', array_filter($bodies, fn (string $body) => !str_contains($body, '"kept":0')) === [], $bodies);
    check('  nothing is left', eventually(fn () => left() === []), left());
}

same('it was the same thread all the time', $keepers, array_map(keepers(...), $workers));
// What it had planned before the last release may wake it once more.
usleep(500_000);
$before = array_map(activity(...), $workers, array_merge(...$keepers));
usleep(1_500_000);
$after = array_map(activity(...), $workers, array_merge(...$keepers));
check('it sleeps between requests', $after[0][0] - $before[0][0] <= 1 && $after[1][0] - $before[1][0] <= 1, [$before, $after]);
check('  and takes no time', $after[0][1] - $before[0][1] + $after[1][1] - $before[1][1] <= 1, [$before, $after]);

// A worker that ends when it has answered.
$worker = $workers[0];
posix_kill($worker, SIGQUIT);
check('a worker ends', eventually(fn () => !file_exists("/proc/$worker"), within: 5.0));
$log = "$fpm->folder/fpm.log";
check('  as it should', eventually(fn () => str_contains(file_get_contents($log), "child $worker exited with code 0")), file_get_contents($log));
$took = seconds($fpm->stop(...));
check('and so do all', $took < 5.0, $took);
?>
--EXPECT--
there is none before the first lock: yes
600 requests lose no update: yes
nothing is left: yes
each worker has one thread, the master none: yes
a request that takes longer than its ttl: yes
  the key never fell under a third: yes
  then it is free: yes
caught: in each request: yes
  not in the next ones: yes
  nothing is left: yes
lost, but it ends before: in each request: yes
  not in the next ones: yes
  nothing is left: yes
exit() in finally: in each request: yes
  not in the next ones: yes
  nothing is left: yes
fatal error in finally: in each request: yes
  not in the next ones: yes
  nothing is left: yes
suspended in a fiber: in each request: yes
  not in the next ones: yes
  nothing is left: yes
it was the same thread all the time: yes
it sleeps between requests: yes
  and takes no time: yes
a worker ends: yes
  as it should: yes
and so do all: yes
