--TEST--
Signals: exit() in a handler, the usual way to end a worker, leaves nothing in Redis
--DESCRIPTION--
During a wait, in the middle of a command, and while the lock is held.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$start = fn (string $code, array $ini = []) => script('
    pcntl_async_signals(true);
    pcntl_signal(SIGTERM, function () {
        exit(7);
    });
    $lock = new RedisLock("invoice", ttl: 60);
    $other = new RedisLock("other key", ttl: 60);
    $other->acquire();
    echo getmypid(), "\n";
    fgets(STDIN);
' . $code . '
    echo "it went on\n";
', $ini);

foreach ([
    'in acquire()' => '$lock->acquire(wait: 30);',
    'in synchronized()' => '$lock->synchronized(fn () => print("called\n"), wait: 30);',
    'in a wait inside of synchronized()' => '(new RedisLock("third"))->synchronized(fn () => $lock->acquire(wait: 30));',
] as $where => $code) {
    occupy('invoice');
    $child = $start($code);
    $pid = (int) $child->readLine();
    $child->writeLine('go');
    usleep(200_000);
    posix_kill($pid, SIGTERM);
    $took = seconds(function () use ($child, &$status) {
        $status = $child->wait();
    });
    same("$where: it ends as asked", [7, "$pid\n"], [$status, $child->output()]);
    check('  at once', $took < 3.0, $took);
    same('  only the other one is left', ['invoice'], keys());
    server()->flush();
    usleep(300_000);
    same('  nobody comes late', [], keys());
}

foreach ([
    'in a command of acquire()' => '$lock->acquire();',
    'in a command of synchronized()' => '$lock->synchronized(fn () => print("called\n"));',
] as $where => $code) {
    $child = $start($code, ['redis_lock.command_timeout' => 20]);
    $pid = (int) $child->readLine();
    stopServer();
    $child->writeLine('go');
    usleep(200_000);
    posix_kill($pid, SIGTERM);
    usleep(200_000);
    server()->kill(SIGCONT);
    same("$where: it ends as asked", [7, "$pid\n"], [$child->wait(), $child->output()]);
    same('  nothing is left', [], keys());
}

$child = $start('$lock->synchronized(function () { echo "held\n"; sleep(30); });');
$pid = (int) $child->readLine();
$child->writeLine('go');
$child->readLine();
posix_kill($pid, SIGTERM);
same('while it is held: it ends as asked', [7, "$pid\nheld\n"], [$child->wait(), $child->output()]);
same('  nothing is left', [], keys());
?>
--EXPECT--
in acquire(): it ends as asked: yes
  at once: yes
  only the other one is left: yes
  nobody comes late: yes
in synchronized(): it ends as asked: yes
  at once: yes
  only the other one is left: yes
  nobody comes late: yes
in a wait inside of synchronized(): it ends as asked: yes
  at once: yes
  only the other one is left: yes
  nobody comes late: yes
in a command of acquire(): it ends as asked: yes
  nothing is left: yes
in a command of synchronized(): it ends as asked: yes
  nothing is left: yes
while it is held: it ends as asked: yes
  nothing is left: yes
