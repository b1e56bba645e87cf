--TEST--
Signals: a storm of them makes no command fail and none be sent twice
--DESCRIPTION--
Nearly every system call of the extension is interrupted here. Counted is what the server carried out.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$lock = new RedisLock('invoice');
$rounds = function (int $times) use ($lock) {
    server()->resetCommandCounts();
    for ($good = 0; $times-- > 0; ) {
        $good += (int) ($lock->acquire() && $lock->refresh() && $lock->release());
    }

    return $good;
};
// The first round loads the scripts, the second one shows what a round sends.
$rounds(1);
$rounds(1);
$calm = server()->commandCounts();
$expected = array_map(fn (int $count) => $count * 200, $calm);

pcntl_async_signals(true);
pcntl_signal(SIGUSR1, function () use (&$handled) {
    $handled++;
});

// As many rounds as the storm lasts.
$handled = 0;
$sender = signals(...array_fill(0, 1500, [0.0005, SIGUSR1]));
$failed = 0;
$counts = [];
while ($sender->isRunning()) {
    $failed += 200 - $rounds(200);
    $counts[] = server()->commandCounts();
}
$sent = count(sentAt($sender));
check('there was a storm', $handled > $sent / 2 && count($counts) > 1, [$handled, $sent, count($counts)]);
same('nothing failed', 0, $failed);
same('nothing was sent twice', [], array_filter($counts, fn (array $count) => $count !== $expected));

// In a wait that ends with the other's lease.
$sender = signals(...array_fill(0, 1500, [0.0005, SIGUSR1]));
occupy('invoice', ttl: 0.5);
$waited = seconds(function () use ($lock, &$got) {
    $got = $lock->acquire(wait: 20);
});
same('the wait ends with the lock', true, $got);
check('in time', $waited < 5.0, $waited);
same('which can be released', true, $lock->release());

// In a wait that ends with nothing.
occupy('invoice');
$waited = seconds(function () use ($lock, &$got) {
    $got = $lock->acquire(wait: 0.5);
});
same('a wait in vain ends with busy', false, $got);
check('not early and not late', $waited >= 0.5 && $waited < 3.0, $waited);
$sender->kill();
?>
--EXPECT--
there was a storm: yes
nothing failed: yes
nothing was sent twice: yes
the wait ends with the lock: yes
in time: yes
which can be released: yes
a wait in vain ends with busy: yes
not early and not late: yes
