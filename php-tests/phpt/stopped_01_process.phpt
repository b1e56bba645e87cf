--TEST--
Stopped: a process that is stopped and goes on, as by Ctrl-Z or a suspended machine
--DESCRIPTION--
Its clock jumps, from where it stands. A reply that came meanwhile is a reply; a lease whose time went by is lost.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$start = fn (string $code, array $ini = []) => script('
    $lock = new RedisLock("invoice", ttl: 1);
    $lock->acquire();
    $lock->release();
    echo getmypid(), "\n";
    fgets(STDIN);
' . $code, $ini);
$isStopped = fn (int $pid) => fn () => str_contains(file_get_contents("/proc/$pid/stat"), ') T ');

// In the middle of a command, for longer than its time; the reply comes in time.
$child = $start('
    $lock = new RedisLock("invoice", ttl: 300);
    echo json_encode([$lock->acquire(), $lock->isAcquired(), $lock->release()]), "\n";
', ['redis_lock.command_timeout' => 0.5]);
$pid = (int) $child->readLine();
stopServer();
$child->writeLine('go');
usleep(300_000);
posix_kill($pid, SIGSTOP);
server()->kill(SIGCONT);
check('the server granted it', eventually(fn () => keys() === ['invoice']), keys());
usleep(700_000);
posix_kill($pid, SIGCONT);
same('the reply counts', '[true,true,true]', $child->readLine());
same('the script ends well', 0, $child->wait());
same('nothing is left', [], keys());

// While it holds, past its ttl.
$child = $start('
    $lock->acquire();
    posix_kill(getmypid(), SIGSTOP);
    echo json_encode([$lock->isAcquired(), $lock->isExpired(), $lock->getRemainingLifetime() == 0, $lock->refresh(), $lock->release()]), "\n";
');
$pid = (int) $child->readLine();
$child->writeLine('go');
check('it stops while it holds', eventually($isStopped($pid)));
check('its lease ends', eventually(fn () => keys() === []));
posix_kill($pid, SIGCONT);
same('it knows', '[false,true,true,false,false]', $child->readLine());
same('the script ends well', 0, $child->wait());

// In synchronized(), past its ttl, while somebody else takes the lock.
$child = $start('
    try {
        $lock->synchronized(function () {
            posix_kill(getmypid(), SIGSTOP);
            return "result";
        });
    } catch (RedisLock\LockLostException $lost) {
        echo "lost, ", $lost->getResult(), "\n";
    }
');
$pid = (int) $child->readLine();
$child->writeLine('go');
check('it stops while it holds', eventually($isStopped($pid)));
check('its lease ends', eventually(fn () => keys() === []));
occupy('invoice');
posix_kill($pid, SIGCONT);
same('it is told', 'lost, result', $child->readLine());
same('the script ends well', 0, $child->wait());
same('the other one still holds', 'somebody else', server()->command('GET', 'invoice'));

// In a wait, past its time and all that a call may take beyond it.
$child = $start('
    echo $lock->acquire(wait: 0.8) ? "got it\n" : "busy\n";
', ['redis_lock.connect_timeout' => 0.2, 'redis_lock.command_timeout' => 0.2]);
$pid = (int) $child->readLine();
$child->writeLine('go');
usleep(300_000);
posix_kill($pid, SIGSTOP);
usleep(1_400_000);
posix_kill($pid, SIGCONT);
$took = seconds(fn () => same('the wait is over', 'busy', $child->readLine()));
check('at once', $took < 2.0, $took);
same('the script ends well', 0, $child->wait());
same('the other one still holds', ['invoice'], keys());
?>
--EXPECT--
the server granted it: yes
the reply counts: yes
the script ends well: yes
nothing is left: yes
it stops while it holds: yes
its lease ends: yes
it knows: yes
the script ends well: yes
it stops while it holds: yes
its lease ends: yes
it is told: yes
the script ends well: yes
the other one still holds: yes
the wait is over: yes
at once: yes
the script ends well: yes
the other one still holds: yes
