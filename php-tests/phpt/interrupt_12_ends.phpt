--TEST--
Interrupt: scripts that end in a callable whose lock is lost, or by the exception itself
--DESCRIPTION--
The exit code is the script's own, the locks are free, and what runs at the end of the script is not interrupted.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

server();
$end = function (string $code, array $ini = []): array {
    $child = script('
        require ' . var_export(__DIR__ . '/interrupt.inc', true) . ';
        register_shutdown_function(function () {
            spin(0.15);
            echo "[shutdown functions are run, ", RedisLock::stats()["interrupts"], " thrown]";
        });
        $kept = new RedisLock("kept", ttl: 60, renew: true);
        $kept->acquire();
    ' . $code, $ini);
    $status = $child->wait();
    $left = left();
    server()->flush();

    return [$status, $left, $child->output()];
};
$thrown = 'Uncaught RedisLock\LockLostException: The lock "key" was lost before its holder had finished';

[$status, $left, $output] = $end('doomed()->synchronized(fn () => spin(10)); echo "[it went on]";');
same('nobody catches it', [255, []], [$status, $left]);
check('  the message', str_contains($output, $thrown) && !str_contains($output, '[it went on]'), $output);
check('  then the end as ever', str_ends_with(rtrim($output), '[shutdown functions are run, 1 thrown]'), $output);

// An exit is no exception; the loss that comes with it is no reason for another exit code.
foreach ([
    'exit before the loss' => ['exit(3);', 0],
    'exit in a finally, after the loss' => ['try { spin(0.01); } finally { outlast($lock); exit(3); }', 0],
    'exit by who catches it' => ['try { spin(10); } catch (RedisLock\LockLostException) { exit(3); }', 1],
    'exit in the finally it passes' => ['try { spin(10); } finally { exit(3); }', 1],
    'exit in a handler, after the loss' => ['
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, fn () => exit(3));
        try { spin(0.01); } finally { outlast($lock); posix_kill(getmypid(), SIGUSR1); spin(1); }
    ', 0],
] as $how => [$code, $count]) {
    [$status, $left, $output] = $end("\$lock = doomed(); \$lock->synchronized(function () use (\$lock) { $code }); echo '[it went on]';");
    same($how, [3, []], [$status, $left]);
    check('  says nothing else', !str_contains($output, 'Uncaught') && !str_contains($output, '[it went on]')
        && str_ends_with(rtrim($output), "[shutdown functions are run, $count thrown]"), $output);
}

foreach ([
    'memory limit' => ['str_repeat("x", 1 << 26);', 'Allowed memory size'],
    'fatal error' => ['trigger_error("of the callable", E_USER_ERROR);', 'Fatal error: of the callable'],
    'time limit' => ['set_time_limit(60); posix_kill(getmypid(), SIGPROF); spin(1);', 'Maximum execution time of 60 seconds exceeded'],
] as $how => [$code, $says]) {
    if (PHP_ZTS && $how === 'time limit') {
        // It has another signal there.
        [$code, $says] = ['set_time_limit(1); spin(10);', 'Maximum execution time of 1 second exceeded'];
    }
    [$status, $left, $output] = $end("
        \$lock = doomed();
        \$lock->synchronized(function () use (\$lock) { try { spin(0.01); } finally { outlast(\$lock); $code } });
    ");
    same("$how after the loss", [255, []], [$status, $left]);
    check('  and that is what it says', str_contains($output, $says) && !str_contains($output, 'Uncaught'), $output);
    check('  then the end as ever', str_ends_with(rtrim($output), '[shutdown functions are run, 0 thrown]'), $output);
}

// The callable's frames are there to the end of the script.
[$status, $left, $output] = $end('
    $lock = doomed();
    $fiber = new Fiber(fn () => $lock->synchronized(function () {
        try { Fiber::suspend(); } finally { echo "[cleaned up]"; }
    }));
    $fiber->start();
    outlast($lock);
    echo "[end]";
');
same('a fiber that is suspended in it', [0, []], [$status, $left]);
check('  is cleaned up', str_contains($output, '[end]') && str_contains($output, '[cleaned up]') && !str_contains($output, 'Uncaught'), $output);

// Shutdown functions are code like any other.
[$status, $left, $output] = $end('register_shutdown_function(function () {
    echo json_encode(run(doomed(), fn () => spin(10))[0]);
});');
same('in a shutdown function', [0, []], [$status, $left]);
check('  it is thrown as anywhere', str_contains($output, '"key was lost"'), $output);
?>
--EXPECT--
nobody catches it: yes
  the message: yes
  then the end as ever: yes
exit before the loss: yes
  says nothing else: yes
exit in a finally, after the loss: yes
  says nothing else: yes
exit by who catches it: yes
  says nothing else: yes
exit in the finally it passes: yes
  says nothing else: yes
exit in a handler, after the loss: yes
  says nothing else: yes
memory limit after the loss: yes
  and that is what it says: yes
  then the end as ever: yes
fatal error after the loss: yes
  and that is what it says: yes
  then the end as ever: yes
time limit after the loss: yes
  and that is what it says: yes
  then the end as ever: yes
a fiber that is suspended in it: yes
  is cleaned up: yes
in a shutdown function: yes
  it is thrown as anywhere: yes
