--TEST--
Interrupt: a lost lock is thrown into a loop, whatever it is made of, and however the lock was lost
--DESCRIPTION--
A loop that calls nothing has only its jump back, at which it can be interrupted; compiled code has fewer such places.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
use RedisLock\Tests\Support\RawClient;

// Where nothing interrupts, that ends it.
set_time_limit(30);

function work(int $depth): int
{
    return $depth === 0 ? 1 : work($depth - 1) + work($depth - 1);
}
function numbers(): Generator
{
    for ($i = 0; ; $i++) {
        yield $i % 100;
    }
}
class Worker
{
    private int $sum = 0;

    public function step(int $by): self
    {
        $this->sum = ($this->sum + $by) % 1000;

        return $this;
    }
}
$loops = [
    'nothing' => function () {
        for (;;) {
        }
    },
    'numbers' => function () {
        for ($i = 0, $sum = 0.5; ; $i++) {
            $sum += $i & 3;
        }
    },
    'the condition at the end' => function () {
        $i = 0;
        do {
            $i = ($i + 1) % 17;
        } while ($i < 17);
    },
    'goto' => function () {
        again:
        goto again;
    },
    'a list of each of many' => function () {
        for ($pairs = array_fill(0, 100, [1, 2]), $sum = 0; ; ) {
            foreach ($pairs as [$one, $two]) {
                $sum = ($sum + $one + $two) % 1000;
            }
        }
    },
    'a property that is each of many' => function () {
        for ($numbers = range(1, 100), $box = new stdClass(), $sum = 0; ; ) {
            foreach ($numbers as $box->number) {
                $sum = ($sum + $box->number) % 1000;
            }
        }
    },
    'an array' => function () {
        for ($numbers = range(1, 100); ; ) {
            foreach ($numbers as $i => $number) {
                $numbers[$i] = $number ^ $i;
            }
        }
    },
    'internal functions' => function () {
        while (strlen(str_repeat('x', 100)) === 100) {
        }
    },
    'methods' => function () {
        for ($worker = new Worker(); ; ) {
            $worker->step(3)->step(5);
        }
    },
    // A recursion alone has no place for an interrupt once it is compiled, not for a signal either.
    'recursion' => function () {
        while (work(8) === 256) {
        }
    },
    'a generator' => function () {
        foreach (numbers() as $number) {
        }
    },
    'exceptions' => function () {
        for (;;) {
            try {
                throw new DomainException('of the loop');
            } catch (DomainException) {
            }
        }
    },
    'a callback' => fn () => array_map(spin(...), [20]),
];

$losses = [
    'its ttl over' => [['ttl' => 0.06, 'renew' => false], fn () => null, null],
    'its key deleted' => [['ttl' => 0.15, 'renew' => true], fn () => lose('key'), null],
    'its key taken by somebody else' => [['ttl' => 0.15, 'renew' => true], fn () => lose('key', to: 'somebody else'), 'somebody else'],
    'its maxHold over' => [['ttl' => 0.1, 'renew' => true, 'maxHold' => 0.02], fn () => null, null],
];
$server = new RawClient(ini_get('redis_lock.servers'));
$key = ini_get('redis_lock.prefix') . 'key';
foreach ($losses as $how => [$options, $loss, $kept]) {
    $wrong = [];
    // How it is noticed has nothing to do with what the loop is made of: all of them once, then some.
    foreach ($how === 'its ttl over' ? $loops : array_slice($loops, 0, 3) as $what => $loop) {
        $lock = new RedisLock('key', ...$options, interrupt: true);
        $seen = run($lock, function () use ($loop, $loss) {
            $loss();
            $loop();
        });
        $state = [$lock->isAcquired(), $lock->isExpired(), $lock->getRemainingLifetime(), $server->command('GET', $key)];
        if ($seen !== INTERRUPTED || $state !== [false, true, 0.0, $kept]) {
            $wrong[$what] = [$seen, $state];
        }
        $server->command('DEL', $key);
    }
    same("$how: it is thrown into each loop", [], $wrong);
}
PHP);
?>
--EXPECT--
its ttl over: it is thrown into each loop: yes
its key deleted: it is thrown into each loop: yes
its key taken by somebody else: it is thrown into each loop: yes
its maxHold over: it is thrown into each loop: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
