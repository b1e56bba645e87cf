--TEST--
Interrupt: a lost lock is thrown into the fiber that runs its callable, and into no other
--DESCRIPTION--
Fibers run by turns: at the moment of the loss it may be another one's turn, whose work has nothing to do with the lock.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
$fiber = function (RedisLock $lock, ?array &$seen): Fiber {
    $fiber = new Fiber(function () use ($lock, &$seen) {
        $seen = run($lock, function () {
            Fiber::suspend();
            spin(5);
        });
    });
    $fiber->start();

    return $fiber;
};
/** How it ended, and how many exceptions were thrown into callables meanwhile. */
$short = fn (array $ended) => [$ended[0], $ended['thrown']];

// Lost while the main programme runs, then while another fiber does.
foreach (['main' => fn ($work) => $work(), 'another fiber' => fn ($work) => (new Fiber($work))->start()] as $who => $run) {
    $a = $fiber($lock = doomed(), $seen);
    $meanwhile = null;
    $run(function () use ($lock, &$meanwhile) {
        $meanwhile = ended(fn () => outlast($lock) ?? 'at work');
    });
    same("lost during the turn of $who: nothing is thrown there", ['at work', 0], $short($meanwhile));
    $took = seconds(fn () => $a->resume());
    same('  but in its own turn', INTERRUPTED, $seen);
    check('  at once', $took < 1.5, $took);
    same('  whose fiber is over', true, $a->isTerminated());
}

// Two of them are lost meanwhile: to each its own.
$a = $fiber($one = doomed('one'), $first);
$b = $fiber($two = doomed('two'), $second);
same('two are lost: nothing is thrown', ['at work', 0], $short(ended(function () use ($one, $two) {
    outlast($one);
    outlast($two);

    return 'at work';
})));
$b->resume();
$a->resume();
same('  to each its own', ['one was lost', 'two was lost', 1], [$first[0], $second[0], $second['thrown']]);

// Its callable runs a fiber, which is not what holds the lock.
$inside = null;
$seen = run(doomed(), function () use (&$inside, &$worker) {
    $worker = new Fiber(function () use (&$inside) {
        $inside = ended(fn () => spin(0.3) ?? 'at work');
        Fiber::suspend();
        $inside = 'the end';
    });
    $worker->start();
    spin(5);
});
same('a fiber that the callable runs is not disturbed', ['at work', 0], $short($inside));
same('  but the callable, after its turn', INTERRUPTED, $seen);
$worker->resume();
same('  and the fiber can go on', 'the end', $inside);

// Two locks in a fiber that runs within two more, two of the four are lost.
[$outer, $inner] = [doomed('outer'), doomed('inner')];
$seen = run($outer, function () use ($inner, &$inside) {
    $worker = new Fiber(function () use ($inner, &$inside) {
        $inside = run((new RedisLock('kept')), fn () => $inner->synchronized(fn () => spin(5)));
        spin(0.1);
    });
    $worker->start();
    spin(5);
});
same('of two locks, in two fibers: to each its own', ['inner was lost', 'outer was lost', 2], [$inside[0], $seen[0], $seen['thrown']]);

// Taken in one fiber, and its callable called in another: that of the call counts.
$lock = doomed();
(new Fiber(fn () => $lock->acquire() && $lock->release()))->start();
$seen = run($lock, fn () => spin(5));
same('an object that another fiber used before', INTERRUPTED, $seen);

// Thrown in a fiber, and nobody catches it there.
$a = new Fiber(fn () => doomed()->synchronized(fn () => Fiber::suspend() ?? spin(5)));
$a->start();
usleep(200_000);
same('it leaves the fiber by its resume()', ['key was lost', 1], $short(ended(fn () => $a->resume())));

// Held back in the fiber's finally, in which it is suspended.
$lock = doomed();
$a = new Fiber(function () use ($lock, &$seen, &$cleanedUp) {
    $seen = run($lock, function () use ($lock, &$cleanedUp) {
        try {
            spin(0.01);
        } finally {
            Fiber::suspend();
            outlast($lock);
            $cleanedUp = true;
        }
        spin(5);
    });
});
$a->start();
outlast($lock);
$a->resume();
same('suspended in finally: after it', [INTERRUPTED, true], [$seen, $cleanedUp]);

// Dropped after the loss: that ends its callable, and nothing is thrown at who drops it.
$a = $fiber($lock = doomed(), $seen);
outlast($lock);
$seen = ended(function () use (&$a) {
    $a = null;
    gc_collect_cycles();
    spin(0.1);

    return 'at work';
});
same('a fiber that is dropped after the loss', ['at work', 0], $short($seen));
PHP);
?>
--EXPECT--
lost during the turn of main: nothing is thrown there: yes
  but in its own turn: yes
  at once: yes
  whose fiber is over: yes
lost during the turn of another fiber: nothing is thrown there: yes
  but in its own turn: yes
  at once: yes
  whose fiber is over: yes
two are lost: nothing is thrown: yes
  to each its own: yes
a fiber that the callable runs is not disturbed: yes
  but the callable, after its turn: yes
  and the fiber can go on: yes
of two locks, in two fibers: to each its own: yes
an object that another fiber used before: yes
it leaves the fiber by its resume(): yes
suspended in finally: after it: yes
a fiber that is dropped after the loss: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
