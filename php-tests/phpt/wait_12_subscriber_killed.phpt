--TEST--
Wait: the connection over which waiters are told is closed, again and again, while signals come in
--DESCRIPTION--
It is replaced within the wait, and the place in the queue kept: who waits longest is still told first.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$holder = new RedisLock('invoice', ttl: 60);
$holder->acquire();
$waiter = fn () => script('
    pcntl_async_signals(true);
    pcntl_signal(SIGALRM, function () use (&$handled) {
        $handled++;
        // Has nothing to do with the wait, but with the same server.
        (new RedisLock("own " . getmypid()))->acquire(wait: 0.001);
    });
    for (;;) {
        $lock = new RedisLock("invoice", ttl: 60);
        echo $lock->acquire(wait: 30) ? "got it" : "busy", PHP_EOL;
        while (fgets(STDIN) === false && !feof(STDIN)) {
        }
        echo json_encode([$lock->release(), $handled > 10]), PHP_EOL;
        while (fgets(STDIN) === false && !feof(STDIN)) {
        }
    }
');
$waiters = $pids = [];
foreach (range(0, 2) as $i) {
    $waiters[$i] = $waiter();
    $pids[$i] = $waiters[$i]->pid();
    awaitQueued('invoice', $pids[$i]);
}
$sender = rain(SIGALRM, 0.002, ...$pids);

// All three listen again, and over other connections.
$listening = fn () => array_column(array_filter(subscribers(), fn (array $client) => $client['sub'] === '1'), 'id');
$kill = function () use ($listening, $pids): bool {
    $before = $listening();
    server()->command('CLIENT', 'KILL', 'TYPE', 'pubsub');

    return eventually(fn () => array_intersect($listening(), $before) === [] && count(array_unique(channels())) === 3
        && array_intersect(queued('invoice'), $pids) == $pids);
};
check('killed: all three listen again', $kill(), [$listening(), channels()]);
same('in the order of their coming', $pids, queued('invoice'));
// A connection that does not last a second is not replaced.
usleep(1_100_000);
check('killed again: all three listen again', $kill(), [$listening(), channels()]);
same('in the order of their coming', $pids, queued('invoice'));
$holder->release();
same('the first one has it at once', [$pids[0], [$pids[1], $pids[2]]], [holder('invoice'), queued('invoice')]);
foreach ($waiters as $i => $process) {
    same('it gets it', ['got it', $pids[$i]], [$process->readLine(), holder('invoice')]);
    $process->writeLine('release');
    same('and releases it', '[true,true]', $process->readLine());
}

// Released in the very moment, and the new connections closed as well: each of them looks for itself.
$holder->acquire();
foreach ($waiters as $process) {
    $process->writeLine('again');
}
check('all wait again', eventually(fn () => count(queued('invoice')) === 3), queued('invoice'));
server()->command('CLIENT', 'KILL', 'TYPE', 'pubsub');
$holder->release();
eventually(fn () => channels() !== []);
server()->command('CLIENT', 'KILL', 'TYPE', 'pubsub');
$took = seconds(function () use ($waiters, $pids) {
    $left = $waiters;
    while ($left !== []) {
        foreach ($left as $i => $process) {
            // An offer lasts no longer than a second.
            if (server()->command('PTTL', 'invoice') > 1000 && holder('invoice') === $pids[$i] && $process->readLine() === 'got it') {
                $process->writeLine('release');
                same('one of them gets it, and releases it', '[true,true]', $process->readLine());
                unset($left[$i]);
            }
        }
        usleep(2_000);
    }
});
// Long before the ttl of what nobody took.
check('soon', $took < 15.0, $took);
$sender->kill();
foreach ($waiters as $process) {
    $process->kill();
    $process->wait();
}
check('nothing is left', eventually(fn () => array_diff(left(), array_map(fn (int $pid) => "own $pid", $pids)) === []), left());
?>
--EXPECT--
killed: all three listen again: yes
in the order of their coming: yes
killed again: all three listen again: yes
in the order of their coming: yes
the first one has it at once: yes
it gets it: yes
and releases it: yes
it gets it: yes
and releases it: yes
it gets it: yes
and releases it: yes
all wait again: yes
one of them gets it, and releases it: yes
one of them gets it, and releases it: yes
one of them gets it, and releases it: yes
soon: yes
nothing is left: yes
