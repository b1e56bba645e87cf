--TEST--
End of the script: with the server gone or silent it ends all the same, in time and without a crash
--DESCRIPTION--
The end of a request frees all leases within one bound (connect_timeout + 2 * command_timeout), not one for each;
nor does a function that returns with an array of them hang for each.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

foreach ([
    'silent' => [fn () => stopServer(), fn () => server()->kill(SIGCONT)],
    'gone' => [fn () => server()->stop(), fn () => server()->start()],
] as $how => [$break, $mend]) {
    foreach ([
        'plain end' => ['', 0],
        'fatal error' => ['trigger_error("the end", E_USER_ERROR);', 255],
        'all dropped at once' => ['unset($locks);', 0],
    ] as $end => [$code, $expected]) {
        $child = script('
            for ($i = 0; $i < 50; $i++) {
                $locks[$i] = new RedisLock("key $i", ttl: 300);
                $locks[$i]->acquire();
            }
            echo "held\n";
            fgets(STDIN);
        ' . $code, ['redis_lock.command_timeout' => 0.5, 'redis_lock.connect_timeout' => 0.5]);
        $child->readLine();
        $break();
        $child->writeLine('end');
        $took = seconds(function () use ($child, &$status) {
            $status = $child->wait();
        });
        same("server $how, $end: it ends", $expected, $status);
        check('  in time', $took < 6.0, $took);
        $mend();
        server()->flush();
    }
}
?>
--EXPECT--
server silent, plain end: it ends: yes
  in time: yes
server silent, fatal error: it ends: yes
  in time: yes
server silent, all dropped at once: it ends: yes
  in time: yes
server gone, plain end: it ends: yes
  in time: yes
server gone, fatal error: it ends: yes
  in time: yes
server gone, all dropped at once: it ends: yes
  in time: yes
