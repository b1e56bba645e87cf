--TEST--
Fork: four children draw four tokens
--DESCRIPTION--
A random generator that lives in the process is copied with it: children would draw the same numbers, and each would
take the others' locks for its own.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$draw = function (string $key) {
    $lock = new RedisLock($key);
    $lock->acquire();

    return substr($lock->getToken(), 0, 32);
};

foreach (['before the first lock', 'after it'] as $when) {
    $tokens = [];
    $children = array_map(fn (int $i) => Fork::run(fn () => $draw("child $i")), range(1, 4));
    foreach ($children as $child) {
        $tokens[] = $child->wait();
    }
    $tokens[] = $draw('parent');
    same("$when: all are 32 hexadecimal digits", [], preg_grep('/^[0-9a-f]{32}$/D', $tokens, PREG_GREP_INVERT));
    check("$when: no two are the same", count(array_unique($tokens)) === count($tokens) && count($tokens) >= 5, $tokens);
}
?>
--EXPECT--
before the first lock: all are 32 hexadecimal digits: yes
before the first lock: no two are the same: yes
after it: all are 32 hexadecimal digits: yes
after it: no two are the same: yes
