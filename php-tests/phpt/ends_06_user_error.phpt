--TEST--
End of the script: E_USER_ERROR frees the lock
--DESCRIPTION--
The engine jumps out of the callable over all native frames.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

endEachWay('trigger_error("of the callable", E_USER_ERROR);', says: 'Fatal error: of the callable');
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
