<?php

namespace RedisLock\Tests\Support;

/**
 * A primary, its replicas and three Sentinels that watch them, all on free ports of 127.0.0.1. A fail-over takes a
 * second or two. A Sentinel is the program that REDIS_SERVER names, as the servers are.
 */
final class Sentinels
{
    public const NAME = 'main';

    /** @var list<RedisServer> the first was the primary at the start */
    public readonly array $servers;
    /** @var list<int> */
    public readonly array $ports;

    /** Whether a fail-over is over within seconds. Otherwise an old primary is one for ten seconds more. */
    public readonly bool $areQuick;

    /** @var list<resource> */
    private array $processes = [];
    private int $cleanup;

    /**
     * @param string $password          of the servers
     * @param string $sentinelPassword  of the Sentinels
     * @param array<string, string|int> $config lines of redis.conf of all servers
     */
    public function __construct(
        int $replicas = 1,
        private string $password = '',
        private string $sentinelPassword = '',
        array $config = [],
    ) {
        $config += ['repl-diskless-sync' => 'yes', 'repl-ping-replica-period' => 1]
            + ($password === '' ? [] : ['requirepass' => $password, 'masterauth' => $password]);
        $servers = [new RedisServer($config)];
        while (count($servers) <= $replicas) {
            $servers[] = new RedisServer($config + ['replicaof' => "127.0.0.1 {$servers[0]->port}"]);
        }
        $this->servers = $servers;
        $this->ports = array_map(RedisServer::freePort(...), [null, null, null]);
        $this->cleanup = Cleanup::add($this->stop(...));
        $ids = array_map(static fn () => bin2hex(random_bytes(20)), $this->ports);
        foreach ($this->ports as $i => $port) {
            $this->processes[$i] = $this->start($port, $ids[$i], array_combine($this->ports, $ids));
        }
        self::eventually($this->areReady(...), 'the Sentinels know everything');
        $this->areQuick = !in_array(false, array_map($this->hurry(...), array_keys($this->ports)), true);
    }

    /** redis+sentinel://…; $login is "user:password" or ":password" of the servers, $query that of the Sentinels. */
    public function address(?string $login = null, ?string $query = null, ?array $ports = null): string
    {
        $login ??= $this->password === '' ? '' : ':' . rawurlencode($this->password);
        $query ??= $this->sentinelPassword === '' ? '' : 'sentinel_password=' . rawurlencode($this->sentinelPassword);
        $hosts = implode(',', array_map(static fn (int $port) => "127.0.0.1:$port", $ports ?? $this->ports));

        return 'redis+sentinel://' . ($login === '' ? '' : "$login@") . "$hosts/" . self::NAME . ($query === '' ? '' : "?$query");
    }

    /** The server that a Sentinel takes for the primary. */
    public function primary(int $sentinel = 0): RedisServer
    {
        $port = (int) $this->command($sentinel, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', self::NAME)[1];

        return array_values(array_filter($this->servers, static fn (RedisServer $server) => $server->port === $port))[0];
    }

    /**
     * Begins a fail-over: "crash" kills the primary, "hang" stops it, "command" asks a Sentinel for it.
     *
     * @return RedisServer the old primary
     */
    public function failOver(string $how): RedisServer
    {
        $old = $this->primary();
        match ($how) {
            'crash' => $old->kill(),
            'hang' => $old->kill(SIGSTOP),
            'command' => self::eventually(fn () => $this->beginsFailOver(), 'a fail-over can begin'),
        };

        return $old;
    }

    /** Not while another one is under way, or no replica is fit to be the primary. */
    private function beginsFailOver(): bool
    {
        try {
            return $this->command(0, 'SENTINEL', 'FAILOVER', self::NAME) === 'OK';
        } catch (RawError) {
            return false;
        }
    }

    /** Waits for the end of the fail-over that began with failOver(). @return RedisServer the new primary */
    public function eventuallyFailedOver(RedisServer $old): RedisServer
    {
        self::eventually(function () use ($old): bool {
            foreach (array_keys($this->ports) as $i) {
                if ($this->primary($i) === $old) {
                    return false;
                }
            }

            return $this->primary()->connect()->command('ROLE')[0] === 'master';
        }, 'a fail-over');
        // Sentinels close all connections of a server whose role changes.
        array_map(static fn (RedisServer $server) => $server->reconnect(), $this->servers);

        return $this->primary();
    }

    /** Waits until the replicas have all that the primary has. */
    public function eventuallyReplicated(): void
    {
        $primary = $this->primary();
        $offset = $primary->info('master_repl_offset');
        foreach ($this->servers as $server) {
            // Not by WAIT, which may look no further than at what its own connection has written.
            $has = static fn () => $server === $primary || $server->info('slave_repl_offset') >= $offset;
            self::eventually($has, 'replication');
        }
    }

    public function command(int $sentinel, string|int ...$words): mixed
    {
        $client = new RawClient("tcp://127.0.0.1:{$this->ports[$sentinel]}");
        if ($this->sentinelPassword !== '') {
            $client->command('AUTH', $this->sentinelPassword);
        }
        $answer = $client->command(...$words);
        $client->close();

        return $answer;
    }

    /** SIGSTOP makes a Sentinel silent, SIGCONT wakes it, SIGKILL ends it. */
    public function kill(int $sentinel, int $signal = SIGKILL): void
    {
        posix_kill(proc_get_status($this->processes[$sentinel])['pid'], $signal);
    }

    public function stop(): void
    {
        foreach ($this->processes as $process) {
            proc_terminate($process, SIGKILL);
            proc_close($process);
        }
        $this->processes = [];
        foreach ($this->servers as $server) {
            $server->stop();
        }
        Cleanup::forget($this->cleanup);
    }

    /**
     * @param array<int, string> $ids of all, by their ports
     *
     * @return resource
     */
    private function start(int $port, string $id, array $ids)
    {
        $folder = Cleanup::folder();
        $primary = $this->servers[0]->port;
        $name = self::NAME;
        $lines = ['bind 127.0.0.1', "port $port", "dir $folder", "sentinel myid $id",
            "sentinel monitor $name 127.0.0.1 $primary 2", "sentinel down-after-milliseconds $name 500",
            "sentinel failover-timeout $name 2000"];
        if ($this->password !== '') {
            $lines[] = "sentinel auth-pass $name $this->password";
        }
        if ($this->sentinelPassword !== '') {
            array_push($lines, "requirepass $this->sentinelPassword", "sentinel sentinel-pass $this->sentinelPassword");
        }
        // So that they need not find each other, which takes seconds.
        foreach (array_slice($this->servers, 1) as $replica) {
            $lines[] = "sentinel known-replica $name 127.0.0.1 $replica->port";
        }
        foreach (array_diff_key($ids, [$port => 0]) as $other => $otherId) {
            $lines[] = "sentinel known-sentinel $name 127.0.0.1 $other $otherId";
        }
        file_put_contents("$folder/sentinel.conf", implode("\n", $lines) . "\n");
        $log = ['file', "$folder/sentinel.log", 'a'];

        return proc_open(
            [getenv('REDIS_SERVER') ?: 'redis-server', "$folder/sentinel.conf", '--sentinel'],
            [['file', '/dev/null', 'r'], $log, $log],
            $pipes,
        );
    }

    /** Makes it look and talk more often than is usual, and not stop for half a minute where the machine is busy. */
    private function hurry(int $sentinel): bool
    {
        // A replica whose INFO is older than five pings is not promoted, and in a fail-over that comes once a second.
        $settings = ['info-period' => 200, 'ping-period' => 300, 'ask-period' => 100, 'publish-period' => 200,
            'tilt-trigger' => 60_000];
        foreach ($settings as $name => $value) {
            try {
                $this->command($sentinel, 'SENTINEL', 'DEBUG', $name, $value);
            } catch (RawError) {
                return false; // Redis 6.2 has no such command, and takes its time.
            }
        }

        return true;
    }

    private function areReady(): bool
    {
        try {
            foreach (array_keys($this->ports) as $i) {
                $primary = self::fields($this->command($i, 'SENTINEL', 'MASTER', self::NAME));
                if ($primary['flags'] !== 'master' || (int) $primary['num-other-sentinels'] !== 2) {
                    return false;
                }
                // Answers with an error while too few can vote.
                $this->command($i, 'SENTINEL', 'CKQUORUM', self::NAME);
                foreach ($this->command($i, 'SENTINEL', 'REPLICAS', self::NAME) as $replica) {
                    $replica = self::fields($replica);
                    if ($replica['flags'] !== 'slave' || $replica['master-link-status'] !== 'ok') {
                        return false;
                    }
                }
            }

            return true;
        } catch (\RuntimeException) {
            return false;
        }
    }

    /** @param list<string> $answer */
    private static function fields(array $answer): array
    {
        $pairs = array_chunk($answer, 2);

        return array_combine(array_column($pairs, 0), array_column($pairs, 1));
    }

    private static function eventually(callable $condition, string $what): void
    {
        for ($until = microtime(true) + 30; !$condition(); usleep(5_000)) {
            if (microtime(true) > $until) {
                throw new \RuntimeException("It did not come in 30 s: $what");
            }
        }
    }
}
