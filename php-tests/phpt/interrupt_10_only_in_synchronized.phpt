--TEST--
Interrupt: only while synchronized() runs, only where it was asked for, and only for a lease that was lost
--DESCRIPTION--
Code that did not ask for it must never see an exception come out of nowhere.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

server();
$undisturbed = fn (mixed $value, int $losses = 0) => [$value, 'losses' => $losses, 'thrown' => 0, 'warnings' => []];

// Not in synchronized().
$lock = doomed();
$seen = ended(fn () => $lock->acquire() && outlast($lock) === null && $lock->isExpired());
same('acquire(), and its ttl ends', [true, 0, []], [$seen[0], $seen['thrown'], $seen['warnings']]);
$lock = new RedisLock('key', ttl: 0.3, renew: true, interrupt: true);
$seen = ended(function () use ($lock) {
    $lock->acquire();
    lose('key');
    outlast($lock);

    return $lock->isAcquired();
});
same('acquire(), and a renewal tells of the loss', [false, 0, []], [$seen[0], $seen['thrown'], $seen['warnings']]);

// After it.
$lock = doomed(ttl: 0.3);
same('synchronized() is over before the ttl', $undisturbed('value'), ended(function () use ($lock) {
    $value = $lock->synchronized(fn () => 'value');
    spin(0.4);

    return $value;
}));
same('even in the callable of another one', $undisturbed('outer'), ended(
    fn () => (new RedisLock('outer', ttl: 60, interrupt: true))->synchronized(function () {
        doomed(ttl: 0.3)->synchronized(fn () => 'value');
        spin(0.4);

        return 'outer';
    }),
));

// Not asked for: interrupt is off if nothing else is said.
$lock = new RedisLock('key', ttl: 0.1, renew: false);
$told = ['key was lost; the callable returned: "value"', 'losses' => 1] + $undisturbed('value');
same('without interrupt it is told at the end', $told, run($lock, fn () => outlast($lock) ?? 'value'));

// A lock that cannot be interrupted within one that can, and the other way round.
$plain = new RedisLock('plain', ttl: 0.06, renew: false);
$seen = run(doomed(ttl: 0.2), function () use ($plain, &$reached) {
    $plain->synchronized(function () use ($plain, &$reached) {
        outlast($plain);
        $reached = true;
        spin(5);
    });
});
same('the callable of another lock, which was lost before: only the one that was asked for', ['key was lost', 2, 1, true], [
    $seen[0], $seen['losses'], $seen['thrown'], $reached,
]);

// The callable frees the lock by itself: that is no loss.
foreach (['a fixed ttl' => false, 'renewed' => true] as $how => $renew) {
    $lock = new RedisLock('key', ttl: 0.3, renew: $renew, interrupt: true);
    same("released by the callable, $how", $undisturbed('value'), run($lock, function () use ($lock) {
        $lock->release();
        spin(0.4);

        return 'value';
    }));
}

// A lease that is extended by hand has its end later.
$lock = doomed(ttl: 0.3);
same('refreshed by the callable', $undisturbed('value'), run($lock, function () use ($lock) {
    $lock->refresh(60);
    spin(0.4);

    return 'value';
}));
$seen = run($lock, function () use ($lock, &$reached) {
    $lock->refresh(0.6);
    spin(0.4);
    $reached = 'this far';
    spin(5);
});
same('  until that end', [INTERRUPTED, 'this far'], [$seen, $reached]);
$lock = new RedisLock('key', ttl: 60, interrupt: true);
same('or earlier', INTERRUPTED, run($lock, function () use ($lock) {
    $lock->refresh(0.1);
    spin(5);
}));

// Renewed, and not lost: nothing happens.
$lock = new RedisLock('key', ttl: 0.6, renew: true, interrupt: true);
same('renewed, for longer than its ttl', $undisturbed('value'), run($lock, function () {
    spin(1.0);

    return 'value';
}));

// What makes locks has the option too.
$factory = new RedisLockFactory(ttl: 0.1, renew: false, interrupt: true);
same('of a factory', INTERRUPTED, run($factory->createLock('key'), fn () => spin(5)));
$seen = run($factory->createLock('key', interrupt: false), fn () => spin(0.2) ?? 'value');
same('  which a lock need not have', ['key was lost; the callable returned: "value"', 0], [$seen[0], $seen['thrown']]);
$restored = RedisLock::restore('key', 'of the application', ttl: 0.1, renew: false, interrupt: true);
same('of a restored lock', INTERRUPTED, run($restored, fn () => spin(5)));
$memory = new RedisLock('key', ttl: 0.1, renew: false, interrupt: true, servers: 'memory://');
same('of a lock in memory', INTERRUPTED, run($memory, fn () => spin(5)));
same('nothing is left', [], left());
?>
--EXPECT--
acquire(), and its ttl ends: yes
acquire(), and a renewal tells of the loss: yes
synchronized() is over before the ttl: yes
even in the callable of another one: yes
without interrupt it is told at the end: yes
the callable of another lock, which was lost before: only the one that was asked for: yes
released by the callable, a fixed ttl: yes
released by the callable, renewed: yes
refreshed by the callable: yes
  until that end: yes
or earlier: yes
renewed, for longer than its ttl: yes
of a factory: yes
  which a lock need not have: yes
of a restored lock: yes
of a lock in memory: yes
nothing is left: yes
