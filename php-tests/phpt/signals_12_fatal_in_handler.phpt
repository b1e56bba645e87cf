--TEST--
Signals: a handler that dies during a wait or a command leaves nothing in Redis
--DESCRIPTION--
The engine leaves the handler by a jump over all native frames, those of the wait included.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
foreach ([
    'error' => 'trigger_error("of the handler", E_USER_ERROR);',
    'memory limit' => 'str_repeat("x", 1 << 28);',
    'error in a lock of its own' => '(new RedisLock("third", ttl: 300))->synchronized(fn () => trigger_error("of the handler", E_USER_ERROR));',
] as $how => $handler) {
    foreach ([
        'acquire(), waiting' => '$lock->acquire(wait: 30);',
        'synchronized(), waiting' => '$lock->synchronized(fn () => print("called\n"), wait: 30);',
        'acquire(), in a command' => '$lock->acquire();',
        'synchronized(), in the command of the release' => '$lock->synchronized(function () { echo "held\n"; fgets(STDIN); });',
    ] as $where => $code) {
        $child = script("
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, function () { $handler });
            " . '$lock = new RedisLock("invoice", ttl: 300);
            $other = new RedisLock("other key", ttl: 300);
            $other->acquire();
            echo getmypid(), "\n";
            fgets(STDIN);
        ' . $code . 'echo "it went on\n";', ['redis_lock.command_timeout' => 20]);
        $pid = (int) $child->readLine();
        $left = [];
        if (str_contains($where, 'waiting')) {
            occupy('invoice');
            $left = ['invoice'];
            $child->writeLine('go');
        } elseif (str_contains($code, 'held')) {
            $child->writeLine('go');
            $child->readLine();
            stopServer();
            $child->writeLine('go');
        } else {
            stopServer();
            $child->writeLine('go');
        }
        usleep(150_000);
        posix_kill($pid, SIGUSR1);
        usleep(150_000);
        server()->kill(SIGCONT);
        $status = $child->wait();
        check("$where: $how", $status === 255 && str_contains($child->output(), 'Fatal error: ')
            && !str_contains($child->output(), 'it went on'), [$status, $child->output()]);
        same('  nothing is left', $left, keys());
        server()->flush();
    }
}
?>
--EXPECT--
acquire(), waiting: error: yes
  nothing is left: yes
synchronized(), waiting: error: yes
  nothing is left: yes
acquire(), in a command: error: yes
  nothing is left: yes
synchronized(), in the command of the release: error: yes
  nothing is left: yes
acquire(), waiting: memory limit: yes
  nothing is left: yes
synchronized(), waiting: memory limit: yes
  nothing is left: yes
acquire(), in a command: memory limit: yes
  nothing is left: yes
synchronized(), in the command of the release: memory limit: yes
  nothing is left: yes
acquire(), waiting: error in a lock of its own: yes
  nothing is left: yes
synchronized(), waiting: error in a lock of its own: yes
  nothing is left: yes
acquire(), in a command: error in a lock of its own: yes
  nothing is left: yes
synchronized(), in the command of the release: error in a lock of its own: yes
  nothing is left: yes
