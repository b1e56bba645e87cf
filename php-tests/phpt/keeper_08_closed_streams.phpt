--TEST--
Keeper: in a daemon that has closed its standard streams
--DESCRIPTION--
What it prints must not get into the keeper's connection, nor wake it, and what it reads must not be the keeper's.
--SKIPIF--
<?php
if (!is_dir('/proc/self/fd')) {
    die('skip there is no /proc');
}
?>
--FILE--
<?php
require __DIR__ . '/keeper.inc';

server();
foreach ([['STDIN'], ['STDOUT'], ['STDERR'], ['STDIN', 'STDOUT', 'STDERR']] as $streams) {
    $name = implode(', ', $streams);
    $file = server()->folder . '/' . md5($name);
    $close = implode('', array_map(fn (string $stream) => "fclose($stream);", $streams));
    $child = script("
        \$log = fopen('$file', 'w');
        $close
        ini_set('display_errors', 'stderr');
        ignore_user_abort(true);
        \$lock = new RedisLock('key', ttl: 0.3, renew: true);
        \$seen = [\$lock->acquire()];
        for (\$until = microtime(true) + 0.7; microtime(true) < \$until; usleep(20_000)) {
            echo \"SET printed yes\\r\\n\";
            file_put_contents('php://stderr', \"SET printed yes\\r\\n\");
        }
        \$stats = RedisLock::stats();
        array_push(\$seen, \$stats['renewals'] > 2, \$stats['renewalErrors'], \$stats['lost'], \$lock->release());
        for (\$i = 0; \$i < 3; \$i++) {
            \$seen[] = str_starts_with((string) @readlink(\"/proc/self/fd/\$i\"), 'socket:');
        }
        fwrite(\$log, json_encode(\$seen));
    ");
    // Its exit code tells of the output that nobody took.
    $child->wait();
    same(
        "$name closed: it renews, and nothing of it has a standard number",
        '[true,true,0,0,true,false,false,false]',
        file_get_contents($file),
    );
    same('  nothing is in Redis', [], keys());
    server()->flush();
}
?>
--EXPECT--
STDIN closed: it renews, and nothing of it has a standard number: yes
  nothing is in Redis: yes
STDOUT closed: it renews, and nothing of it has a standard number: yes
  nothing is in Redis: yes
STDERR closed: it renews, and nothing of it has a standard number: yes
  nothing is in Redis: yes
STDIN, STDOUT, STDERR closed: it renews, and nothing of it has a standard number: yes
  nothing is in Redis: yes
