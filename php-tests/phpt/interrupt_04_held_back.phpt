--TEST--
Interrupt: held back in what cleans up (finally, destructors, generators that are destroyed), and thrown after it
--DESCRIPTION--
Code that cleans up is not expected to fail in its middle: what it was to free would stay. So it comes to its end, however
long it takes, also with the functions that it calls; the exception comes right after.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
class Guard
{
    public ?self $self = null;

    public function __construct(private Closure $cleanUp)
    {
    }

    public function __destruct()
    {
        ($this->cleanUp)();
    }
}
class Caller
{
    public function __call(string $name, array $arguments): void
    {
        $arguments[0]();
    }
}
/** Where $cleanUp is called is what is to be held back. */
$places = [
    'finally' => function ($cleanUp) {
        try {
            spin(0.01);
        } finally {
            $cleanUp();
        }
    },
    'finally, by return' => function ($cleanUp) {
        (function () use ($cleanUp) {
            try {
                return spin(0.01);
            } finally {
                $cleanUp();
            }
        })();
    },
    'finally, by break' => function ($cleanUp) {
        while (true) {
            try {
                break;
            } finally {
                $cleanUp();
            }
        }
    },
    'finally, by an exception' => function ($cleanUp) {
        try {
            try {
                throw new DomainException('of the callable');
            } finally {
                $cleanUp();
            }
        } catch (DomainException) {
        }
    },
    'finally after catch' => function ($cleanUp) {
        try {
            throw new DomainException('of the callable');
        } catch (DomainException) {
        } finally {
            $cleanUp();
        }
    },
    'try, catch and a loop in finally' => function ($cleanUp) {
        try {
            spin(0.01);
        } finally {
            foreach ([1] as $one) {
                try {
                    $cleanUp();
                    throw new DomainException('of the callable');
                } catch (DomainException) {
                }
            }
        }
    },
    'finally in finally' => function ($cleanUp) {
        try {
            spin(0.01);
        } finally {
            try {
                spin(0.01);
            } finally {
                $cleanUp();
            }
        }
    },
    'after finally in finally' => function ($cleanUp) {
        try {
            spin(0.01);
        } finally {
            try {
                spin(0.01);
            } finally {
                spin(0.01);
            }
            $cleanUp();
        }
    },
    'finally in a catch' => function ($cleanUp) {
        try {
            throw new DomainException('of the callable');
        } catch (DomainException) {
            try {
                spin(0.01);
            } finally {
                $cleanUp();
            }
        }
    },
    'functions called in finally' => function ($cleanUp) {
        $call = function (int $depth) use (&$call, $cleanUp) {
            $depth === 0 ? $cleanUp() : $call($depth - 1);
        };
        try {
            spin(0.01);
        } finally {
            array_map($call, [20]);
        }
    },
    'a generator that runs in finally' => function ($cleanUp) {
        $generator = (function () use ($cleanUp) {
            $cleanUp();
            yield 1;
        })();
        try {
            spin(0.01);
        } finally {
            foreach ($generator as $one) {
            }
        }
    },
    '__call() in finally' => function ($cleanUp) {
        try {
            spin(0.01);
        } finally {
            (new Caller())->clean($cleanUp);
        }
    },
    'destructor' => function ($cleanUp) {
        $guard = new Guard($cleanUp);
        unset($guard);
    },
    'destructor, by an assignment' => function ($cleanUp) {
        $guard = new Guard($cleanUp);
        $guard = null;
    },
    'destructor, at the end of a scope' => function ($cleanUp) {
        (function () use ($cleanUp) {
            $guard = new Guard($cleanUp);
        })();
    },
    'destructor, in a native function' => function ($cleanUp) {
        $guards = [new Guard($cleanUp)];
        array_pop($guards);
    },
    'destructor of a cycle' => function ($cleanUp) {
        $guard = new Guard($cleanUp);
        $guard->self = $guard;
        unset($guard);
        gc_collect_cycles();
    },
    'destructor in finally' => function ($cleanUp) {
        try {
            spin(0.01);
        } finally {
            new Guard($cleanUp);
        }
    },
    'generator destroyed' => function ($cleanUp) {
        $generator = (function () use ($cleanUp) {
            try {
                yield 1;
            } finally {
                $cleanUp();
            }
        })();
        $generator->current();
        unset($generator);
    },
    'generator left by break' => function ($cleanUp) {
        $generator = function () use ($cleanUp) {
            try {
                yield 1;
                yield 2;
            } finally {
                array_map($cleanUp, [0]);
            }
        };
        foreach ($generator() as $one) {
            break;
        }
    },
    'generator in a generator, destroyed' => function ($cleanUp) {
        $inner = function () use ($cleanUp) {
            try {
                yield 1;
            } finally {
                $cleanUp();
            }
        };
        $generator = (fn () => yield from $inner())();
        $generator->current();
        unset($generator);
    },
    'generator that comes to its end' => function ($cleanUp) {
        $generator = function () use ($cleanUp) {
            try {
                yield 1;
            } finally {
                $cleanUp();
            }
        };
        foreach ($generator() as $one) {
        }
    },
    'fiber destroyed' => function ($cleanUp) {
        $fiber = new Fiber(function () use ($cleanUp) {
            try {
                Fiber::suspend();
            } finally {
                $cleanUp();
            }
        });
        $fiber->start();
        unset($fiber);
        gc_collect_cycles();
    },
];
foreach ($places as $place => $code) {
    $lock = doomed();
    $done = null;
    $cleanUp = function () use ($lock, &$done) {
        outlast($lock);
        $done = now();
    };
    $seen = run($lock, function () use ($code, $cleanUp, &$over) {
        $over = null;
        try {
            $code($cleanUp);
            spin(5);
        } finally {
            $over = now();
        }
    });
    same("$place: the exception comes", INTERRUPTED, $seen);
    check('  after it', $done !== null && $over - $done < 0.5, [$done, $over]);
}

// One after the other: there is no moment between them at which it could be lost for good.
$lock = doomed();
$steps = [];
$seen = run($lock, function () use ($lock, &$steps) {
    for ($i = 0; $i < 2000; $i++) {
        try {
            $steps[$i] = 0;
            spin(0.005);
        } finally {
            spin(0.005);
            $steps[$i] = 1;
        }
    }
});
same('in a loop of such: thrown into a part that cleans nothing up', INTERRUPTED, $seen);
check('  soon, and the last one came to its end', count($steps) < 100 && array_unique($steps) === [1], count($steps));

// What comes to its end with the callable: there is nowhere to throw it any more.
$lock = doomed();
$seen = run($lock, function () use ($lock) {
    try {
        return 'value';
    } finally {
        outlast($lock);
    }
});
same('it ends with the callable', ['key was lost; the callable returned: "value"', 'losses' => 1, 'thrown' => 0, 'warnings' => []], $seen);

// The loss comes after the last moment at which a finally can be interrupted, and before it is left.
$row = fn () => array_fill(0, 20_000, range(1, 1_000));
foreach ([
    'falls through' => function (array $one, array $other, array &$did) {
        try {
            $did[] = 'work';
        } finally {
            $did[] = 'clean up';
            $isEqual = $one == $other;
        }
        spin(5);
    },
    'returns' => function (array $one, array $other, array &$did) {
        (function () use ($one, $other, &$did) {
            try {
                return $did[] = 'work';
            } finally {
                $did[] = 'clean up';
                $isEqual = $one == $other;
            }
        })();
        spin(5);
    },
    'breaks' => function (array $one, array $other, array &$did) {
        while (true) {
            try {
                $did[] = 'work';
                break;
            } finally {
                $did[] = 'clean up';
                $isEqual = $one == $other;
            }
        }
        spin(5);
    },
] as $how => $code) {
    [$one, $other] = [$row(), $row()];
    do {
        $did = [];
        $ended = run(doomed(), function () use ($code, $one, $other, &$did) {
            $code($one, $other, $did);
        });
        // A busy machine may lose it before the work begins.
    } while (!in_array('work', $did, true));
    same("a finally that is lost in its last step, and $how, runs once", [INTERRUPTED, ['work', 'clean up']], [$ended, $did]);
}
PHP);
?>
--EXPECT--
finally: the exception comes: yes
  after it: yes
finally, by return: the exception comes: yes
  after it: yes
finally, by break: the exception comes: yes
  after it: yes
finally, by an exception: the exception comes: yes
  after it: yes
finally after catch: the exception comes: yes
  after it: yes
try, catch and a loop in finally: the exception comes: yes
  after it: yes
finally in finally: the exception comes: yes
  after it: yes
after finally in finally: the exception comes: yes
  after it: yes
finally in a catch: the exception comes: yes
  after it: yes
functions called in finally: the exception comes: yes
  after it: yes
a generator that runs in finally: the exception comes: yes
  after it: yes
__call() in finally: the exception comes: yes
  after it: yes
destructor: the exception comes: yes
  after it: yes
destructor, by an assignment: the exception comes: yes
  after it: yes
destructor, at the end of a scope: the exception comes: yes
  after it: yes
destructor, in a native function: the exception comes: yes
  after it: yes
destructor of a cycle: the exception comes: yes
  after it: yes
destructor in finally: the exception comes: yes
  after it: yes
generator destroyed: the exception comes: yes
  after it: yes
generator left by break: the exception comes: yes
  after it: yes
generator in a generator, destroyed: the exception comes: yes
  after it: yes
generator that comes to its end: the exception comes: yes
  after it: yes
fiber destroyed: the exception comes: yes
  after it: yes
in a loop of such: thrown into a part that cleans nothing up: yes
  soon, and the last one came to its end: yes
it ends with the callable: yes
a finally that is lost in its last step, and falls through, runs once: yes
a finally that is lost in its last step, and returns, runs once: yes
a finally that is lost in its last step, and breaks, runs once: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
