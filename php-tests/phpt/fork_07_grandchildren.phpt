--TEST--
Fork: grandchildren, and a daemon that outlives its parent
--DESCRIPTION--
Whose lease it is goes by the process that took it, and not by who is whose child.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$lock = new RedisLock('invoice', ttl: 300);
$lock->acquire();
$token = $lock->getToken();

$seen = Fork::result(function () use ($lock) {
    $own = new RedisLock('of the child', ttl: 300);
    $own->acquire();
    $before = $own->getToken();
    $seen = Fork::result(fn () => [
        $lock->isAcquired(), $own->isAcquired(), $lock->release(), $own->release(),
        (new RedisLock('of the grandchild', ttl: 300))->acquire(),
    ]);

    return [$seen, $own->isAcquired(), $own->getToken() === $before, $own->getHolder()['pid'] === getmypid(), $own->release()];
});
same('the grandchild holds nothing but its own, the child holds', [[false, false, false, false, true], true, true, true, true], $seen);
same('the parent holds', [true, $token], [$lock->isAcquired(), server()->command('GET', 'invoice')]);
same('nothing else is left', ['invoice'], keys());
$lock->release();

// The parent ends while its child works on: what the parent held is freed, what the child holds is not.
$parent = script('
    $lock = new RedisLock("of the parent", ttl: 300);
    $lock->acquire();
    $pid = getmypid();
    if (pcntl_fork() === 0) {
        $own = new RedisLock("of the daemon", ttl: 300);
        $own->acquire();
        echo "daemon\n";
        while (posix_getppid() === $pid) {
            usleep(2000);
        }
        fgets(STDIN);
        echo $own->isAcquired() && $own->release() ? "released\n" : "lost\n";
        exit;
    }
    fgets(STDIN);
');
$parent->readLine();
$parent->writeLine('the parent ends');
check('the parent\'s is freed, the daemon\'s is not', eventually(fn () => keys() === ['of the daemon']), keys());
$parent->writeLine('the daemon ends');
same('the daemon released its own', 'released', $parent->readLine());
check('nothing is left', eventually(fn () => keys() === []), keys());

// A lock is handed to a child by its token.
$kept = new RedisLock('handed', ttl: 300, autoRelease: false);
$kept->acquire();
$token = $kept->getToken();
$seen = Fork::result(function () use ($token) {
    $mine = RedisLock::restore('handed', $token, ttl: 300);

    return [$mine->isAcquired(), $mine->refresh(), $mine->isAcquired(), $mine->getToken() === $token];
});
same('the child takes it over', [false, true, true, true], $seen);
same('and frees it at its end', [], keys());
same('the parent finds it gone', false, $kept->release());
?>
--EXPECT--
the grandchild holds nothing but its own, the child holds: yes
the parent holds: yes
nothing else is left: yes
the parent's is freed, the daemon's is not: yes
the daemon released its own: yes
nothing is left: yes
the child takes it over: yes
and frees it at its end: yes
the parent finds it gone: yes
