--TEST--
Interrupt: a loss that was thrown stays one, whatever the callable does with the lock after it
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
const TOLD = ['key was lost; the callable returned: "done"', 'losses' => 1, 'thrown' => 1, 'warnings' => []];

/** Swallows what is thrown, and goes on. */
function swallow(): void
{
    try {
        spin(20);
        echo "Nothing was thrown.\n";
    } catch (RedisLock\LockLostException) {
    }
}

/** A lock with a token of its own. */
function named(): RedisLock
{
    return RedisLock::restore('key', 'the token', ttl: 0.06, interrupt: true);
}

$after = [
    'nothing' => fn () => true,
    'release()' => fn (RedisLock $lock) => $lock->release() === false,
    'forceRelease()' => fn (RedisLock $lock) => $lock->forceRelease() || true,
    'refresh()' => fn (RedisLock $lock) => $lock->refresh() === false,
    'acquire()' => fn (RedisLock $lock) => $lock->acquire(wait: 5),
    'another holds it meanwhile, acquire()' => function (RedisLock $lock) {
        $other = new RedisLock('key', ttl: 5);

        return $other->acquire(wait: 5) && $other->release() && $lock->acquire();
    },
    'synchronized()' => fn (RedisLock $lock) => $lock->synchronized(fn () => true, wait: 5),
];
foreach (['drawn' => fn () => doomed(), 'named' => named(...)] as $token => $make) {
    foreach ($after as $what => $do) {
        $lock = $make();
        $how = run($lock, function () use ($lock, $do) {
            swallow();
            $isExpired = $lock->isExpired();

            return $do($lock) && $isExpired ? 'done' : 'not done';
        });
        same("$token token, $what", TOLD, $how);
        $lock->forceRelease();
    }
}

// What ends the callable may be the exception of another lock, or of the application: that says nothing of this one.
foreach ([
    'inner was lost' => fn () => doomed('inner')->synchronized(fn () => spin(20)),
    'ours' => fn () => throw new RedisLock\LockLostException('ours'),
] as $message => $end) {
    $how = run(doomed('outer'), function () use ($end) {
        swallow();
        $end();
    });
    same("what ends it: $message", [$message, 1], [$how[0], count($how['warnings'])]);
    same('  and what the warning says', 1, preg_match('/The lock "outer" was lost before the exception/', $how['warnings'][0] ?? ''));
}
PHP);
?>
--EXPECT--
drawn token, nothing: yes
drawn token, release(): yes
drawn token, forceRelease(): yes
drawn token, refresh(): yes
drawn token, acquire(): yes
drawn token, another holds it meanwhile, acquire(): yes
drawn token, synchronized(): yes
named token, nothing: yes
named token, release(): yes
named token, forceRelease(): yes
named token, refresh(): yes
named token, acquire(): yes
named token, another holds it meanwhile, acquire(): yes
named token, synchronized(): yes
what ends it: inner was lost: yes
  and what the warning says: yes
what ends it: ours: yes
  and what the warning says: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
