--TEST--
valgrind: a lock in a quorum reads and writes no memory that is not its own
--DESCRIPTION--
With two nodes that are well, and one to which a connection is being opened all the time. A lock is renewed and fenced,
waited for in vain, and taken in a handler during a wait and in a fork; the script ends by a fatal error in such a handler.
--SKIPIF--
<?php
require __DIR__ . '/valgrind.inc';
Valgrind::skip();
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';
require __DIR__ . '/valgrind.inc';

use RedisLock\Tests\Support\RedisServer;

$other = new RedisServer();
// Takes connections and answers nothing.
$listener = stream_socket_server('tcp://127.0.0.1:0');
$silent = 'redis://:password@' . stream_socket_get_name($listener, false);

$script = server()->folder . '/script.php';
$code = <<<'PHP'
<?php
ini_set('redis_lock.servers', '{SERVERS}');
pcntl_async_signals(true);
$done = [];
$lock = new RedisLock('lock', ttl: 60, fencing: true);
for ($i = 0; $i < 4; $i++) {
    $done[] = $lock->acquire() && $lock->getFence() > 0 && $lock->refresh() && $lock->getHolder()['pid'] === getmypid();
    $done[] = !(new RedisLock('lock'))->acquire(wait: $i === 3 ? 0.2 : 0);
    $done[] = $lock->release();
}
$renewed = new RedisLock('renewed', ttl: 3, renew: true);
$done[] = $renewed->acquire();
for ($until = microtime(true) + 20; RedisLock::stats()['renewals'] < 2 && microtime(true) < $until;) {
    usleep(1000);
}
$done[] = $renewed->isAcquired() && $renewed->release();

$held = new RedisLock('held', ttl: 60);
$done[] = $held->acquire();
pcntl_signal(SIGALRM, function () use (&$done) {
    $done[] = (new RedisLock('inner', ttl: 60))->synchronized(fn () => true);
    if (($pid = pcntl_fork()) === 0) {
        exit((new RedisLock('in the child', ttl: 60))->acquire() ? 0 : 1);
    }
    pcntl_waitpid($pid, $status);
    $done[] = $status === 0;
});
pcntl_alarm(1);
$done[] = !(new RedisLock('held'))->acquire(wait: 3);
echo count($done), ' steps', array_unique($done) === [true] ? "\n" : json_encode($done);
pcntl_signal(SIGALRM, fn () => trigger_error('the end', E_USER_ERROR));
pcntl_alarm(1);
(new RedisLock('held'))->synchronized(fn () => print('called'), wait: 20);
PHP;
file_put_contents($script, str_replace('{SERVERS}', server()->tcp() . " {$other->tcp()} $silent", $code));

(new Valgrind($script, 'quorum'))->finish('/^18 steps\n.*the end/s');
$keys = fn () => preg_grep('/:fence$/', [...server()->command('KEYS', '*'), ...$other->command('KEYS', '*')], PREG_GREP_INVERT);
check('nothing is left', eventually(fn () => $keys() === []), $keys());
?>
--EXPECT--
quorum: the script did all its steps: yes
  valgrind was there to the end: yes
  no error has the extension in its stack: yes
nothing is left: yes
