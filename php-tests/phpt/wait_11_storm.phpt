--TEST--
Wait: a storm of signals over many hand-overs; no two hold the key at once, and nobody is forgotten
--DESCRIPTION--
The handlers come in wherever a waiter is: between the try and the subscription, between the message and the request that
takes the offer. They lock, wait, and throw. A message that is lost costs most of a second, which is how it is noticed.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$inside = server()->folder . '/inside';
$counter = server()->folder . '/counter';
file_put_contents($counter, '0');
class Stop extends Exception
{
}

$work = function (int $rounds) use ($inside, $counter): array {
    $wrong = $long = [];
    $handled = $stopped = 0;
    $mayThrow = false;
    $other = new RedisLock('of the handlers', ttl: 60);
    pcntl_async_signals(true);
    pcntl_signal(SIGWINCH, function () use (&$mayThrow, &$handled, &$wrong, $other) {
        switch ($handled++ % 5) {
            case 0:
                $own = new RedisLock('own ' . getmypid(), ttl: 60);
                $own->acquire() && $own->release() || $wrong[] = 'own lock';
                break;
            case 1:
                // Another's, who waits for it in a handler as well.
                $other->acquire(wait: 0.005) && ($other->release() || $wrong[] = 'lock of the handlers');
                break;
            case 2:
                if ($mayThrow) {
                    $mayThrow = false;
                    throw new Stop();
                }
        }
    });
    $lock = new RedisLock('invoice', ttl: 60);
    for ($done = 0; $done < $rounds; ) {
        $start = now();
        try {
            $mayThrow = true;
            $lock->acquire(wait: 30) || $wrong[] = 'busy';
            $mayThrow = false;
        } catch (Stop) {
            $stopped++;
            if (!$lock->isAcquired()) {
                continue;
            }
            // It came when the lock was had already.
        }
        $long[] = now() - $start;
        @mkdir($inside) || $wrong[] = 'not alone';
        file_put_contents($counter, 1 + (int) file_get_contents($counter));
        @rmdir($inside);
        $lock->release() || $wrong[] = 'lost';
        if (++$done % 8 === 0) {
            // With a subscription of its own.
            $lock = new RedisLock('invoice', ttl: 60);
        }
    }
    rsort($long);

    return [$wrong, array_filter($long, fn (float $seconds) => $seconds > 0.6), $handled, $stopped];
};

$children = array_map(fn () => Fork::run(fn () => $work(80)), range(1, 4));
$pids = array_map(fn (Fork $child) => $child->pid, $children);
// A signal that does nothing to a child that has no handler yet, or no more.
$sender = rain(SIGWINCH, 0.001, ...$pids);
$long = [];
foreach ($children as $child) {
    $told = $child->wait();
    [$wrong, $ofChild, $handled, $stopped] = is_array($told) && isset($told[3]) ? $told : [$told, [], 0, 0];
    same('nothing went wrong', [], $wrong);
    check('while signals came in', $handled > 20 && $stopped > 0, [$handled, $stopped]);
    array_push($long, ...$ofChild);
}
$sender->kill();
same('nothing was done twice or lost', '320', file_get_contents($counter));
// Some for a machine that has other things to do.
check('nobody was forgotten', count($long) <= 4, $long);
check('nothing is left', eventually(fn () => left() === []), left());
?>
--EXPECT--
nothing went wrong: yes
while signals came in: yes
nothing went wrong: yes
while signals came in: yes
nothing went wrong: yes
while signals came in: yes
nothing went wrong: yes
while signals came in: yes
nothing was done twice or lost: yes
nobody was forgotten: yes
nothing is left: yes
