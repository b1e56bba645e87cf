<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\Cleanup;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\TcpProxy;

/** Servers that take connections and requests and never answer: every call ends in time. */
final class DeadlineTest extends LockTestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        $this->setting('connect_timeout', '0.2');
        $this->setting('command_timeout', '0.2');
    }

    public static function calls(): array
    {
        $work = static fn () => 'worked';
        $calls = [
            'acquire' => [false, 0.0, static fn (RedisLock $lock) => $lock->acquire()],
            'acquire with a wait' => [false, 0.5, static fn (RedisLock $lock) => $lock->acquire(0.5)],
            'acquire without a limit' => [false, 0.0, static fn (RedisLock $lock) => $lock->acquire(INF)],
            'synchronized' => [false, 0.5, static fn (RedisLock $lock) => $lock->synchronized($work, 0.5)],
            'getHolder' => [false, 0.0, static fn (RedisLock $lock) => $lock->getHolder()],
            'forceRelease' => [false, 0.0, static fn (RedisLock $lock) => $lock->forceRelease()],
            'refresh' => [true, 0.0, static fn (RedisLock $lock) => $lock->refresh()],
            'release' => [true, 0.0, static fn (RedisLock $lock) => $lock->release()],
        ];
        $rows = [];
        foreach (self::transports() as $name => [$transport]) {
            foreach ($calls as $call => $row) {
                $rows["$call, $name"] = [$transport, ...$row];
            }
        }

        return $rows;
    }

    /** @dataProvider calls */
    #[DataProvider('calls')]
    public function testASilentServer(string $transport, bool $held, float $wait, \Closure $call): void
    {
        static $server = null;
        $server ??= new RedisServer(['tls-auth-clients' => 'no'], tls: true);
        $lock = new RedisLock(self::key(), servers: $server->$transport());
        if ($held) {
            self::assertTrue($lock->acquire());
        }
        $server->kill(SIGSTOP);
        try {
            $e = self::caught(static fn () => self::withinDeadline(static fn () => $call($lock), $wait));
            self::assertSame(ConnectionException::class, $e::class);
            self::assertStringContainsString($transport === 'unix' ? $server->socket : '127.0.0.1:', $e->getMessage());
            self::assertStringContainsString('within 0.2 s', $e->getMessage());
            if ($held) {
                self::assertNotNull($lock->getToken(), 'kept: nothing definite was heard');
            }
            self::withinDeadline(static function () use (&$lock): void {
                $lock = null;
            });
        } finally {
            $server->kill(SIGCONT);
        }
    }

    /** @dataProvider transports */
    #[DataProvider('transports')]
    public function testASilentServerThatDoesNotEvenRead(string $transport): void
    {
        $server = new RedisServer(['tls-auth-clients' => 'no'], tls: true);
        self::assertNull((new RedisLock('key', servers: $server->$transport()))->getHolder());
        $server->kill(SIGSTOP);
        // More than the buffers between us and it can take.
        $lock = new RedisLock(str_repeat('long', 4 << 20), servers: $server->$transport());
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire()));
        self::assertSame(ConnectionException::class, $e::class);
        self::assertLessThan(1_000, strlen($e->getMessage()));
    }

    public function testAUnixSocketWhoseQueueIsFull(): void
    {
        $path = Cleanup::folder() . '/full.sock';
        $listener = stream_socket_server("unix://$path", $code, $reason, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN,
            stream_context_create(['socket' => ['backlog' => 1]]));
        $fillers = [];
        while ($filler = @stream_socket_client("unix://$path", $code, $reason, 0.1, STREAM_CLIENT_ASYNC_CONNECT)) {
            $fillers[] = $filler;
        }
        self::assertNotSame([], $fillers);
        $lock = new RedisLock('key', servers: "unix://$path");
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire()));
        self::assertSame(ConnectionException::class, $e::class);
        self::assertStringContainsString($path, $e->getMessage());
        fclose($listener);
    }

    /** @dataProvider transports */
    #[DataProvider('transports')]
    public function testAReleaseWithoutAnAnswerIsMadeGoodLater(string $transport): void
    {
        $server = new RedisServer(['tls-auth-clients' => 'no'], tls: true);
        $lock = new RedisLock('key', servers: $server->$transport());
        $lock->acquire();
        $server->kill(SIGSTOP);
        self::assertInstanceOf(ConnectionException::class, self::caught(static fn () => $lock->release()));
        $server->kill(SIGCONT);
        // Whether or not the request of then is carried out now: we held it, and it is free.
        self::assertTrue($lock->release());
        self::assertSame(0, $server->command('EXISTS', 'key'));
        self::assertNull($lock->getToken());
    }

    /** @dataProvider transports */
    #[DataProvider('transports')]
    public function testAnAcquireWithoutAnAnswerIsMadeGoodLater(string $transport): void
    {
        $server = new RedisServer(['tls-auth-clients' => 'no'], tls: true);
        $lock = new RedisLock('key', servers: $server->$transport());
        $lock->getHolder();
        $server->kill(SIGSTOP);
        self::assertInstanceOf(ConnectionException::class, self::caught(static fn () => $lock->acquire()));
        self::assertFalse($lock->isAcquired());
        $server->kill(SIGCONT);
        self::assertTrue($lock->acquire(), 'not busy by the request of then');
        self::assertSame($lock->getToken(), $server->command('GET', 'key'));
        self::assertTrue($lock->release());
        self::assertSame(0, $server->command('EXISTS', 'key'));
    }

    public function testAListenerThatNeverAnswersTheFirstRequest(): void
    {
        $proxy = new TcpProxy(RedisServer::shared()->port);
        $proxy->silence();
        $host = "127.0.0.1:$proxy->port";
        foreach (["redis://$host", "redis://:hidden@$host", "redis://$host/3", "rediss://$host"] as $address) {
            $lock = new RedisLock('key', servers: $address);
            $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire()));
            self::assertSame(ConnectionException::class, $e::class);
            self::assertStringContainsString($host, $e->getMessage());
            self::assertStringNotContainsString('hidden', $e->getMessage());
        }
    }

    public function testASilentMomentInTheMiddleOfAWaitEndsIt(): void
    {
        $server = RedisServer::shared();
        $proxy = new TcpProxy($server->port);
        $server->command('SET', 'key', 'another');
        $lock = new RedisLock('key', servers: $proxy->tcp());
        $lock->getHolder();
        $proxy->swallowReply(times: 100);
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire(20)));
        self::assertSame(ConnectionException::class, $e::class, 'down, not busy, and at once');
    }

    public function testADripOfBytesDoesNotStretchTheTime(): void
    {
        // Each byte in time, the reply never whole.
        $server = PhpProcess::code('
            $listener = stream_socket_server("tcp://127.0.0.1:0");
            echo stream_socket_get_name($listener, false), "\n";
            while ($client = stream_socket_accept($listener, 60)) {
                fread($client, 65536);
                @fwrite($client, "\$1000\r\n");
                for ($i = 0; $i < 100 && @fwrite($client, "x"); $i++) {
                    usleep(50_000);
                }
            }
        ');
        $lock = new RedisLock('key', servers: 'redis://' . $server->readLine());
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire()));
        self::assertSame(ConnectionException::class, $e::class);
        $server->kill();
    }
}
