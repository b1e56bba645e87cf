--TEST--
Fork: a child that ends, in whatever way, leaves its parent's locks alone
--DESCRIPTION--
The child has copies of the parent's objects and of the list of leases to free at the end of the request. Freeing them
would take the lock from under the parent, which works on.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$held = new RedisLock('invoice', ttl: 300);
$kept = new RedisLock('other key', ttl: 300, autoRelease: false);
$held->acquire();
$kept->acquire();
$tokens = [$held->getToken(), $kept->getToken()];

foreach ([
    'returns' => [fn () => 'x', 0],
    'exit()' => [fn () => exit(3), 3],
    'drops the objects' => [function () use (&$held, &$kept) {
        $held = $kept = null;
        gc_collect_cycles();
    }, 0],
    'uncaught exception' => [fn () => throw new Exception('of the child'), 255],
    'error' => [fn () => trigger_error('of the child', E_USER_ERROR), 255],
    'memory limit' => [fn () => str_repeat('x', 1 << 28), 255],
    'SIGKILL' => [fn () => posix_kill(getmypid(), SIGKILL), 128 + SIGKILL],
    'its own lock, then exit()' => [fn () => (new RedisLock('own', ttl: 300))->acquire() && exit(4), 4],
    'its own lock, then an error' => [function () {
        $own = new RedisLock('own', ttl: 300);
        $own->acquire();
        trigger_error('of the child', E_USER_ERROR);
    }, 255],
] as $how => [$end, $status]) {
    $fork = new Fork();
    if ($fork->pid === 0) {
        $end();
        exit(0);
    }
    same("$how: the child ends so", $status, $fork->status());
    same('  the parent holds', [true, true, $tokens], [$held->isAcquired(), $kept->isAcquired(), [$held->getToken(), $kept->getToken()]]);
    same('  and Redis says so', $tokens, server()->command('MGET', 'invoice', 'other key'));
    same('  nothing else is there', ['invoice', 'other key'], keys());
}
same('the parent can refresh', true, $held->refresh());
same('the parent can release', [true, true], [$held->release(), $kept->release()]);
same('nothing is left', [], keys());
?>
--EXPECT--
returns: the child ends so: yes
  the parent holds: yes
  and Redis says so: yes
  nothing else is there: yes
exit(): the child ends so: yes
  the parent holds: yes
  and Redis says so: yes
  nothing else is there: yes
drops the objects: the child ends so: yes
  the parent holds: yes
  and Redis says so: yes
  nothing else is there: yes
uncaught exception: the child ends so: yes
  the parent holds: yes
  and Redis says so: yes
  nothing else is there: yes
error: the child ends so: yes
  the parent holds: yes
  and Redis says so: yes
  nothing else is there: yes
memory limit: the child ends so: yes
  the parent holds: yes
  and Redis says so: yes
  nothing else is there: yes
SIGKILL: the child ends so: yes
  the parent holds: yes
  and Redis says so: yes
  nothing else is there: yes
its own lock, then exit(): the child ends so: yes
  the parent holds: yes
  and Redis says so: yes
  nothing else is there: yes
its own lock, then an error: the child ends so: yes
  the parent holds: yes
  and Redis says so: yes
  nothing else is there: yes
the parent can refresh: yes
the parent can release: yes
nothing is left: yes
