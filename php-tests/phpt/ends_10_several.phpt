--TEST--
End of the script: many locks at once are freed, released and lost ones make no trouble
--DESCRIPTION--
The list of what is to be freed must stay right while leases come and go in any order.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

$child = script('
    $locks = [];
    for ($i = 0; $i < 500; $i++) {
        $locks[$i] = new RedisLock("key $i", ttl: 300);
        $locks[$i]->acquire();
    }
    for ($i = 0; $i < 100; $i++) {
        $locks[$i]->release();
    }
    // Of these the objects go first, in a random order.
    shuffle($locks);
    array_splice($locks, 0, 100);
    echo count($locks), "\n";
    fgets(STDIN);
    trigger_error("the end", E_USER_ERROR);
');
same('it holds many', '400', $child->readLine());
// Somebody else's now; the child does not know.
$stolen = array_slice(keys(), 0, 100);
foreach ($stolen as $key) {
    occupy($key);
}
$child->writeLine('end');
same('it ends', 255, $child->wait());
same('all its own are free, the others are left', $stolen, keys());
same('and theirs still', [], array_filter($stolen, fn ($key) => server()->command('GET', $key) !== 'somebody else'));
?>
--EXPECT--
it holds many: yes
it ends: yes
all its own are free, the others are left: yes
and theirs still: yes
