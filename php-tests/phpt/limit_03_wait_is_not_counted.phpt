--TEST--
Time limit: a wait and a slow command are not counted, work under the lock is
--DESCRIPTION--
It counts CPU time: a wait that span would use the limit up, and one that lasts does not.
--SKIPIF--
<?php
if (PHP_ZTS) {
    die('skip the time limit may count by the wall clock there');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
occupy('invoice', ttl: 2.5);
$child = script('
    set_time_limit(1);
    $lock = new RedisLock("invoice", ttl: 300);
    echo $lock->acquire(wait: 20) ? "got it\n" : "busy\n";
    $lock->release();
    $lock->synchronized(function () {
        for (;;) {
        }
    });
');
same('it ends as by the time limit', 255, $child->wait());
check(
    'after the wait, in the work',
    preg_match('/^got it\n.*Maximum execution time of 1 second exceeded/s', $child->output()) === 1,
    $child->output(),
);
same('nothing is left', [], keys());
?>
--EXPECT--
it ends as by the time limit: yes
after the wait, in the work: yes
nothing is left: yes
