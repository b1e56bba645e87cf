--TEST--
php-fpm: 2,000 requests on 4 workers lose no update, and each worker has two connections
--DESCRIPTION--
Workers are forked after the extension has started, and serve many requests: connections live longer than a request,
and belong to one worker: one for its commands, one over which it is told.
--SKIPIF--
<?php
require __DIR__ . '/fpm.inc';
if (fpmBinary() === null) {
    die('skip there is no php-fpm of this version');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';
require __DIR__ . '/fpm.inc';

$fpm = new Fpm(4, ['redis_lock.servers' => server()->unix()]);
$counter = "$fpm->folder/counter";
file_put_contents($counter, '0');
$before = server()->info('total_connections_received');

// Two more locks in each request, one of them left to the request's end.
$answers = $fpm->requests($fpm->script("
    \$own = new RedisLock('own ' . getmypid());
    \$own->acquire() || die('the worker\'s last request left its lock');
    \$alone = new RedisLock('alone ' . getmypid());
    \$alone->acquire() && \$alone->release() || die('the worker has no lock of its own');
    (new RedisLock('counter', ttl: 60))->synchronized(function () {
        \$count = (int) file_get_contents('$counter');
        usleep(100);
        file_put_contents('$counter', \$count + 1);
    }, wait: 60);
    echo getmypid();
"), times: 2000, atOnce: 8);

same('no update is lost', '2000', file_get_contents($counter));
$workers = array_unique($answers);
check('all workers took part, and said nothing else', count($workers) === 4 && max(array_map(strlen(...), $workers)) < 9, $workers);
same('each has two connections', 8, server()->info('total_connections_received') - $before);
same('which live on', 8, count(server()->clients()));
check('nothing is left', eventually(fn () => left() === []), left());
?>
--EXPECT--
no update is lost: yes
all workers took part, and said nothing else: yes
each has two connections: yes
which live on: yes
nothing is left: yes
