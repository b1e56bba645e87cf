--TEST--
Wait: in a daemon that has closed its standard streams
--DESCRIPTION--
What it prints meanwhile must not get into the connections that have been opened since, be it as a request or as a
subscription to what it printed.
--SKIPIF--
<?php
if (!is_dir('/proc/self/fd')) {
    die('skip there is no /proc');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$holder = new RedisLock('invoice', ttl: 60);
foreach ([['STDIN'], ['STDOUT'], ['STDERR'], ['STDIN', 'STDOUT', 'STDERR']] as $streams) {
    $name = implode(', ', $streams);
    $file = server()->folder . '/' . md5($name);
    $close = implode('', array_map(fn (string $stream) => "fclose($stream);", $streams));
    $holder->acquire();
    $child = script("
        \$log = fopen('$file', 'w');
        $close
        ini_set('display_errors', 'stderr');
        ignore_user_abort(true);
        \$say = function () {
            echo \"SET printed yes\\r\\nSUBSCRIBE printed\\r\\n\";
            file_put_contents('php://stderr', \"SET printed yes\\r\\nSUBSCRIBE printed\\r\\n\");
            trigger_error(\"\\r\\nSUBSCRIBE printed\\r\\n\");
        };
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, function () use (\$say, \$log) {
            \$say();
            fwrite(\$log, 'said ');
        });
        \$lock = new RedisLock('invoice', ttl: 60);
        \$seen = [\$lock->acquire(wait: 30)];
        \$say();
        \$seen[] = \$lock->refresh();
        \$seen[] = \$lock->release();
        for (\$i = 0; \$i < 3; \$i++) {
            \$seen[] = str_starts_with((string) @readlink(\"/proc/self/fd/\$i\"), 'socket:');
        }
        fwrite(\$log, json_encode(\$seen));
    ");
    awaitQueued('invoice', $child->pid());
    $child->signal(SIGUSR1);
    check("$name closed: it prints in the wait", eventually(fn () => file_get_contents($file) === 'said '), file_get_contents($file));
    $queue = queued('invoice');
    same('  and goes on waiting', [[$child->pid()], 1], [$queue, count(channels())]);
    $holder->release();
    // Its exit code tells of the output that nobody took.
    $child->wait();
    same('  it gets the lock; no connection has a standard number', 'said [true,true,true,false,false,false]', file_get_contents($file));
    check('  nothing is left', eventually(fn () => left() === []), left());
    server()->flush();
}
?>
--EXPECT--
STDIN closed: it prints in the wait: yes
  and goes on waiting: yes
  it gets the lock; no connection has a standard number: yes
  nothing is left: yes
STDOUT closed: it prints in the wait: yes
  and goes on waiting: yes
  it gets the lock; no connection has a standard number: yes
  nothing is left: yes
STDERR closed: it prints in the wait: yes
  and goes on waiting: yes
  it gets the lock; no connection has a standard number: yes
  nothing is left: yes
STDIN, STDOUT, STDERR closed: it prints in the wait: yes
  and goes on waiting: yes
  it gets the lock; no connection has a standard number: yes
  nothing is left: yes
