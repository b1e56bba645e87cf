--TEST--
Fork: parent and children work at the same time, each on its own connections
--DESCRIPTION--
With a shared connection replies get mixed: an acquire would be answered with somebody else's OK.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$file = server()->folder . '/counter';
file_put_contents($file, '0');
$lock = new RedisLock('parent', ttl: 60);
$lock->acquire();
$lock->release();
$before = server()->info('total_connections_received');

$work = function (string $name) use ($file) {
    $lock = new RedisLock($name, ttl: 60);
    $shared = new RedisLock('counter', ttl: 60);
    for ($i = 0; $i < 200; $i++) {
        if (!$lock->acquire() || $lock->getHolder()['pid'] !== getmypid() || !$lock->refresh() || !$lock->release()) {
            return "round $i failed";
        }
        if ($i % 8 === 0) {
            $shared->synchronized(fn () => file_put_contents($file, 1 + (int) file_get_contents($file)), wait: 60);
        }
    }

    return 'good';
};
$children = array_map(fn (int $i) => Fork::run(fn () => $work("child $i")), range(1, 4));
same('the parent', 'good', $work('parent'));
foreach ($children as $child) {
    same('a child', 'good', $child->wait());
}
same('nothing was done twice or lost', '125', file_get_contents($file));
$made = server()->info('total_connections_received') - $before;
check('two connections at most for each child, for the parent one over which it is told', $made >= 4 && $made <= 9, $made);
same('nothing is left', [], keys());
?>
--EXPECT--
the parent: yes
a child: yes
a child: yes
a child: yes
a child: yes
nothing was done twice or lost: yes
two connections at most for each child, for the parent one over which it is told: yes
nothing is left: yes
