--TEST--
valgrind: the extension reads and writes no memory that is not its own
--DESCRIPTION--
One script goes through construction, waits, failures, handlers, a child and restore; it ends in two ways, by a fatal
error in synchronized() and by one in a handler during a wait.
--SKIPIF--
<?php
require __DIR__ . '/valgrind.inc';
Valgrind::skip();
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';
require __DIR__ . '/valgrind.inc';

$script = server()->folder . '/script.php';
file_put_contents($script, <<<'PHP'
<?php
$lock = new RedisLock('key', ttl: 300);
$other = new RedisLock('key', ttl: 300);
$done = [$lock->acquire(), $other->acquire(), $other->acquire(wait: 0.05), $lock->refresh(300), $lock->getHolder()['pid'] === getmypid()];
foreach ([
    fn () => $lock->acquire(),
    fn () => $lock->acquire(wait: -1),
    fn () => new RedisLock(''),
    fn () => new RedisLock("\0\xff", ttl: NAN),
    fn () => new RedisLock('key', servers: 'nonsense'),
    fn () => (new RedisLock('key', servers: 'redis://127.0.0.1:1'))->acquire(),
    fn () => (new RedisLock('key', servers: 'redis://localhost:1'))->acquire(),
    fn () => (new RedisLock('key', servers: 'rediss://localhost:1'))->acquire(),
    fn () => $lock->__construct('key'),
    fn () => clone $lock,
    fn () => serialize($lock),
    fn () => (new ReflectionClass(RedisLock::class))->newInstanceWithoutConstructor()->acquire(),
    fn () => $other->synchronized(fn () => 1, wait: 0.02),
] as $failing) {
    try {
        $failing();
        $done[] = 'nothing thrown';
    } catch (Throwable $e) {
        $done[] = (string) $e !== '';
    }
}
$done[] = $lock->release();
$done[] = $lock->synchronized(fn () => str_repeat('value', 3)) === 'valuevaluevalue';
try {
    $lock->synchronized(fn () => throw new DomainException('of the callable'));
} catch (DomainException) {
}
try {
    $lock->synchronized(fn () => $other->forceRelease());
} catch (RedisLock\LockLostException $e) {
    $done[] = $e->getResult();
}

pcntl_async_signals(true);
pcntl_signal(SIGALRM, fn () => throw new DomainException('stop'));
$lock->acquire();
try {
    pcntl_alarm(1);
    $other->acquire(wait: 20);
} catch (DomainException) {
    $done[] = true;
}

if (($pid = pcntl_fork()) === 0) {
    $lock->release();
    (new RedisLock('of the child'))->acquire();
    exit(0);
}
pcntl_waitpid($pid, $status);
$done[] = $status === 0;

$token = $lock->getToken();
$restored = RedisLock::restore('key', $token, ttl: 300);
$done[] = $restored->refresh() && $restored->isAcquired() && $restored->getRemainingLifetime() > 0;
$restored->release();

$factory = new RedisLockFactory(prefix: 'factory of ' . $argv[1]);
$made = $factory->createLock('key', ttl: 300);
$done[] = $made->acquire();
$memory = new RedisLock('key', servers: 'memory://');
$done[] = $memory->synchronized(fn () => $memory->isAcquired());

$fiber = new Fiber(fn () => (new RedisLock('of the fiber'))->synchronized(Fiber::suspend(...)));
$fiber->start();
echo count($done), ' steps', array_filter($done, fn ($step) => $step !== true) === [1 => false, 2 => false] ? "\n" : json_encode($done);
$last = new RedisLock('at the end', ttl: 300);
if ($argv[1] === 'synchronized') {
    $last->synchronized(fn () => trigger_error('the end', E_USER_ERROR));
}
pcntl_signal(SIGALRM, fn () => trigger_error('the end', E_USER_ERROR));
pcntl_alarm(1);
$last->acquire();
(new RedisLock('at the end'))->acquire(wait: 60);
PHP);

$runs = [new Valgrind($script, 'synchronized'), new Valgrind($script, 'handler')];
foreach ($runs as $run) {
    $run->finish('/^\d+ steps\n.*Fatal error: the end/s');
}
same('nothing is left', [], keys());
?>
--EXPECT--
synchronized: the script did all its steps: yes
  valgrind was there to the end: yes
  no error has the extension in its stack: yes
handler: the script did all its steps: yes
  valgrind was there to the end: yes
  no error has the extension in its stack: yes
nothing is left: yes
