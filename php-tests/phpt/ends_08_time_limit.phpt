--TEST--
End of the script: the time limit frees the lock
--DESCRIPTION--
SIGPROF is how the engine tells itself that the time is over.
--SKIPIF--
<?php
if (PHP_ZTS) {
    die('skip the time limit has another signal there');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';

endEachWay(
    'set_time_limit(60);
    posix_kill(getmypid(), SIGPROF);
    for (;;) {
    }',
    says: 'Maximum execution time of 60 seconds exceeded',
);
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
