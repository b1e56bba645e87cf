--TEST--
Interrupt: beside signal handlers, before, while and after a lock is lost
--DESCRIPTION--
Both come through the engine's one hook for interrupts, which belonged to pcntl alone before. No handler may be left out for
an exception, nor an exception for a handler.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
pcntl_async_signals(true);
$handled = [];
$note = function (int $signal) use (&$handled) {
    $handled[] = $signal;
};
pcntl_signal(SIGUSR1, $note);
pcntl_signal(SIGUSR2, $note);
$send = function (int $signal) use (&$handled): bool {
    $handled = [];
    posix_kill(getmypid(), $signal);
    spin(0.01);

    return $handled === [$signal];
};

// In each phase of a lock that is lost.
$phases = ['before' => $send(SIGUSR1)];
$lock = doomed();
$seen = run($lock, function () use ($lock, $send, &$phases) {
    $phases['held'] = $send(SIGUSR2);
    try {
        try {
            spin(0.01);
        } finally {
            outlast($lock);
            $phases['held back'] = $send(SIGUSR1);
        }
        spin(5);
    } finally {
        $phases['thrown'] = $send(SIGUSR2);
    }
});
$phases['after'] = $send(SIGUSR1);
same('the exception comes', INTERRUPTED, $seen);
same('each signal is handled', ['before' => true, 'held' => true, 'held back' => true, 'thrown' => true, 'after' => true], $phases);

// At the same time, again and again: a signal comes with the loss.
$wrong = [];
for ($i = 0; $i < 10; $i++) {
    $lock = doomed();
    $handled = [];
    $seen = run($lock, function () use ($lock, $i) {
        // One call, without an interrupt in between.
        $i % 2 === 0 ? usleep(90_000) : time_nanosleep(0, (int) ($lock->getRemainingLifetime() * 1e9));
        posix_kill(getmypid(), SIGUSR1);
        spin(5);
    });
    if ($seen !== INTERRUPTED) {
        $wrong[] = $seen;
    }
}
same('a signal just before or after it', [], $wrong);

// Both are pending when the same call returns: the handler runs, and the exception is thrown.
$sender = signals(...array_fill(0, 6, [0.08, SIGUSR1]));
$handled = [];
$wrong = [];
for ($rounds = 0; $sender->isRunning(); $rounds++) {
    $lock = doomed();
    $seen = run($lock, function () {
        // Goes on after a signal.
        for ($until = now() + 0.1; ($rest = $until - now()) > 0; ) {
            usleep((int) ($rest * 1e6));
        }
        spin(5);
    });
    if ($seen !== INTERRUPTED) {
        $wrong[] = $seen;
    }
}
same('signals from outside, in calls that block', [], $wrong);
check('  which were handled', count($handled) > 2, $handled);

// A handler in which the loss happens: the callable is interrupted, and so is what it runs.
$lock = doomed();
$order = [];
pcntl_signal(SIGUSR1, function () use ($lock, &$order) {
    $order[] = 'handler';
    outlast($lock);
});
same('lost in a handler', INTERRUPTED, run($lock, function () {
    posix_kill(getmypid(), SIGUSR1);
    spin(5);
}));
same('  which ran once', ['handler'], $order);
pcntl_signal(SIGUSR1, $note);
same('  the next signals are handled', [true, true], [$send(SIGUSR1), $send(SIGUSR2)]);

// A handler that locks by itself.
$lock = doomed(ttl: 0.4);
pcntl_signal(SIGUSR1, function () use (&$own) {
    $own = run(doomed('of the handler', ttl: 0.05), fn () => spin(5));
});
$seen = run($lock, function () {
    posix_kill(getmypid(), SIGUSR1);
    spin(5);
});
same('a handler loses its own lock, then the callable the first one', ['of the handler was lost', 'key was lost', 2], [
    $own[0], $seen[0], $seen['thrown'],
]);

// A handler that throws: one of the two exceptions ends the callable, and the other one is not forgotten.
pcntl_signal(SIGUSR1, fn () => throw new DomainException('of the handler'));
$wrong = [];
for ($i = 0; $i < 10; $i++) {
    $lock = doomed();
    $seen = run($lock, function () use ($i) {
        usleep(50_000 + $i * 2000);
        posix_kill(getmypid(), SIGUSR1);
        spin(5);
    });
    $right = match ($seen[0]) {
        'key was lost' => $seen['thrown'] === 1,
        // Not lost before the handler threw, or lost beside it.
        'DomainException: of the handler' => $seen['thrown'] === 0 && count($seen['warnings']) === $seen['losses'],
        default => false,
    };
    $right || $wrong[] = $seen;
    // What is left of it is thrown where it hurts nobody.
    outcome(fn () => spin(0.01));
}
same('a handler that throws', [], $wrong);

// A rain of signals on loops of all kinds of ends.
$count = 0;
pcntl_signal(SIGUSR1, function () use (&$count) {
    $count++;
});
$rain = rain(SIGUSR1, 0.001, getmypid());
$wrong = [];
for ($i = 0; $i < 8; $i++) {
    $lock = doomed();
    $seen = run($lock, function () use ($i) {
        $i % 3 === 0 ? usleep(90_000) : spin(0.01);
        spin(5);
    });
    $seen === INTERRUPTED || $wrong[] = $seen;
    $quick = run(new RedisLock('key', ttl: 60, interrupt: true), fn () => 'quick');
    $quick[0] === 'quick' || $wrong[] = $quick;
}
$rain->kill();
same('in a rain of signals', [], $wrong);
check('  which were handled', $count > 50, $count);
PHP);
?>
--EXPECT--
the exception comes: yes
each signal is handled: yes
a signal just before or after it: yes
signals from outside, in calls that block: yes
  which were handled: yes
lost in a handler: yes
  which ran once: yes
  the next signals are handled: yes
a handler loses its own lock, then the callable the first one: yes
a handler that throws: yes
in a rain of signals: yes
  which were handled: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
