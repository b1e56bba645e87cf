--TEST--
Fork: a child has none of its parent's connections open
--DESCRIPTION--
Two processes on one connection read each other's replies. And a connection that a child keeps open does not die with
the parent, so that the server would take the parent for alive. What is started by proc_open() or exec() must not
have them either.
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
$lock = new RedisLock('invoice', ttl: 300);
$before = sockets(getmypid());
$lock->acquire();
$connection = array_values(array_diff(sockets(getmypid()), $before));
same('the lock has one connection', 1, count($connection));

$inherited = fn (int $pid) => array_intersect(sockets($pid), $connection);
same('a child has it not', [], Fork::result(fn () => $inherited(getmypid())));
same('a child that used nothing has it not while it lives', [], (function () use ($inherited) {
    $fork = Fork::run(fn () => posix_kill(getmypid(), SIGSTOP));
    pcntl_waitpid($fork->pid, $status, WUNTRACED);
    $seen = $inherited($fork->pid);
    posix_kill($fork->pid, SIGKILL);
    $fork->status();

    return $seen;
})());
same('a grandchild has it not', [], Fork::result(fn () => Fork::result(fn () => $inherited(getmypid()))));
[$child, $grandchild] = Fork::result(function () {
    $before = sockets(getmypid());
    (new RedisLock('of the child'))->acquire();
    $own = array_diff(sockets(getmypid()), $before);

    return [count($own), Fork::result(fn () => count(array_intersect(sockets(getmypid()), $own)))];
});
same('a child has one of its own', 1, $child);
same('which its child has not', 0, $grandchild);

$program = proc_open(['sleep', '30'], [], $pipes);
$pid = proc_get_status($program)['pid'];
check('the program runs', eventually(fn () => readlink("/proc/$pid/exe") !== readlink('/proc/self/exe')));
same('another program has it not', [], $inherited($pid));
proc_terminate($program, SIGKILL);

same('a child that becomes another program has it not', [], (function () use ($inherited) {
    $fork = new Fork();
    if ($fork->pid === 0) {
        pcntl_exec('/bin/sleep', ['30']);
    }
    eventually(fn () => readlink("/proc/$fork->pid/exe") !== readlink('/proc/self/exe'));
    $seen = $inherited($fork->pid);
    posix_kill($fork->pid, SIGKILL);
    $fork->status();

    return $seen;
})());

same('the parent still has it', $connection, array_values(array_diff(sockets(getmypid()), $before)));
same('and it works', true, $lock->release());
same('and is the same one', $connection, array_values(array_diff(sockets(getmypid()), $before)));
?>
--EXPECT--
the lock has one connection: yes
a child has it not: yes
a child that used nothing has it not while it lives: yes
a grandchild has it not: yes
a child has one of its own: yes
which its child has not: yes
the program runs: yes
another program has it not: yes
a child that becomes another program has it not: yes
the parent still has it: yes
and it works: yes
and is the same one: yes
