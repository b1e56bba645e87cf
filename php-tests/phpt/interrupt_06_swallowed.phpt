--TEST--
Interrupt: whoever catches the exception is told again at the end, but nothing is thrown twice into the callable
--DESCRIPTION--
Workers have a catch (\Throwable) around each job, which keeps them alive whatever a job throws. The loss of their lock must
not end there.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
/** Does jobs for so long, whatever they throw. */
function jobs(float $seconds, ?array &$caught, ?callable $job = null): string
{
    $caught = [];
    for ($until = now() + $seconds; now() < $until; ) {
        try {
            $job === null ? spin(0.01) : $job();
        } catch (\Throwable $thrown) {
            $caught[] = $thrown;
        }
    }

    return 'all jobs';
}
$renewed = fn () => new RedisLock('key', ttl: 0.3, renew: true, interrupt: true);
$swallowed = ['key was lost; the callable returned: "all jobs"'] + INTERRUPTED;

foreach (['its ttl is over' => doomed(), 'it is deleted' => $renewed()] as $how => $lock) {
    $seen = run($lock, function () use (&$caught) {
        return jobs(0.25, $caught, fn () => lose('key') ?? spin(0.01));
    });
    same("$how: swallowed", $swallowed, $seen);
    same('  thrown once', [RedisLock\LockLostException::class], array_map(get_class(...), $caught));
}
same('it had no result yet', null, $caught[0]->getResult());
check('and points into the loop', in_array('jobs', array_column($caught[0]->getTrace(), 'function'), true), (string) $caught[0]);

// Caught by the callable and thrown again: the same object, and no warning, since nothing is hidden.
$lock = doomed();
$seen = ended(function () use ($lock, &$first, &$last) {
    try {
        $lock->synchronized(function () use (&$first) {
            try {
                spin(5);
            } catch (RedisLock\LockLostException $first) {
                throw $first;
            }
        });
    } catch (Throwable $last) {
        throw $last;
    }
});
same('thrown again', [INTERRUPTED, true], [$seen, $first === $last]);

// An exception of the callable's own, which goes through untouched; the warning tells of the loss.
$seen = ended(function () use (&$last) {
    try {
        doomed()->synchronized(function () {
            try {
                spin(5);
            } catch (Throwable $lost) {
                throw new DomainException('of the callable', previous: $lost);
            }
        });
    } catch (Throwable $last) {
        throw $last;
    }
});
$warned = str_contains($seen['warnings'][0] ?? '', 'The lock "key" was lost before the exception that ended its holder');
same('an exception of its own', ['DomainException: of the callable', 1, 1, 1, true], [
    $seen[0], $seen['losses'], $seen['thrown'], count($seen['warnings']), $warned,
]);
same('  with what was thrown before it', RedisLock\LockLostException::class, get_class($last->getPrevious()));

// The key is there a little longer than its lease is surely ours. That the release still finds it is no matter any more.
$seen = run(doomed(ttl: 0.9), function () {
    try {
        spin(5);
    } catch (Throwable) {
        return 'all jobs';
    }
});
same('swallowed, while the key is still there', $swallowed, $seen);

// A finally that returns swallows it too.
$seen = run(doomed(), function () {
    try {
        spin(5);
    } finally {
        return 'all jobs';
    }
});
same('a return in finally', $swallowed, $seen);

// A lost lock does not spoil the next lease of the same object, nor another one's.
$lock = doomed(ttl: 0.15);
$seen = [];
for ($i = 0; $i < 3; $i++) {
    $seen[] = run($lock, fn () => jobs(0.2, $caught));
    $seen[] = run($lock, fn () => 'quick');
}
$quick = ['quick', 'losses' => 0, 'thrown' => 0, 'warnings' => []];
same('again and again on one object', array_merge(...array_fill(0, 3, [$swallowed, $quick])), $seen);
PHP);
?>
--EXPECT--
its ttl is over: swallowed: yes
  thrown once: yes
it is deleted: swallowed: yes
  thrown once: yes
it had no result yet: yes
and points into the loop: yes
thrown again: yes
an exception of its own: yes
  with what was thrown before it: yes
swallowed, while the key is still there: yes
a return in finally: yes
again and again on one object: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
