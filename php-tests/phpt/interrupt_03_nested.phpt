--TEST--
Interrupt: synchronized() within synchronized() of another lock, of which one is lost, or both
--DESCRIPTION--
The exception of the outer lock passes through the inner one, which frees its own key and passes it on. That of the inner
one ends there, where it can be caught.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

server();
$renewed = fn (string $key) => new RedisLock($key, ttl: 0.3, renew: true, interrupt: true);
$kept = fn (string $key) => new RedisLock($key, ttl: 60, renew: true, interrupt: true);

// Only the outer one; somebody waits for the inner one.
[$outer, $inner] = [$renewed('outer'), $kept('inner')];
$seen = run($outer, function () use ($inner, &$next) {
    $inner->synchronized(function () use (&$next) {
        $next = waiter('inner');
        server()->command('SET', 'outer', 'somebody else');
        spin(10);
    });
});
same('the outer one is lost', ['outer was lost'] + INTERRUPTED, $seen);
same('  the inner one is passed on', [$next->pid(), 'got it'], [holder('inner'), $next->readLine()]);
same('  the outer one is somebody else\'s', 'somebody else', server()->command('GET', 'outer'));
same('  both objects know', [[false, true], [false, false]], array_map(
    fn (RedisLock $lock) => [$lock->isAcquired(), $lock->isExpired()],
    [$outer, $inner],
));
same('  the next one ends well', 0, dismiss($next));
server()->flush();

// Only the inner one: the outer one goes on.
$seen = run($kept('outer'), function () use ($renewed) {
    $inner = run($renewed('inner'), function () {
        lose('inner');
        spin(10);
    });
    spin(0.2);

    return [$inner, keys()];
});
same('the inner one is lost', [[['inner was lost'] + INTERRUPTED, ['outer']]] + INTERRUPTED, $seen);
same('  nothing is left', [], keys());

// Only the inner one, and nobody catches it: it ends the callable of the outer one, which is freed.
$seen = run($kept('outer'), fn () => $renewed('inner')->synchronized(function () {
    lose('inner');
    spin(10);
}));
same('the inner one is lost, and goes through the outer one', ['inner was lost'] + INTERRUPTED, $seen);
same('  nothing is left', [], keys());

// Both, the inner one first: what it throws is the callable's own exception for the outer one, which is lost meanwhile.
$lost = fn (string $key) => "The lock \"$key\" was lost before the exception that ended its holder";
[$outer, $inner] = [doomed('outer', ttl: 0.25), doomed('inner')];
$seen = run($outer, function () use ($outer, $inner) {
    try {
        $inner->synchronized(fn () => spin(10));
    } finally {
        outlast($outer);
    }
});
$warnings = array_map(fn (string $warning) => str_contains($warning, $lost('outer')), $seen['warnings']);
same('both, the inner one first', ['inner was lost', 2, 1, [true]], [$seen[0], $seen['losses'], $seen['thrown'], $warnings]);

// Both, the outer one first: it is held back for a while, and the inner one is lost until then.
[$outer, $inner] = [doomed('outer'), doomed('inner', ttl: 0.25)];
$seen = run($outer, fn () => $inner->synchronized(function () use ($inner) {
    try {
        spin(0.01);
    } finally {
        outlast($inner);
    }
    spin(10);
}));
$ends = [
    // One of the two is thrown and ends the callables of both; the other one is lost beside it.
    'outer was lost' => $lost('inner'),
    'inner was lost' => $lost('outer'),
];
$warnings = array_map(fn (string $warning) => str_contains($warning, $ends[$seen[0]] ?? '-'), $seen['warnings']);
same('both at once', [2, 1, [true]], [$seen['losses'], $seen['thrown'], $warnings]);
same('  nothing is left', [], left());

// Both at once, and caught between them: what is left of the outer one's comes then, if it was not that.
[$outer, $inner] = [doomed('outer'), doomed('inner')];
$seen = run($outer, function () use ($outer, $inner, &$caught) {
    try {
        $inner->synchronized(fn () => usleep(200_000) ?? spin(10));
    } catch (RedisLock\LockLostException $thrown) {
        $caught = $thrown->getMessage();
    }
    spin(0.3);

    return 'value';
});
check('both, and one is caught: the outer one ends as lost all the same', match ($seen[0]) {
    'outer was lost' => str_contains($caught, '"inner"') && $seen['thrown'] === 2,
    'outer was lost; the callable returned: "value"' => str_contains($caught, '"outer"') && $seen['thrown'] === 1,
    default => false,
}, [$seen, $caught]);

// Lost while an error handler looks at the warning about the other one. What handlers throw there is dropped, so it must
// not be thrown into that.
[$outer, $inner] = [doomed('outer', ttl: 0.2), doomed('inner')];
$handler = null;
$seen = run($outer, function () use ($outer, $inner, &$handler, &$caught) {
    set_error_handler(function () use ($outer, &$handler) {
        outlast($outer);
        $handler = 'came to its end';

        return true;
    });
    try {
        $caught = outcome(fn () => $inner->synchronized(fn () => outcome(fn () => spin(10)) && throw new DomainException('x')));
    } finally {
        restore_error_handler();
    }
    spin(10);
});
same('an error handler is told of one while the other is lost', [['outer was lost', 2, 2], 'DomainException: x', 'came to its end'], [
    [$seen[0], $seen['losses'], $seen['thrown']], $caught, $handler,
]);

// Three, of which the one in the middle is lost.
$seen = run($kept('first'), function () use ($renewed, $kept) {
    $middle = run($renewed('second'), fn () => $kept('third')->synchronized(function () {
        lose('second');
        spin(10);
    }));

    return [$middle, keys()];
});
same('the one in the middle of three', [[['second was lost'] + INTERRUPTED, ['first']]] + INTERRUPTED, $seen);
same('nothing is left', [], left());
?>
--EXPECT--
the outer one is lost: yes
  the inner one is passed on: yes
  the outer one is somebody else's: yes
  both objects know: yes
  the next one ends well: yes
the inner one is lost: yes
  nothing is left: yes
the inner one is lost, and goes through the outer one: yes
  nothing is left: yes
both, the inner one first: yes
both at once: yes
  nothing is left: yes
both, and one is caught: the outer one ends as lost all the same: yes
an error handler is told of one while the other is lost: yes
the one in the middle of three: yes
nothing is left: yes
