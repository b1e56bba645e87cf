--TEST--
valgrind: waits in the queue read and write no memory that is not their own
--DESCRIPTION--
A waiter is told, waits in vain, in a handler, in a fiber, and while its connection is closed; it forks, and drops a lock
that is listened for. It ends in two ways, by a fatal error in a handler and by exit() there.
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
// The partner has all locks when it has this one.
$last = new RedisLock('at the end', ttl: 300);
while ($last->getHolder() === null) {
    usleep(1000);
}
pcntl_async_signals(true);
$done = [];
function waited(string $key): RedisLock
{
    $lock = new RedisLock($key, ttl: 300);
    $GLOBALS['done'][] = $lock->acquire(wait: 60);

    return $lock;
}

// Told twice, the second time with what is kept of the first.
$told = waited('told');
$done[] = $told->release();
while ($told->getHolder() === null) {
    usleep(1000);
}
$done[] = $told->acquire(wait: 60);
$done[] = $told->release();

$held = new RedisLock('held', ttl: 300);
$done[] = !$held->acquire(wait: 0.3);
try {
    $held->synchronized(fn () => print('called'), wait: 0.3);
} catch (RedisLock\LockTimeoutException $e) {
    $done[] = str_contains($e->getMessage(), 'held');
}

pcntl_signal(SIGUSR1, function () use (&$told, &$done) {
    $done[] = waited('inner')->release();
    $told = null;
    if (($pid = pcntl_fork()) === 0) {
        exit((new RedisLock('held'))->acquire(wait: 0.1) ? 1 : 0);
    }
    pcntl_waitpid($pid, $status);
    $done[] = $status === 0;
});
$done[] = waited('outer')->release();
$done[] = waited('killed')->release();

pcntl_signal(SIGUSR1, fn () => throw new DomainException('stop'));
try {
    waited('thrown');
} catch (DomainException) {
    $done[] = true;
}

$fiber = new Fiber(fn () => (new RedisLock('in a fiber', ttl: 300))->synchronized(Fiber::suspend(...), wait: 60));
$fiber->start();
echo count($done), ' steps', array_unique($done) === [true] ? "\n" : json_encode($done);
pcntl_signal(SIGUSR1, function () use ($argv) {
    if ($argv[1] === 'error') {
        trigger_error('the end', E_USER_ERROR);
    }
    exit('the end');
});
$last->synchronized(fn () => print('called'), wait: 60);
PHP);

$partner = fn (string $end, int $pid) => function () use ($end, $pid) {
    $until = fn (callable $condition) => eventually($condition, 60.0) || throw new RuntimeException('It took too long.');
    $waits = fn (string $key) => $until(fn () => in_array($pid, queued($end . $key), true));
    $left = fn (string $key) => $until(fn () => !in_array($pid, queued($end . $key), true));
    foreach (['told', 'held', 'outer', 'inner', 'killed', 'thrown', 'in a fiber', 'at the end'] as $key) {
        $locks[$key] = new RedisLock($end . $key, ttl: 300);
        $locks[$key]->acquire() || throw new RuntimeException("$key is busy.");
    }
    $waits('told');
    $locks['told']->release();
    $locks['told']->acquire(wait: 60);
    $waits('told');
    $locks['told']->release();

    $waits('outer');
    posix_kill($pid, SIGUSR1);
    $waits('inner');
    $locks['outer']->release();
    $locks['inner']->release();

    $listening = fn () => preg_grep("/^{$end}killed/", channels()) !== [];
    $waits('killed');
    $until($listening);
    server()->command('CLIENT', 'KILL', 'TYPE', 'pubsub');
    $until($listening);
    $locks['killed']->release();

    foreach (['thrown', 'at the end'] as $key) {
        if ($key === 'at the end') {
            $waits('in a fiber');
            $locks['in a fiber']->release();
        }
        $waits($key);
        posix_kill($pid, SIGUSR1);
        $left($key);
        $locks[$key]->release();
    }

    return 'well';
};
foreach (['error', 'exit'] as $end) {
    $run = new Valgrind($script, $end);
    $runs[] = [$run, Fork::run($partner($end, $run->pid))];
}
foreach ($runs as [$run, $fork]) {
    same('the partner ended', 'well', $fork->wait());
    $run->finish('/^\d+ steps\n.*the end/s');
}
check('nothing is left', eventually(fn () => left() === []), left());
?>
--EXPECT--
the partner ended: yes
error: the script did all its steps: yes
  valgrind was there to the end: yes
  no error has the extension in its stack: yes
the partner ended: yes
exit: the script did all its steps: yes
  valgrind was there to the end: yes
  no error has the extension in its stack: yes
nothing is left: yes
