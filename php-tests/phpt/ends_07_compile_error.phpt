--TEST--
End of the script: a compile error frees the lock
--DESCRIPTION--
As other fatal errors, but from the compiler, in the middle of eval().
--FILE--
<?php
require __DIR__ . '/phpt.inc';

endEachWay('eval("class A {} class A {}");', says: 'Fatal error: Cannot ');
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
