--TEST--
End of the script: a lock that is still held is freed
--DESCRIPTION--
Except where autoRelease is off, which is for handing the token to another process.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

endEachWay('', says: '', status: 0);
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
