<?php

// The process behind TcpProxy: php tcp-proxy.php -- <port of the server>. It prints its own port, then takes
// orders on its standard input, answers each with one line once it is in force, and ends with the input.

set_error_handler(static fn () => true); // peers vanish at any time: that is what it is for

final class ProxiedConnection
{
    /** @var resource|null */
    public $server = null;
    public string $request = '';
    public bool $mute = false;
    /** What to do instead of passing the next reply on: "close" or "silent". */
    public ?string $lose = null;
    /** @var array<string, list<array{float, string}>> for either side, what is held back from it and until when */
    public array $due = ['client' => [], 'server' => []];

    /** @param resource $client */
    public function __construct(public $client)
    {
    }

    /** @return list<string> the names of the commands that are complete now */
    public function commands(string $bytes): array
    {
        $this->request .= $bytes;
        $names = [];
        while (preg_match('/^\*(\d+)\r\n/', $this->request, $match)) {
            $at = strlen($match[0]);
            for ($i = 0, $name = ''; $i < (int) $match[1]; $i++) {
                if (!preg_match('/\G\$(\d+)\r\n/', $this->request, $length, 0, $at)
                    || strlen($this->request) < $at + strlen($length[0]) + (int) $length[1] + 2) {
                    return $names;
                }
                $at += strlen($length[0]);
                $name = $i === 0 ? strtoupper(substr($this->request, $at, (int) $length[1])) : $name;
                $at += (int) $length[1] + 2;
            }
            $names[] = $name;
            $this->request = substr($this->request, $at);
        }

        return $names;
    }

    public function close(): void
    {
        fclose($this->client);
        if ($this->server !== null) {
            fclose($this->server);
        }
    }
}

$serverPort = (int) $argv[count($argv) - 1];
$listener = stream_socket_server('tcp://127.0.0.1:0');
$name = stream_socket_get_name($listener, false);
echo substr($name, strrpos($name, ':') + 1), "\n";

/** @var array<int, ProxiedConnection> $connections */
$connections = [];
$accepted = 0;
$seen = [];
$silence = false;
$delay = ['client' => 0.0, 'server' => 0.0];
$lose = ['*', 0, 'close'];

while (true) {
    $read = [STDIN, $listener];
    $wake = null;
    foreach ($connections as $connection) {
        $read[] = $connection->client;
        if ($connection->server !== null) {
            $read[] = $connection->server;
        }
        foreach (array_filter($connection->due) as $due) {
            $wake = min($wake ?? INF, $due[0][0]);
        }
    }
    $none = null;
    $pause = $wake === null ? null : max(0, (int) (($wake - microtime(true)) * 1e6) + 1);
    if ($pause === null) {
        stream_select($read, $none, $none, null);
    } else {
        stream_select($read, $none, $none, intdiv($pause, 1_000_000), $pause % 1_000_000);
    }

    if (in_array(STDIN, $read, true)) {
        $line = fgets(STDIN);
        if ($line === false) {
            exit;
        }
        $order = explode(' ', trim($line));
        $answer = 'done';
        switch ($order[0]) {
            case 'pass':
                [$silence, $lose] = [false, ['*', 0, 'close']];
                $delay = ['client' => 0.0, 'server' => 0.0];
                break;
            case 'silence':
                $silence = true;
                break;
            case 'delay':
                $delay[$order[1]] = (float) $order[2];
                break;
            case 'lose':
                $lose = [$order[1], (int) $order[2], $order[3]];
                break;
            case 'cut':
                foreach ($connections as $connection) {
                    $connection->close();
                }
                $connections = [];
                break;
            case 'connections':
                $answer = (string) $accepted;
                break;
            case 'requests':
                $answer = implode(' ', $seen);
                break;
        }
        echo $answer, "\n";
        continue; // a cut may have closed what is in $read
    }

    if (in_array($listener, $read, true) && $client = stream_socket_accept($listener, 0)) {
        $accepted++;
        $connections[] = $connection = new ProxiedConnection($client);
        // A silent server is connected to by its kernel all the same; so the real one only when it is needed.
        if (!$silence) {
            $connection->server = stream_socket_client("tcp://127.0.0.1:$serverPort") ?: null;
        }
        stream_set_blocking($client, false);
    }

    foreach ($connections as $id => $connection) {
        if (in_array($connection->client, $read, true)) {
            $bytes = fread($connection->client, 1 << 20);
            if ($bytes === '' || $bytes === false) {
                $connection->close();
                unset($connections[$id]);
                continue;
            }
            foreach ($connection->commands($bytes) as $command) {
                $seen[] = $command;
                if ($lose[1] > 0 && in_array($lose[0], ['*', $command], true)) {
                    $lose[1]--;
                    $connection->lose = $lose[2];
                }
            }
            if (!$silence && $connection->server !== null) {
                $connection->due['server'][] = [microtime(true) + $delay['server'], $bytes];
            } elseif (!$silence) {
                // Nothing listens behind the proxy.
                $connection->close();
                unset($connections[$id]);
                continue;
            }
        }

        if ($connection->server !== null && in_array($connection->server, $read, true)) {
            $bytes = fread($connection->server, 1 << 20);
            $ended = $bytes === '' || $bytes === false;
            if ($ended || $connection->lose === 'close') {
                $connection->close();
                unset($connections[$id]);
                continue;
            }
            $connection->mute = $connection->mute || $connection->lose === 'silent';
            if (!$connection->mute && !$silence) {
                $connection->due['client'][] = [microtime(true) + $delay['client'], $bytes];
            }
        }

        foreach (['client', 'server'] as $side) {
            while ($connection->due[$side] !== [] && $connection->due[$side][0][0] <= microtime(true)) {
                fwrite($connection->$side, array_shift($connection->due[$side])[1]);
            }
        }
    }
}
