--TEST--
End of the script: exit() frees the lock
--DESCRIPTION--
It is an exception inside the engine, which no catch and no finally sees.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

endEachWay('exit(3);', says: '', status: 3);
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
