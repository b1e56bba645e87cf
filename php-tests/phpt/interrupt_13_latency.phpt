--TEST--
Interrupt: soon after the loss, and never before it
--DESCRIPTION--
The moment of the loss is known for a lock with a fixed ttl: the end of its validity, which is before the key's. The bounds
leave room for a busy machine; bin/bench measures.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
$late = $early = [];
for ($i = 0; $i < 30; $i++) {
    $lock = doomed(ttl: 0.03);
    $lost = INF;
    $caught = 0.0;
    run($lock, function () use ($lock, &$lost, &$caught) {
        $lost = now() + $lock->getRemainingLifetime();
        try {
            for ($i = 0; ; $i++) {
            }
        } finally {
            $caught = now();
        }
    });
    $late[] = $caught - $lost;
}
sort($late);
check('never before the loss', $late[0] > -0.0005, $late);
check('mostly at once', $late[15] < 0.02, $late);
check('nearly always within 50 ms', $late[26] < 0.05, $late);
PHP, atOnce: 1);

// The keeper learns of a deleted key by its next renewal, which is due after a third of the ttl.
$late = [];
for ($i = 0; $i < 10; $i++) {
    $lock = new RedisLock('key', ttl: 0.6, renew: true, interrupt: true);
    run($lock, function () use ($i, &$late) {
        usleep($i * 20_000);
        server()->command('DEL', 'key');
        $deleted = now();
        try {
            spin(5);
        } finally {
            $late[] = now() - $deleted;
        }
    });
}
sort($late);
check('a deleted key: within a third of the ttl', $late[5] < 0.2 + 0.02 && $late[8] < 0.2 + 0.1, $late);
?>
--EXPECT--
never before the loss: yes
mostly at once: yes
nearly always within 50 ms: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
a deleted key: within a third of the ttl: yes
