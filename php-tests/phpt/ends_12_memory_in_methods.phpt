--TEST--
End of the script: the memory limit is reached inside of the extension's own methods
--DESCRIPTION--
The engine jumps out of whatever asked it for memory: a string to return, an array, an exception to throw.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

foreach ([
    'new RedisLock()' => '$kept[] = new RedisLock("key");',
    'acquire()' => '$kept[] = $new = new RedisLock("key " . count($kept)); $new->acquire();',
    'getToken()' => '$kept[] = $lock->getToken();',
    'getKey()' => '$kept[] = $long->getKey();',
    'getHolder()' => '$kept[] = $memory->getHolder();',
    'synchronized()' => '$kept[] = $memory2->synchronized(fn () => str_repeat("x", 100) . count($kept));',
    'an exception of acquire()' => 'try { $lock->acquire(); } catch (Exception $e) { $kept[] = $e; }',
    'an exception of a wait' => '$most ??= str_repeat("x", 6 << 20);
        try { $busy->synchronized(fn () => 1, wait: 0.001); } catch (RedisLock\Exception $e) { $kept[] = $e; }',
    'an exception of new' => 'try { new RedisLock(""); } catch (Error $e) { $kept[] = $e; }',
    'restore()' => '$kept[] = RedisLock::restore("key", "token");',
    'createLock()' => '$kept[] = $factory->createLock("key");',
] as $what => $code) {
    $child = script('
        ini_set("memory_limit", "8M");
        $lock = new RedisLock("key", ttl: 300);
        $lock->acquire();
        $busy = new RedisLock("key");
        $long = new RedisLock(str_repeat("k", 3000));
        $memory = new RedisLock("key", servers: "memory://");
        $memory2 = new RedisLock("key2", servers: "memory://");
        $memory->acquire();
        $factory = new RedisLockFactory;
        $kept = [];
        echo "ready\n";
        for (;;) {
            ' . $code . '
        }
        // The end of a request has no more time than a call, and these may be many locks.
    ', ['redis_lock.command_timeout' => 20]);
    $status = $child->wait();
    check($what, $status === 255 && str_contains($child->output(), 'Allowed memory size'), [$status, $child->output()]);
    check('  nothing is left', eventually(fn () => left() === []), array_slice(left(), 0, 10));
    server()->flush();
}
?>
--EXPECT--
new RedisLock(): yes
  nothing is left: yes
acquire(): yes
  nothing is left: yes
getToken(): yes
  nothing is left: yes
getKey(): yes
  nothing is left: yes
getHolder(): yes
  nothing is left: yes
synchronized(): yes
  nothing is left: yes
an exception of acquire(): yes
  nothing is left: yes
an exception of a wait: yes
  nothing is left: yes
an exception of new: yes
  nothing is left: yes
restore(): yes
  nothing is left: yes
createLock(): yes
  nothing is left: yes
