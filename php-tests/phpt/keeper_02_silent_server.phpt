--TEST--
Keeper: with the server gone or silent, scripts end in time all the same, also in the middle of a renewal
--DESCRIPTION--
The thread waits for an answer that does not come, or for a connection. The end of the process does not wait with it. What
frees the locks may wait for connect_timeout + 2 × command_timeout; half as much again is less than twice waiting.
--FILE--
<?php
require __DIR__ . '/keeper.inc';

use RedisLock\Tests\Support\TcpProxy;

$proxy = new TcpProxy(server()->port);
[$connect, $command] = [0.5, 1.5];
$hold = '
    for ($i = 0; $i < 20; $i++) {
        $locks[$i] = new RedisLock("key $i", ttl: 1.5, renew: true, interrupt: true, autoRelease: $argv[1] !== "left");
        $locks[$i]->acquire();
    }
    echo "held\n";
    fgets(STDIN);
    echo RedisLock::stats()["kept"], "\n";
';
foreach ([
    'silent' => [fn () => stopServer(), fn () => server()->kill(SIGCONT)],
    'silent before the first renewal' => [fn () => $proxy->silence(), fn () => $proxy->pass()],
    'gone' => [fn () => server()->stop(), fn () => server()->start()],
] as $how => [$break, $mend]) {
    $address = $how === 'silent before the first renewal' ? $proxy->tcp() : server()->unix();
    foreach ([
        // Nothing is to be freed then: only the thread could hold it up, and its answers could be waited for longer.
        'left to the ttl' => ['left', '', 0, 10, 2.0],
        'plain end' => ['', '', 0, 1, 1.5 * ($connect + 2 * $command)],
        'fatal error' => ['', 'trigger_error("the end", E_USER_ERROR);', 255, 1, 1.5 * ($connect + 2 * $command)],
    ] as $end => [$left, $code, $expected, $longer, $most]) {
        $child = script(str_replace('$argv[1]', "'$left'", $hold) . $code, [
            'redis_lock.servers' => $address,
            'redis_lock.command_timeout' => $longer * $command,
            'redis_lock.connect_timeout' => $longer * $connect,
        ]);
        $child->readLine();
        $break();
        // A third of the ttl, and a little: the first renewal is under way.
        usleep(600_000);
        $child->writeLine('end');
        $took = seconds(function () use ($child, &$status) {
            $status = $child->wait();
        });
        same("server $how, $end: it ends", $expected, $status);
        check('  in time', $took < $most, $took);
        check('  in the middle of it', (int) explode("\n", $child->output())[1] === 20, $child->output());
        $mend();
        server()->flush();
    }
}
?>
--EXPECT--
server silent, left to the ttl: it ends: yes
  in time: yes
  in the middle of it: yes
server silent, plain end: it ends: yes
  in time: yes
  in the middle of it: yes
server silent, fatal error: it ends: yes
  in time: yes
  in the middle of it: yes
server silent before the first renewal, left to the ttl: it ends: yes
  in time: yes
  in the middle of it: yes
server silent before the first renewal, plain end: it ends: yes
  in time: yes
  in the middle of it: yes
server silent before the first renewal, fatal error: it ends: yes
  in time: yes
  in the middle of it: yes
server gone, left to the ttl: it ends: yes
  in time: yes
  in the middle of it: yes
server gone, plain end: it ends: yes
  in time: yes
  in the middle of it: yes
server gone, fatal error: it ends: yes
  in time: yes
  in the middle of it: yes
