--TEST--
Interrupt: not held back by what stands below the callable, and in what only looks like cleaning up
--DESCRIPTION--
Somebody may call synchronized() in a finally or a destructor: its callable is no less a callable. And a catch, a try that
has a finally, or a generator that runs, is no cleaning up.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
class Guard
{
    public function __construct(private Closure $cleanUp)
    {
    }

    public function __destruct()
    {
        ($this->cleanUp)();
    }
}
// The callable is called, and all of it that runs can be interrupted.
$around = [
    'synchronized() in finally' => function ($call) {
        try {
            spin(0.01);
        } finally {
            $call();
        }
    },
    'synchronized() in a destructor' => function ($call) {
        new Guard($call);
    },
    'synchronized() in a generator that is destroyed' => function ($call) {
        $generator = (function () use ($call) {
            try {
                yield 1;
            } finally {
                $call();
            }
        })();
        $generator->current();
        unset($generator);
    },
    'synchronized() in finally in a fiber' => function ($call) {
        (new Fiber(function () use ($call) {
            try {
                spin(0.01);
            } finally {
                $call();
            }
        }))->start();
    },
];
foreach ($around as $where => $code) {
    $seen = null;
    $code(function () use (&$seen) {
        $seen = run(doomed(), fn () => spin(5));
    });
    same($where, INTERRUPTED, $seen);
}

// The spin is interrupted, and the finally that belongs to it comes to its end.
$in = [
    'in a try with a finally' => function (&$done) {
        try {
            spin(5);
        } finally {
            spin(0.05);
            $done = 'cleaned up';
        }
    },
    'in a catch' => function (&$done) {
        try {
            throw new DomainException('of the callable');
        } catch (DomainException) {
            $done = 'cleaned up';
            spin(5);
        }
    },
    'in a catch with a finally' => function (&$done) {
        try {
            throw new DomainException('of the callable');
        } catch (DomainException) {
            spin(5);
        } finally {
            spin(0.05);
            $done = 'cleaned up';
        }
    },
    'after a finally' => function (&$done) {
        try {
            spin(0.01);
        } finally {
            $done = 'cleaned up';
        }
        spin(5);
    },
    'after a destructor' => function (&$done) {
        new Guard(function () use (&$done) {
            $done = 'cleaned up';
        });
        spin(5);
    },
    'in a generator that runs' => function (&$done) {
        $generator = function () use (&$done) {
            try {
                yield spin(5);
            } finally {
                $done = 'cleaned up';
            }
        };
        foreach ($generator() as $one) {
        }
    },
    'with a destructor on the way out' => function (&$done) {
        $guard = new Guard(function () use (&$done) {
            spin(0.05);
            $done = 'cleaned up';
        });
        spin(5);
    },
    'with a generator on the way out' => function (&$done) {
        $generator = (function () use (&$done) {
            try {
                yield 1;
            } finally {
                spin(0.05);
                $done = 'cleaned up';
            }
        })();
        $generator->current();
        spin(5);
    },
];
foreach ($in as $where => $code) {
    $done = null;
    $took = seconds(function () use ($code, &$done, &$seen) {
        $seen = ended(function () use ($code, &$done) {
            doomed()->synchronized(function () use ($code, &$done) {
                $code($done);
            });
        });
    });
    same($where, [INTERRUPTED, 'cleaned up'], [$seen, $done]);
    check('  at once', $took < 1.5, $took);
}

// A callable of another lock, within a finally of the first one's: each lock counts by its own callable.
[$outer, $inner] = [doomed('outer', ttl: 0.06), doomed('inner', ttl: 0.2)];
$order = [];
$seen = run($outer, function () use ($inner, &$order) {
    try {
        spin(0.01);
    } finally {
        $order[] = run($inner, fn () => spin(5))[0];
        spin(0.05);
        $order[] = 'cleaned up';
    }
    spin(5);
});
same('the inner lock is thrown into the outer one\'s finally, the outer one after it', [
    ['outer was lost', 'losses' => 2, 'thrown' => 2, 'warnings' => []],
    ['inner was lost', 'cleaned up'],
], [$seen, $order]);
PHP);
?>
--EXPECT--
synchronized() in finally: yes
synchronized() in a destructor: yes
synchronized() in a generator that is destroyed: yes
synchronized() in finally in a fiber: yes
in a try with a finally: yes
  at once: yes
in a catch: yes
  at once: yes
in a catch with a finally: yes
  at once: yes
after a finally: yes
  at once: yes
after a destructor: yes
  at once: yes
in a generator that runs: yes
  at once: yes
with a destructor on the way out: yes
  at once: yes
with a generator on the way out: yes
  at once: yes
the inner lock is thrown into the outer one's finally, the outer one after it: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
