--TEST--
End of the script: an uncaught exception frees the lock, and is reported as ever
--DESCRIPTION--
Nobody catches it, so that nobody but the extension sees to the lock.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

endEachWay('throw new DomainException("of the callable");', says: 'Uncaught DomainException: of the callable');
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
