<?php

namespace RedisLock\Tests\Support;

/**
 * A private redis-server, or the program that REDIS_SERVER names, on a free TCP port and a Unix socket of a temporary
 * folder, on request with TLS (its own authority, see Certificates). It keeps nothing on disk: restart() brings it back empty.
 *
 * It goes when this process ends. Shutdown functions run before an extension's end of request: what must be
 * seen of that (a lock freed by exit, say) is to be done in a PhpProcess.
 */
final class RedisServer
{
    public readonly string $folder;
    public readonly int $port;
    public readonly string $socket;
    public readonly ?int $tlsPort;
    public readonly ?Certificates $certificates;

    private static ?self $shared = null;
    private static ?self $sharedTls = null;

    /** @var resource|null */
    private $process = null;
    private ?RawClient $raw = null;
    private int $rawOwner = 0;
    private int $asked = 0;

    /**
     * @param array<string, string|int|list<string>> $config lines of redis.conf, a list for a name that repeats:
     *     ['requirepass' => 'x', 'timeout' => 1, 'user' => ['default off', 'app on >pw ~app:* +@all']]
     */
    public function __construct(private array $config = [], bool $tls = false)
    {
        $this->folder = Cleanup::folder();
        $this->port = $config['port'] ?? self::freePort();
        $this->socket = "$this->folder/redis.sock";
        $this->tlsPort = $tls ? self::freePort() : null;
        $this->certificates = $tls ? new Certificates($this->folder) : null;
        Cleanup::add($this->stop(...));
        $this->start();
    }

    /** One plain server for all tests that do not hurt it. */
    public static function shared(): self
    {
        return self::$shared ??= new self();
    }

    /** One server with TLS for all tests that do not hurt it. Client certificates are optional. */
    public static function sharedTls(): self
    {
        return self::$sharedTls ??= new self(['tls-auth-clients' => 'optional'], tls: true);
    }

    /** Empties the shared servers that run. */
    public static function flushShared(): void
    {
        self::$shared?->flush();
        self::$sharedTls?->flush();
    }

    /** redis://127.0.0.1:port; $login is "user:password" or ":password". */
    public function tcp(string $login = '', int $database = 0): string
    {
        return 'redis://' . ($login === '' ? '' : "$login@") . "127.0.0.1:$this->port"
            . ($database === 0 ? '' : "/$database");
    }

    /** unix:///path, with a query such as "db=2&password=x". */
    public function unix(string $query = ''): string
    {
        return "unix://$this->socket" . ($query === '' ? '' : "?$query");
    }

    /** rediss://127.0.0.1:port with the authority's file, and the client's certificate on request. */
    public function tls(bool $clientCertificate = false): string
    {
        $files = $this->certificates;

        return "rediss://127.0.0.1:$this->tlsPort?cafile=$files->ca"
            . ($clientCertificate ? "&cert=$files->clientCertificate&key=$files->clientKey" : '');
    }

    /** A new connection of the raw client. */
    public function connect(int $database = 0): RawClient
    {
        $client = new RawClient("unix://$this->socket");
        if (isset($this->config['requirepass'])) {
            $client->command('AUTH', $this->config['requirepass']);
        }
        if ($database !== 0) {
            $client->command('SELECT', $database);
        }

        return $client;
    }

    /** One command on a connection of our own that stays open; a forked child gets one of its own. */
    public function command(string|int|float ...$arguments): mixed
    {
        if ($this->rawOwner !== getmypid()) {
            $this->raw = null;
            $this->rawOwner = getmypid();
        }
        $this->asked++;

        return ($this->raw ??= $this->connect())->command(...$arguments);
    }

    /** The next command() is sent on a new connection: the old one may be closed. */
    public function reconnect(): void
    {
        $this->raw = null;
    }

    public function flush(): void
    {
        $this->command('FLUSHALL');
    }

    /** A number out of INFO. */
    public function info(string $name): int
    {
        preg_match("/^$name:(\\d+)/m", $this->command('INFO', 'all'), $match)
            || throw new \RuntimeException("INFO has no number $name.");

        return (int) $match[1];
    }

    /** How many requests others sent so far; command() is left out, what scripts do inside too. Differences count. */
    public function requests(): int
    {
        $reads = $this->info('total_reads_processed');

        return $reads - $this->asked;
    }

    /** How many commands of all clients the server carried out so far, our own question included. */
    public function commandsProcessed(): int
    {
        return $this->info('total_commands_processed');
    }

    /**
     * How often each command was carried out since resetCommandCounts(), our own questions left out.
     *
     * @return array<string, int> by lower-case name: ['set' => 2]
     */
    public function commandCounts(): array
    {
        preg_match_all('/^cmdstat_([^:]+):calls=(\d+)/m', $this->command('INFO', 'commandstats'), $matches);
        $counts = array_map(intval(...), array_combine($matches[1], $matches[2]));
        // Redis 6.2 does not tell CONFIG's subcommands apart.
        unset($counts['info'], $counts['config|resetstat'], $counts['config']);

        return $counts;
    }

    public function resetCommandCounts(): void
    {
        $this->command('CONFIG', 'RESETSTAT');
    }

    /**
     * The connections of others than our own command().
     *
     * @return list<array<string, string>> the fields of CLIENT LIST: id, addr, name, cmd…
     */
    public function clients(): array
    {
        $own = (string) $this->command('CLIENT', 'ID');
        $clients = [];
        foreach (explode("\n", trim($this->command('CLIENT', 'LIST'))) as $line) {
            $fields = [];
            foreach (explode(' ', $line) as $field) {
                [$name, $value] = explode('=', $field, 2);
                $fields[$name] = $value;
            }
            if ($fields['id'] !== $own) {
                $clients[] = $fields;
            }
        }

        return $clients;
    }

    /** Closes the connections of all others. */
    public function killClients(): void
    {
        $this->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        $this->command('PING'); // the server closes them before it serves the next command
    }

    public function version(): string
    {
        preg_match('/^redis_version:(.+)\r$/m', $this->command('INFO', 'server'), $match);

        return $match[1];
    }

    /** Also where it was stopped by a signal. */
    public function isRunning(): bool
    {
        return $this->process !== null;
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    /** SIGSTOP makes it silent, SIGCONT wakes it, SIGKILL ends it (start() brings it back). */
    public function kill(int $signal = SIGKILL): void
    {
        posix_kill($this->pid(), $signal);
        if ($signal === SIGKILL) {
            $this->stop();
        }
    }

    /** Ends it at once and starts it again on the same port and socket, empty. */
    public function restart(): void
    {
        $this->stop();
        $this->start();
    }

    public function stop(): void
    {
        $this->raw = null;
        if ($this->process !== null) {
            proc_terminate($this->process, SIGKILL);
            proc_close($this->process);
            $this->process = null;
        }
    }

    public function start(): void
    {
        $lines = ['bind' => '127.0.0.1', 'port' => $this->port, 'unixsocket' => $this->socket, 'dir' => $this->folder,
            'save' => '""', 'appendonly' => 'no', 'repl-diskless-sync-delay' => 0];
        if ($this->tlsPort !== null) {
            $lines += ['tls-port' => $this->tlsPort, 'tls-ca-cert-file' => $this->certificates->ca,
                'tls-cert-file' => $this->certificates->serverCertificate,
                'tls-key-file' => $this->certificates->serverKey];
        }
        $text = '';
        foreach ($this->config + $lines as $name => $values) {
            foreach ((array) $values as $value) {
                $text .= "$name $value\n";
            }
        }
        file_put_contents("$this->folder/redis.conf", $text);
        // A socket file of a killed server would be there before the new one listens.
        @unlink($this->socket);

        $log = ['file', "$this->folder/redis.log", 'a'];
        $this->process = proc_open(
            [getenv('REDIS_SERVER') ?: 'redis-server', "$this->folder/redis.conf"],
            [['file', '/dev/null', 'r'], $log, $log],
            $pipes,
        );

        for ($until = microtime(true) + 20; ; usleep(5_000)) {
            $running = proc_get_status($this->process)['running'];
            try {
                $this->connect()->command('PING');

                return;
            } catch (\RuntimeException $e) {
                if (!$running || microtime(true) > $until) {
                    throw new \RuntimeException("redis-server did not start: {$e->getMessage()}\n"
                        . file_get_contents("$this->folder/redis.log"));
                }
            }
        }
    }

    /** A TCP port of 127.0.0.1 on which nothing listens. */
    public static function freePort(): int
    {
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        $name = stream_socket_get_name($socket, false);
        fclose($socket);

        return (int) substr($name, strrpos($name, ':') + 1);
    }
}
