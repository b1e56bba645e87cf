--TEST--
Fork: in synchronized(), children share the work, the parent holds the lock for them all
--DESCRIPTION--
The usual pattern: one lock around a pool of children that end at different times, none of them a zombie that the
extension made, none of them freeing anything.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$lock = new RedisLock('nightly job', ttl: 300);
$holders = $lock->synchronized(function () use ($lock) {
    $children = array_map(fn (int $i) => Fork::run(function () use ($i) {
        usleep($i * 50_000);

        return (new RedisLock('nightly job'))->getHolder()['pid'];
    }), range(0, 4));

    return [...array_map(fn (Fork $child) => $child->wait(), $children), $lock->isAcquired()];
});
same('each child saw that its parent holds', [...array_fill(0, 5, getmypid()), true], $holders);
same('then it is free', [], keys());

$children = file_get_contents('/proc/self/task/' . getmypid() . '/children');
same('no child is left but the server', (string) server()->pid(), trim($children));
?>
--EXPECT--
each child saw that its parent holds: yes
then it is free: yes
no child is left but the server: yes
