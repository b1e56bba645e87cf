--TEST--
Time limit: in the middle of a command it leaves no key behind
--DESCRIPTION--
The fatal error is raised while the reply is awaited: the server may have granted what nobody will ever hold.
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
    'acquire()' => '$lock->acquire();',
    'synchronized()' => '$lock->synchronized(fn () => print("called\n"));',
    'release()' => '$lock->acquire(); echo "held\n"; fgets(STDIN); $lock->release();',
    'release() of synchronized()' => '$lock->synchronized(function () { echo "held\n"; fgets(STDIN); });',
    'refresh()' => '$lock->acquire(); echo "held\n"; fgets(STDIN); $lock->refresh();',
] as $where => $code) {
    $child = script('
        set_time_limit(60);
        $lock = new RedisLock("invoice", ttl: 300);
        $lock->acquire();
        $lock->release();
        echo getmypid(), "\n";
        fgets(STDIN);
    ' . $code . '
        echo "it went on\n";
    ', ['redis_lock.command_timeout' => 20]);
    $pid = (int) $child->readLine();
    if (str_contains($code, 'fgets')) {
        $child->writeLine('go');
        $child->readLine();
    }
    stopServer();
    $child->writeLine('go');
    usleep(200_000);
    posix_kill($pid, SIGPROF);
    usleep(300_000);
    server()->kill(SIGCONT);
    same("$where: it ends as by the time limit", 255, $child->wait());
    check('  and says so', str_contains($child->output(), 'Maximum execution time of 60 seconds exceeded')
        && !str_contains($child->output(), 'it went on'), $child->output());
    same('  nothing is left', [], keys());
    server()->flush();
}
?>
--EXPECT--
acquire(): it ends as by the time limit: yes
  and says so: yes
  nothing is left: yes
synchronized(): it ends as by the time limit: yes
  and says so: yes
  nothing is left: yes
release(): it ends as by the time limit: yes
  and says so: yes
  nothing is left: yes
release() of synchronized(): it ends as by the time limit: yes
  and says so: yes
  nothing is left: yes
refresh(): it ends as by the time limit: yes
  and says so: yes
  nothing is left: yes
