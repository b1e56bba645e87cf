--TEST--
Time limit: it ends a wait
--DESCRIPTION--
The engine's limit sets a flag that the engine looks at between opcodes; in a wait there are none. The time limit
counts CPU time, which a wait does not use, so its signal is sent here.
--SKIPIF--
<?php
if (PHP_ZTS) {
    die('skip the time limit has another signal there');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
foreach ([
    'acquire()' => '$lock->acquire(wait: 30);',
    'synchronized()' => '$lock->synchronized(fn () => print("called\n"), wait: 30);',
    'within synchronized()' => '(new RedisLock("other key", ttl: 300))->synchronized(fn () => $lock->acquire(wait: 30));',
] as $where => $code) {
    occupy('invoice');
    $child = script('
        set_time_limit(60);
        $lock = new RedisLock("invoice", ttl: 300);
        echo getmypid(), "\n";
        fgets(STDIN);
    ' . $code . '
        echo "it went on\n";
    ');
    $pid = (int) $child->readLine();
    $child->writeLine('go');
    usleep(200_000);
    posix_kill($pid, SIGPROF);
    $took = seconds(function () use ($child, &$status) {
        $status = $child->wait();
    });
    same("$where: it ends as by the time limit", 255, $status);
    check('  at once', $took < 3.0, $took);
    check('  and says so', preg_match('/^\d+\n.*Maximum execution time of 60 seconds exceeded in .*$/s', $child->output()) === 1
        && !str_contains($child->output(), 'it went on'), $child->output());
    same('  only the other one is left', ['invoice'], keys());
    server()->flush();
    usleep(300_000);
    same('  nobody comes late', [], keys());
}
?>
--EXPECT--
acquire(): it ends as by the time limit: yes
  at once: yes
  and says so: yes
  only the other one is left: yes
  nobody comes late: yes
synchronized(): it ends as by the time limit: yes
  at once: yes
  and says so: yes
  only the other one is left: yes
  nobody comes late: yes
within synchronized(): it ends as by the time limit: yes
  at once: yes
  and says so: yes
  only the other one is left: yes
  nobody comes late: yes
