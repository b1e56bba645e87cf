--TEST--
Daemon: what a script prints after it closed its standard streams does not get into Redis
--DESCRIPTION--
Daemons close their standard streams. The next file that is opened gets their numbers; PHP goes on writing its output
to number 1, and a connection that has it would take that for requests.
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
foreach (['STDIN', 'STDOUT', 'STDERR'] as $stream) {
    $file = server()->folder . "/$stream";
    $child = script("
        \$log = fopen('$file', 'w');
        fclose($stream);
        ini_set('display_errors', 'stderr');
        // Or PHP ends the script when it finds that nobody reads what it prints.
        ignore_user_abort(true);
        \$lock = new RedisLock('key', ttl: 300);
        \$seen[] = \$lock->acquire();
        echo \"SET printed yes\\r\\n\";
        file_put_contents('php://stderr', \"SET printed yes\\r\\n\");
        trigger_error(\"\\r\\nSET printed yes\\r\\n\");
        \$seen[] = \$lock->refresh();
        \$seen[] = \$lock->getHolder()['pid'] === getmypid();
        \$seen[] = \$lock->release();
        for (\$standard = [], \$i = 0; \$i < 3; \$i++) {
            \$standard[] = str_starts_with((string) @readlink(\"/proc/self/fd/\$i\"), 'socket:');
        }
        fwrite(\$log, json_encode([\$seen, \$standard]));
    ");
    // Its exit code tells of the output that nobody took.
    $child->wait();
    same(
        "$stream closed: the lock works, and no connection has a standard number",
        '[[true,true,true,true],[false,false,false]]',
        file_get_contents($file),
    );
    same('  nothing is in Redis', [], keys());
    server()->flush();
}
?>
--EXPECT--
STDIN closed: the lock works, and no connection has a standard number: yes
  nothing is in Redis: yes
STDOUT closed: the lock works, and no connection has a standard number: yes
  nothing is in Redis: yes
STDERR closed: the lock works, and no connection has a standard number: yes
  nothing is in Redis: yes
