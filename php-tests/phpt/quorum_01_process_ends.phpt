--TEST--
Quorum: a process that ends while it holds a lock or waits for one leaves nothing on any node; one that is killed leaves the ttl
--DESCRIPTION--
Also with a node that is silent, and one to which a connection is being opened at that moment.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

use RedisLock\Tests\Support\RedisServer;

$nodes = [server(), new RedisServer(), new RedisServer()];
$servers = implode(' ', array_map(fn (RedisServer $node) => $node->tcp(), $nodes));
$settings = ['redis_lock.servers' => $servers, 'redis_lock.connect_timeout' => 0.5, 'redis_lock.command_timeout' => 0.5];
$values = fn () => array_map(fn (RedisServer $node) => $node->command('GET', 'invoice'), $nodes);
$isFree = fn () => eventually(fn () => $values() === [null, null, null], 5.0);
$listens = fn () => array_map(fn (RedisServer $node) => count($node->command('PUBSUB', 'CHANNELS')), $nodes);
$lock = new RedisLock('invoice', ttl: 60, servers: explode(' ', $servers));

foreach ([
    'exit()' => ['exit(7);', 7],
    'exception' => ['throw new DomainException("stop");', 255],
    'error' => ['trigger_error("stop", E_USER_ERROR);', 255],
    'memory limit' => ['str_repeat("x", 1 << 28);', 255],
    'kill' => ['posix_kill(getmypid(), SIGKILL);', 128 + SIGKILL],
] as $how => [$end, $status]) {
    $setup = "
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, function () { $end });
        \$lock = new RedisLock('invoice', ttl: 1.5);
    ";
    $holder = script("$setup \$lock->acquire(5); echo 'held', PHP_EOL; while (true) { usleep(10_000); }", $settings);
    $holder->readLine();
    eventually(fn () => count(array_filter($values())) === 3);
    $holder->signal(SIGUSR1);
    same("$how, holding", $status, $holder->wait());
    same('  all is free, at once unless it was killed', [$how !== 'kill', true], [eventually(fn () => $values() === [null, null, null], 0.7), $isFree()]);

    $lock->acquire() || print("busy\n");
    $waiter = script("$setup echo 'waits', PHP_EOL; \$lock->synchronized(fn () => print('called'), 30); echo 'it went on';", $settings);
    $waiter->readLine();
    eventually(fn () => min($listens()) === 1);
    $waiter->signal(SIGUSR1);
    $ended = $waiter->wait();
    check("$how, waiting", $ended === $status && !preg_match('/it went on|called/', $waiter->output()), [$ended, $waiter->output()]);
    same('  the holder has it on all nodes', 1, count(array_unique($values())));
    check('  nobody listens', eventually(fn () => max($listens()) === 0), $listens());
    $lock->release();
    check('  nothing is left', $isFree(), $values());
}

// A node that is silent is asked all the same, and carries all of it out when it goes on.
$nodes[2]->kill(SIGSTOP);
$child = script('$lock = new RedisLock("invoice", ttl: 300); $lock->acquire(); trigger_error("stop", E_USER_ERROR);', $settings);
same('with a silent node', 255, $child->wait());
$nodes[2]->kill(SIGCONT);
check('  nothing is left', $isFree(), $values());

// Nobody answers to the password, so that the opening goes on when the process ends.
$listener = stream_socket_server('tcp://127.0.0.1:0');
$silent = 'redis://:password@' . stream_socket_get_name($listener, false);
foreach (['exit;' => 0, 'trigger_error("stop", E_USER_ERROR);' => 255, 'posix_kill(getmypid(), SIGTERM);' => 128 + SIGTERM] as $end => $status) {
    $child = script(
        '$lock = new RedisLock("invoice", ttl: 300); echo $lock->acquire() ? "held" : "busy"; $lock->release();' . $end,
        ['redis_lock.servers' => "{$nodes[0]->tcp()} {$nodes[1]->tcp()} $silent"] + $settings,
    );
    $seconds = seconds(fn () => same("with an opening in the background, $end", [$status, true], [$child->wait(), str_starts_with($child->output(), 'held')]));
    check('  soon', $seconds < 2.5, $seconds);
    check('  nothing is left', $isFree(), $values());
}
?>
--EXPECT--
exit(), holding: yes
  all is free, at once unless it was killed: yes
exit(), waiting: yes
  the holder has it on all nodes: yes
  nobody listens: yes
  nothing is left: yes
exception, holding: yes
  all is free, at once unless it was killed: yes
exception, waiting: yes
  the holder has it on all nodes: yes
  nobody listens: yes
  nothing is left: yes
error, holding: yes
  all is free, at once unless it was killed: yes
error, waiting: yes
  the holder has it on all nodes: yes
  nobody listens: yes
  nothing is left: yes
memory limit, holding: yes
  all is free, at once unless it was killed: yes
memory limit, waiting: yes
  the holder has it on all nodes: yes
  nobody listens: yes
  nothing is left: yes
kill, holding: yes
  all is free, at once unless it was killed: yes
kill, waiting: yes
  the holder has it on all nodes: yes
  nobody listens: yes
  nothing is left: yes
with a silent node: yes
  nothing is left: yes
with an opening in the background, exit;: yes
  soon: yes
  nothing is left: yes
with an opening in the background, trigger_error("stop", E_USER_ERROR);: yes
  soon: yes
  nothing is left: yes
with an opening in the background, posix_kill(getmypid(), SIGTERM);: yes
  soon: yes
  nothing is left: yes
