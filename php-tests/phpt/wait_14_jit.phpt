--TEST--
Wait: in hot loops of the JIT, with hand-overs, handlers and time limit
--DESCRIPTION--
Compiled code is entered again from a wait that is told, left by an exception, or left by a jump.
--INI--
opcache.enable_cli=1
opcache.jit=tracing
opcache.jit_buffer_size=32M
--SKIPIF--
<?php
if (!function_exists('opcache_get_status')) {
    die('skip there is no opcache');
}
if (PHP_ZTS || !in_array(php_uname('m'), ['x86_64', 'aarch64'], true)) {
    die('skip there is no JIT for this machine, or another signal for the time limit');
}
?>
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
same('the JIT is on', true, opcache_get_status(false)['jit']['on'] ?? null);
$file = server()->folder . '/counter';
file_put_contents($file, '0');
pcntl_async_signals(true);

function work(string $file, int $rounds): int
{
    $lock = new RedisLock('invoice', ttl: 60);
    $sum = 0;
    for ($i = 0; $i < $rounds; $i++) {
        $sum += $lock->synchronized(function () use ($file, $i) {
            file_put_contents($file, 1 + (int) file_get_contents($file));

            return $i;
        }, wait: 30);
    }

    return $sum;
}

$rivals = [Fork::run(fn () => work($file, 200)), Fork::run(fn () => work($file, 200))];
pcntl_signal(SIGALRM, function () use (&$handled) {
    $handled++;
});
$rain = rain(SIGALRM, 0.001, getmypid());
same('hand-overs among three, with handlers', 19_900, work($file, 200));
$rain->kill();
same('lose nothing', [19_900, 19_900, '600'], [$rivals[0]->wait(), $rivals[1]->wait(), file_get_contents($file)]);
check('the handlers ran', $handled > 20, $handled);

$holder = new RedisLock('invoice', ttl: 60);
$holder->acquire();
pcntl_signal(SIGUSR1, function () {
    throw new DomainException('stop');
});
$hot = function (string $key): void {
    for ($i = 0, $lock = new RedisLock($key, ttl: 60); ; $i++) {
        if ($i < 2000 ? !$lock->release() && $lock->acquire() : $lock->acquire(wait: 20)) {
            break;
        }
    }
};
$sender = signalWhenQueued('invoice');
same('a handler throws out of a wait in a hot loop', 'DomainException: stop', outcome(fn () => $hot('invoice')));
same('  and nothing is left of it', [true, ['invoice']], [$sender->wait(), left()]);

$child = script('
    set_time_limit(60);
    for ($i = 0, $lock = new RedisLock("invoice", ttl: 60); ; $i++) {
        if ($lock->acquire(wait: $i % 1000 === 999 ? 20.0 : 0.0)) {
            break;
        }
    }
    echo "it went on";
', ['opcache.enable_cli' => 1, 'opcache.jit' => 'tracing', 'opcache.jit_buffer_size' => '32M']);
awaitQueued('invoice', $child->pid());
$child->signal(SIGPROF);
same('the time limit ends a wait in a hot loop', 255, $child->wait());
check('  and says so', str_contains($child->output(), 'Maximum execution time of 60 seconds exceeded')
    && !str_contains($child->output(), 'it went on'), $child->output());
same('  and nothing is left of it', ['invoice'], left());
same('the holder can release', true, $holder->release());
check('nothing is left', eventually(fn () => left() === []), left());
?>
--EXPECT--
the JIT is on: yes
hand-overs among three, with handlers: yes
lose nothing: yes
the handlers ran: yes
a handler throws out of a wait in a hot loop: yes
  and nothing is left of it: yes
the time limit ends a wait in a hot loop: yes
  and says so: yes
  and nothing is left of it: yes
the holder can release: yes
nothing is left: yes
