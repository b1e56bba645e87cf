--TEST--
Interrupt: a lock that is lost during a call that blocks is thrown when that call returns
--DESCRIPTION--
Native code cannot be interrupted, and is not disturbed: it takes the time that it takes. The statement after it is not
reached.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
use RedisLock\Tests\Support\RawClient;

$address = ini_get('redis_lock.servers');
$calls = [
    'usleep()' => fn () => usleep(250_000),
    'time_nanosleep()' => fn () => time_nanosleep(0, 250_000_000),
    'stream_select()' => function () {
        $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $streams = [$pair[0]];
        $none = null;
        stream_select($streams, $none, $none, 0, 250_000);
    },
    'proc_close()' => fn () => proc_close(proc_open(['sleep', '0.25'], [], $pipes)),
    'a query' => function () use ($address) {
        if (class_exists('Redis')) {
            $redis = new Redis();
            $redis->connect(substr($address, strlen('unix://')));
            $redis->rawCommand('BLPOP', 'empty', 0.25);
        } else {
            (new RawClient($address))->command('BLPOP', 'empty', 0.25);
        }
    },
];
foreach ($calls as $what => $call) {
    $lock = doomed();
    $reached = null;
    $took = seconds(function () use ($lock, $call, &$reached, &$seen) {
        $seen = run($lock, function () use ($call, &$reached) {
            $reached = false;
            $call();
            $reached = true;
            spin(5);
        });
    });
    same("$what: it is thrown", INTERRUPTED, $seen);
    check('  as soon as it returned', $reached === false && $took > 0.24 && $took < 1.5, [$reached, $took]);
}
PHP);

// Lost at the next renewal, which comes although this thread of PHP is stuck.
$lock = new RedisLock('key', ttl: 0.6, renew: true, interrupt: true);
$seen = run($lock, function () use (&$asleep, &$awake) {
    server()->command('SET', 'key', 'somebody else');
    $asleep = true;
    sleep(1);
    $awake = true;
});
same('a renewed lock: thrown after sleep()', [INTERRUPTED, true, null], [$seen, $asleep, $awake]);
same('  the other one has the key', 'somebody else', server()->command('GET', 'key'));
?>
--EXPECT--
usleep(): it is thrown: yes
  as soon as it returned: yes
time_nanosleep(): it is thrown: yes
  as soon as it returned: yes
stream_select(): it is thrown: yes
  as soon as it returned: yes
proc_close(): it is thrown: yes
  as soon as it returned: yes
a query: it is thrown: yes
  as soon as it returned: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
a renewed lock: thrown after sleep(): yes
  the other one has the key: yes
