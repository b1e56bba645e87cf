--TEST--
Signals: handlers run while a connection is being made
--DESCRIPTION--
To a server that does not take connections, and to one that takes them and does not answer the first request or the
TLS handshake.
--INI--
redis_lock.connect_timeout=0.7
redis_lock.command_timeout=0.7
--FILE--
<?php
use RedisLock\Tests\Support\Certificates;

require __DIR__ . '/phpt.inc';

// The kernel takes connections for this one, until its queue is full.
$listen = function (string $address, int $backlog) {
    $server = stream_socket_server($address, context: stream_context_create(['socket' => ['backlog' => $backlog]]))
        ?: throw new RuntimeException("Cannot listen on $address.");

    return [$server, stream_socket_get_name($server, false)];
};
$fill = function (string $address): array {
    for ($clients = []; ($client = @stream_socket_client($address, timeout: 0.1)) && count($clients) < 100; ) {
        $clients[] = $client;
    }

    return $clients;
};
[$full, $fullName] = $listen('tcp://127.0.0.1:0', 1);
$clients = $fill("tcp://$fullName");
$path = server()->folder . '/full.sock';
[$fullUnix] = $listen("unix://$path", 1);
// A full queue of a Unix socket blocks a client, its time-out notwithstanding: fill it without waiting.
$moreClients = [];
for ($i = 0; $i < 10; $i++) {
    $moreClients[] = @stream_socket_client("unix://$path", flags: STREAM_CLIENT_CONNECT | STREAM_CLIENT_ASYNC_CONNECT, timeout: 0);
}
[$silent, $silentName] = $listen('tcp://127.0.0.1:0', 100);
// How many connections the silent one was asked for since the last call.
$asked = function () use ($silent) {
    for ($count = 0; @stream_socket_accept($silent, 0.0); $count++) {
    }

    return $count;
};

pcntl_async_signals(true);
foreach ([
    'no connection is taken' => "redis://$fullName",
    'no connection is taken, Unix socket' => "unix://$path",
    'the password is not answered' => "redis://:secret@$silentName",
    'the TLS handshake is not answered' => "rediss://$silentName?cafile=" . (new Certificates(server()->folder))->ca,
    'the first command is not answered' => "redis://$silentName",
] as $how => $address) {
    $handled = INF;
    pcntl_signal(SIGUSR1, function () use (&$handled) {
        $handled = now();
    });
    $sender = signals([0.1, SIGUSR1]);
    $took = seconds(function () use ($address, &$said) {
        $said = outcome(fn () => (new RedisLock('invoice', servers: $address))->acquire());
    });
    check($how, str_starts_with($said, RedisLock\ConnectionException::class), $said);
    check('  in time', $took > 0.6 && $took < 8.0, $took);
    $late = $handled - sentAt($sender)[0];
    check('  the handler ran at once', $late < 0.4, $late);

    $asked();
    pcntl_signal(SIGUSR1, function () {
        throw new DomainException('stop');
    });
    signals([0.1, SIGUSR1]);
    $took = seconds(function () use ($address, &$said) {
        $said = outcome(fn () => (new RedisLock('invoice', servers: $address))->acquire(wait: 30));
    });
    same('  it may throw', 'DomainException: stop', $said);
    check('  which ends the call, in its time', $took < 8.0, $took);
    if ($how === 'the password is not answered' || $how === 'the TLS handshake is not answered') {
        // The server has no request of which anything would have to be taken back.
        same('  with nothing more than was begun', 1, $asked());
    }
}
?>
--EXPECT--
no connection is taken: yes
  in time: yes
  the handler ran at once: yes
  it may throw: yes
  which ends the call, in its time: yes
no connection is taken, Unix socket: yes
  in time: yes
  the handler ran at once: yes
  it may throw: yes
  which ends the call, in its time: yes
the password is not answered: yes
  in time: yes
  the handler ran at once: yes
  it may throw: yes
  which ends the call, in its time: yes
  with nothing more than was begun: yes
the TLS handshake is not answered: yes
  in time: yes
  the handler ran at once: yes
  it may throw: yes
  which ends the call, in its time: yes
  with nothing more than was begun: yes
the first command is not answered: yes
  in time: yes
  the handler ran at once: yes
  it may throw: yes
  which ends the call, in its time: yes
