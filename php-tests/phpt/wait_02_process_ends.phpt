--TEST--
Wait: a process that ends in it leaves nothing; its place, and an offer of that moment, are the next one's
--DESCRIPTION--
By exit(), an exception that nobody catches, a fatal error or the memory limit in a handler that runs during the wait, or
by the time limit. The fatal ones jump over the wait's own frames.
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
$holder = new RedisLock('invoice', ttl: 60);
$wait = '$lock->acquire(wait: 30);';
$nested = '(new RedisLock("other key", ttl: 60))->synchronized(fn () => $lock->synchronized(fn () => print("called\n"), wait: INF));';

foreach ([
    'exit()' => ['exit(7);', 7],
    'exception' => ['throw new DomainException("stop");', 255],
    'error' => ['trigger_error("stop", E_USER_ERROR);', 255],
    'memory limit' => ['str_repeat("x", 1 << 28);', 255],
    'error in another wait' => [
        'pcntl_signal(SIGALRM, fn () => trigger_error("stop", E_USER_ERROR));
        (new RedisLock("invoice", ttl: 60))->synchronized(fn () => print("called\n"), wait: 0.05);',
        255,
    ],
    // In no handler, where all signals are blocked.
    'time limit' => [null, 255],
] as $how => [$end, $status]) {
    foreach ([
        'waiting' => [$wait, false],
        'offered the key' => [$wait, true],
        'offered the key, in synchronized() within another' => [$nested, true],
    ] as $where => [$code, $offered]) {
        $holder->acquire();
        $child = script("
            pcntl_async_signals(true);
            pcntl_signal(SIGUSR1, function () {
                echo 'in the handler', PHP_EOL;
                fgets(STDIN);
                $end
            });
            set_time_limit(60);
            \$lock = new RedisLock('invoice', ttl: 60);
            $code
            echo 'it went on';
        ");
        awaitQueued('invoice', $child->pid());
        $next = waiter('invoice');
        if ($end !== null) {
            $child->signal(SIGUSR1);
            $child->readLine();
        } else {
            $child->signal(SIGSTOP);
            eventually(fn () => str_contains(file_get_contents("/proc/{$child->pid()}/stat"), ') T '));
        }
        $offered && $holder->release();
        same("$how, $where", $offered ? $child->pid() : getmypid(), holder('invoice'));

        if ($end !== null) {
            $child->writeLine('end');
        } else {
            $child->signal(SIGPROF);
            $child->signal(SIGCONT);
        }
        $ended = $child->wait();
        check('  it ends so', $ended === $status && !preg_match('/it went on|called/', $child->output()), [$ended, $child->output()]);
        same('  the next one is where it was', $offered ? [$next->pid(), []] : [getmypid(), [$next->pid()]], [holder('invoice'), queued('invoice')]);
        $offered || $holder->release();
        same('  and gets it', ['got it', 0], [$next->readLine(), dismiss($next)]);
        check('  nothing is left', eventually(fn () => left() === []), left());
    }
}
?>
--EXPECT--
exit(), waiting: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
exit(), offered the key: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
exit(), offered the key, in synchronized() within another: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
exception, waiting: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
exception, offered the key: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
exception, offered the key, in synchronized() within another: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
error, waiting: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
error, offered the key: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
error, offered the key, in synchronized() within another: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
memory limit, waiting: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
memory limit, offered the key: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
memory limit, offered the key, in synchronized() within another: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
error in another wait, waiting: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
error in another wait, offered the key: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
error in another wait, offered the key, in synchronized() within another: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
time limit, waiting: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
time limit, offered the key: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
time limit, offered the key, in synchronized() within another: yes
  it ends so: yes
  the next one is where it was: yes
  and gets it: yes
  nothing is left: yes
