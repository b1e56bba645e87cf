--TEST--
Keeper: scripts that end, in whatever way, while their leases are renewed
--DESCRIPTION--
The thread must not outlive what it uses, hold the process up, or renew what the end of the script has freed.
--FILE--
<?php
require __DIR__ . '/keeper.inc';

endEachWay(
    'usleep(250_000); echo RedisLock::stats()["renewals"] > 0 ? "renewed " : "not "; str_repeat("x", 1 << 26);',
    says: 'renewed',
    ini: ['redis_lock.renew' => 1, 'redis_lock.ttl' => 0.6, 'memory_limit' => '16M'],
);

// At once: the thread has hardly begun, or its lease is over, or it is just at it.
foreach (['at once' => 0, 'with a renewal under way' => 34_000] as $when => $pause) {
    $codes = [];
    for ($i = 0; $i < 60; $i++) {
        $fork = new Fork();
        if ($fork->pid === 0) {
            $lock = new RedisLock("child $i", ttl: 0.1, renew: true, interrupt: true);
            $lock->acquire();
            usleep($pause);
            exit(7);
        }
        $codes[] = $fork->status();
    }
    same("$when, 60 times", [7], array_values(array_unique($codes)));
    same('  all is free', [], keys());
}

// Many at once, one end for all of them.
$child = script('
    for ($i = 0; $i < 500; $i++) {
        $locks[$i] = new RedisLock("key $i", ttl: 1, renew: true, interrupt: true);
        $locks[$i]->acquire();
    }
    usleep(500_000);
    echo RedisLock::stats()["renewals"] >= 500 ? "renewed" : "not renewed";
    exit(7);
');
same('500 of them', [7, 'renewed', []], [$child->wait(), $child->output(), keys()]);
?>
--EXPECT--
in synchronized(): free
in synchronized(), autoRelease off: free
in synchronized() within another: free
in synchronized() within a fiber: free
in synchronized() of a suspended fiber: free
in a variable: free
in a local variable of a suspended fiber: free
in a static property: free
in a cycle: free
autoRelease off: left to its ttl
at once, 60 times: yes
  all is free: yes
with a renewal under way, 60 times: yes
  all is free: yes
500 of them: yes
