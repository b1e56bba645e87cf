--TEST--
End of the script: the memory limit frees the lock, also when the last bytes are used up
--DESCRIPTION--
As after a leak in small pieces: whatever the release needs must not come from the memory that has run out.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

endEachWay(
    'for ($crumbs = []; ; $crumbs[] = str_repeat("x", 40) . count($crumbs)) {
    }',
    says: 'Allowed memory size',
    ini: ['memory_limit' => '8M'],
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
