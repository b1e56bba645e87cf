--TEST--
End of the script: the memory limit frees the lock
--DESCRIPTION--
The engine leaves in the middle of native code then; what is there on its stack never gets its turn.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

endEachWay('str_repeat("x", 1 << 26);', says: 'Allowed memory size', ini: ['memory_limit' => '16M']);
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
