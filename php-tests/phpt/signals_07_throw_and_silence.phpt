--TEST--
Signals: an exception of a handler in a command that gets no answer in time leaves no key behind
--DESCRIPTION--
The command is lost and found: the server stops with the SET in its socket, the handler throws, the command's time runs
out, and only then does the server go on and carry it out. The end of the script is the last chance to take it back.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$child = script('
    $lock = new RedisLock("invoice", ttl: 60);
    $lock->acquire();
    $lock->release();
    pcntl_async_signals(true);
    pcntl_signal(SIGUSR1, function () {
        throw new DomainException("stop");
    });
    echo getmypid(), "\n";
    fgets(STDIN);
    try {
        $start = hrtime(true);
        $lock->acquire();
        echo "nothing was thrown\n";
    } catch (Throwable $thrown) {
        echo $thrown::class, "\n", (hrtime(true) - $start) / 1e9, "\n";
    }
    fgets(STDIN);
', ['redis_lock.command_timeout' => 1]);
$pid = (int) $child->readLine();

stopServer();
$child->writeLine('acquire');
usleep(500_000);
posix_kill($pid, SIGUSR1);
same('the exception gets out', 'DomainException', $child->readLine());
$took = (float) $child->readLine();
check('in the time of the command', $took < 6.0, $took);

server()->kill(SIGCONT);
check('the server goes on', server()->command('PING') === 'PONG');
$child->writeLine('end');
same('the script ends well', 0, $child->wait());
same('nothing is left', [], keys());
?>
--EXPECT--
the exception gets out: yes
in the time of the command: yes
the server goes on: yes
the script ends well: yes
nothing is left: yes
