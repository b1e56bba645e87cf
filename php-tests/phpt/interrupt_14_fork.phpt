--TEST--
Interrupt: a child that is forked in the callable is not interrupted for its parent's lock
--DESCRIPTION--
The child never had the lock, so it loses nothing; neither by what was pending when it was forked, nor later. The parent
is interrupted as if nothing had been forked.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

server();
$fork = null;
/** Forks in the callable, before the loss or with the exception pending; both go on there. */
$cases = [
    'before the loss' => function () use (&$fork) {
        $fork = new Fork();
        spin($fork->pid === 0 ? 0.5 : 5);
    },
    'while it is held back' => function (RedisLock $lock) use (&$fork) {
        try {
            spin(0.01);
        } finally {
            outlast($lock);
            $fork = new Fork();
        }
        spin($fork->pid === 0 ? 0.5 : 5);
    },
    'in another fiber, after it' => function (RedisLock $lock) use (&$fork) {
        (new Fiber(function () use ($lock, &$fork) {
            outlast($lock);
            $fork = new Fork();
        }))->start();
        spin($fork->pid === 0 ? 0.5 : 5);
    },
];
foreach (['a fixed ttl' => ['ttl' => 0.3, 'renew' => false], 'renewed' => ['ttl' => 0.6, 'renew' => true]] as $how => $options) {
    foreach ($cases as $when => $code) {
        $lock = new RedisLock('key', ...$options, interrupt: true);
        $seen = run($lock, function () use ($lock, $code, &$fork) {
            lose('key');
            $code($lock);

            return $fork->pid === 0 ? 'of the child' : 'of the parent';
        });
        if ($fork->pid === 0) {
            // stats() began anew in the middle of ended().
            $stats = RedisLock::stats();
            $own = run(doomed('own'), fn () => spin(5));
            $fork->report([$seen[0], $stats['interrupts'], $stats['lost'], $seen['warnings'], $own]);
        }
        same("$how, forked $when: the child is not disturbed, and can have its own", [
            'of the child', 0, 0, [], ['own was lost'] + INTERRUPTED,
        ], $fork->wait());
        same('  the parent is', INTERRUPTED, $seen);
        same('  nothing is left', [], left());
    }
}

// The child has its locks, the parent its own; both are lost at the same time.
$fork = new Fork();
$seen = run(doomed($fork->pid === 0 ? 'of the child' : 'of the parent'), fn () => spin(5));
if ($fork->pid === 0) {
    $fork->report($seen);
}
same('to each its own', [['of the parent was lost'] + INTERRUPTED, ['of the child was lost'] + INTERRUPTED], [$seen, $fork->wait()]);
?>
--EXPECT--
a fixed ttl, forked before the loss: the child is not disturbed, and can have its own: yes
  the parent is: yes
  nothing is left: yes
a fixed ttl, forked while it is held back: the child is not disturbed, and can have its own: yes
  the parent is: yes
  nothing is left: yes
a fixed ttl, forked in another fiber, after it: the child is not disturbed, and can have its own: yes
  the parent is: yes
  nothing is left: yes
renewed, forked before the loss: the child is not disturbed, and can have its own: yes
  the parent is: yes
  nothing is left: yes
renewed, forked while it is held back: the child is not disturbed, and can have its own: yes
  the parent is: yes
  nothing is left: yes
renewed, forked in another fiber, after it: the child is not disturbed, and can have its own: yes
  the parent is: yes
  nothing is left: yes
to each its own: yes
