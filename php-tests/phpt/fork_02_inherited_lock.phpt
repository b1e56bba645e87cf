--TEST--
Fork: in the child an inherited lock is not acquired, and cannot be released
--DESCRIPTION--
The object is a copy, the lease is not: it is the parent's, who may release it at any moment.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$lock = new RedisLock('invoice', ttl: 300);
$lock->acquire();
$token = $lock->getToken();

$seen = Fork::result(fn () => [
    'isAcquired' => $lock->isAcquired(),
    'isExpired' => $lock->isExpired(),
    'token' => $lock->getToken(),
    'lifetime' => $lock->getRemainingLifetime(),
    'key' => $lock->getKey(),
    'release' => $lock->release(),
    'refresh' => $lock->refresh(),
    'busy' => $lock->acquire(),
    'holder' => $lock->getHolder()['pid'] === posix_getppid(),
]);
same('the child has none of it', [
    'isAcquired' => false,
    'isExpired' => false,
    'token' => null,
    'lifetime' => null,
    'key' => 'invoice',
    'release' => false,
    'refresh' => false,
    'busy' => false,
    'holder' => true,
], $seen);
same('the parent holds', [true, $token, $token], [$lock->isAcquired(), $lock->getToken(), server()->command('GET', 'invoice')]);

// The same object, used by both, one after the other.
$child = Fork::run(fn () => [$lock->acquire(wait: 20), $lock->isAcquired(), $lock->getToken(), $lock->release(), $lock->release()]);
usleep(100_000);
same('the parent releases', true, $lock->release());
$seen = $child->wait();
same('the child gets it with the same object', [true, true, true, false], [$seen[0], $seen[1], $seen[3], $seen[4]]);
check('with a token of its own', is_string($seen[2]) && $seen[2] !== $token, $seen[2]);
same('nothing is left', [], keys());
?>
--EXPECT--
the child has none of it: yes
the parent holds: yes
the parent releases: yes
the child gets it with the same object: yes
with a token of its own: yes
nothing is left: yes
