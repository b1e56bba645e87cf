--TEST--
Wait: no child has its parent's connections, so that a subscription dies with its process
--DESCRIPTION--
A child or another program that kept the socket open would make a waiter that was killed look alive: the key would be
offered to it again and again.
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
pcntl_async_signals(true);
server()->command('PING');
$before = sockets(getmypid());
$lock = new RedisLock('invoice', ttl: 60);
$partner = holdUntil('invoice', fn () => queued('invoice') !== []);
same('it gets the lock after a wait', [true, true], [$lock->acquire(wait: 20), $partner->wait()]);
unset($partner);
$connections = array_values(array_diff(sockets(getmypid()), $before));
same('for which it has two connections', 2, count($connections));
$lock->release();

$inherited = fn (int $pid) => array_values(array_intersect(sockets($pid), $connections));
$stopped = function () use ($inherited) {
    $fork = Fork::run(fn () => posix_kill(getmypid(), SIGSTOP));
    pcntl_waitpid($fork->pid, $status, WUNTRACED);
    $seen = $inherited($fork->pid);
    posix_kill($fork->pid, SIGKILL);
    $fork->status();

    return $seen;
};
$program = function () use ($inherited) {
    $process = proc_open(['sleep', '30'], [], $pipes);
    $pid = proc_get_status($process)['pid'];
    eventually(fn () => readlink("/proc/$pid/exe") !== readlink('/proc/self/exe'));
    $seen = $inherited($pid);
    proc_terminate($process, SIGKILL);
    proc_close($process);

    return $seen;
};
$look = fn () => [
    'a child' => Fork::result(fn () => $inherited(getmypid())),
    'a child that uses nothing' => $stopped(),
    'a grandchild' => Fork::result(fn () => Fork::result(fn () => $inherited(getmypid()))),
    'another program' => $program(),
];
$none = ['a child' => [], 'a child that uses nothing' => [], 'a grandchild' => [], 'another program' => []];
same('between waits nobody has them', $none, $look());
$holder = new RedisLock('invoice', ttl: 60);
$holder->acquire();
pcntl_signal(SIGUSR1, function () use ($look, $holder, &$seen) {
    $clients = fn () => array_column(subscribers(), 'id');
    $before = $clients();
    $seen = $look();
    $seen['clients'] = array_diff($before, $clients());
    $holder->release();
});
$sender = signalWhenQueued('invoice');
same('the wait goes on', [true, true], [$lock->acquire(wait: 20), $sender->wait()]);
same('in the wait nobody has them', $none + ['clients' => []], $seen);
same('they are the same ones', $connections, $inherited(getmypid()));
$lock->release();
$lock = null;

foreach ([
    'child' => '$child = pcntl_fork();
        if ($child === 0) {
            // For as long as the test lives, or half a minute.
            fgets(STDIN);
            exit(0);
        }',
    'program' => '$program = proc_open(["sleep", "30"], [STDIN, ["file", "/dev/null", "w"]], $pipes);
        $child = proc_get_status($program)["pid"];',
] as $what => $start) {
    $holder->acquire();
    $parent = script("
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, function () {
            $start
            echo \$child, PHP_EOL;
        });
        \$lock = new RedisLock('invoice', ttl: 60);
        \$lock->acquire(wait: 30);
    ");
    awaitQueued('invoice', $parent->pid());
    $next = waiter('invoice');
    $parent->signal(SIGUSR1);
    $child = (int) $parent->readLine();
    check("a waiter and its $what", $child > 0 && count(channels()) === 2, [$child, channels()]);
    $parent->signal(SIGKILL);
    check('  the waiter is killed and heard of no more', eventually(fn () => count(channels()) === 1), channels());
    same('  its child lives', true, posix_kill($child, 0));
    $holder->release();
    same('  the next one has the key at once', $next->pid(), holder('invoice'));
    same('  and releases it', ['got it', 0], [$next->readLine(), dismiss($next)]);
    posix_kill($child, SIGKILL);
    $parent->wait();
    check('  nothing is left', eventually(fn () => left() === []), left());
}
?>
--EXPECT--
it gets the lock after a wait: yes
for which it has two connections: yes
between waits nobody has them: yes
the wait goes on: yes
in the wait nobody has them: yes
they are the same ones: yes
a waiter and its child: yes
  the waiter is killed and heard of no more: yes
  its child lives: yes
  the next one has the key at once: yes
  and releases it: yes
  nothing is left: yes
a waiter and its program: yes
  the waiter is killed and heard of no more: yes
  its child lives: yes
  the next one has the key at once: yes
  and releases it: yes
  nothing is left: yes
