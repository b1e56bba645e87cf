--TEST--
Signals: a connection that died while idle raises no SIGPIPE
--DESCRIPTION--
PHP ignores the signal, but a script that starts programs may set it back to what kills.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
foreach (['tcp' => server()->tcp(), 'unix' => server()->unix()] as $name => $address) {
    $child = script('
        pcntl_signal(SIGPIPE, SIG_DFL);
        $lock = new RedisLock("key", ttl: 300);
        echo json_encode([$lock->acquire(), $lock->release()]), "\n";
        fgets(STDIN);
        echo json_encode([$lock->acquire(), $lock->release()]), "\n";
    ', ['redis_lock.servers' => $address]);
    same("$name: before", '[true,true]', $child->readLine());
    server()->restart();
    $child->writeLine('go');
    same('  after', '[true,true]', $child->readLine());
    same('  it ends well', 0, $child->wait());
}
?>
--EXPECT--
tcp: before: yes
  after: yes
  it ends well: yes
unix: before: yes
  after: yes
  it ends well: yes
