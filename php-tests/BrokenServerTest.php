<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\CommandException;
use RedisLock\ConnectionException;
use RedisLock\LockLostException;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\RawError;
use RedisLock\Tests\Support\RedisServer;

/** Servers that are down, refuse, forget or answer with an error: never "busy", never a hang, never a secret told. */
final class BrokenServerTest extends LockTestCase
{
    /** Every call that asks the server, on a lock that is not held. */
    public static function calls(): array
    {
        return [
            'acquire' => [static fn (RedisLock $lock) => $lock->acquire()],
            'acquire with a wait' => [static fn (RedisLock $lock) => $lock->acquire(5)],
            'synchronized' => [static fn (RedisLock $lock) => $lock->synchronized(static fn () => self::fail('not to be called'), 5)],
            'getHolder' => [static fn (RedisLock $lock) => $lock->getHolder()],
            'forceRelease' => [static fn (RedisLock $lock) => $lock->forceRelease()],
            'refresh of a handle' => [static fn (RedisLock $lock, \Closure $handle) => $handle()->refresh()],
            'release of a handle' => [static fn (RedisLock $lock, \Closure $handle) => $handle()->release()],
            'acquire of a handle' => [static fn (RedisLock $lock, \Closure $handle) => $handle()->acquire()],
        ];
    }

    /** Makes the call; returns what it threw, which must come in time and name the server. */
    private static function failure(\Closure $call, string $address, string $name, float $wait = 0.0): \Throwable
    {
        $lock = new RedisLock('key', servers: $address);
        $handle = static fn () => RedisLock::restore('key', 'a secret token', servers: $address);
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $call($lock, $handle), $wait));
        self::assertInstanceOf(\RedisLock\Exception::class, $e);
        self::assertStringContainsString($name, $e->getMessage());
        self::assertStringNotContainsString('secret', $e->getMessage());
        self::assertStringNotContainsString('secret', (string) $e->getPrevious());
        self::assertFalse($lock->isAcquired());

        return $e;
    }

    /** @dataProvider calls */
    #[DataProvider('calls')]
    public function testNothingListens(\Closure $call): void
    {
        $port = RedisServer::freePort();
        $e = self::failure($call, "redis://user:secret@127.0.0.1:$port/2", "redis://127.0.0.1:$port/2");
        self::assertSame(ConnectionException::class, $e::class);
        self::assertStringContainsStringIgnoringCase('connection refused', $e->getMessage());

        $e = self::failure($call, 'unix:///nowhere/redis.sock?password=secret', 'unix:///nowhere/redis.sock');
        self::assertSame(ConnectionException::class, $e::class);
        self::assertStringContainsStringIgnoringCase('no such file', $e->getMessage());
    }

    public function testAHostThatDoesNotExist(): void
    {
        $this->setting('connect_timeout', '0.5');
        $this->setting('command_timeout', '0.5');
        $e = self::failure(static fn (RedisLock $lock) => $lock->acquire(), 'redis://no-such-host.invalid:6379', 'no-such-host.invalid');
        self::assertSame(ConnectionException::class, $e::class);
    }

    public function testAServerThatGoesAwayInTheMiddleOfAWait(): void
    {
        $server = new RedisServer();
        $server->command('SET', 'key', 'another');
        $killer = PhpProcess::code('usleep(300_000); posix_kill((int) $argv[1], SIGKILL);', [$server->pid()]);
        $lock = new RedisLock('key', servers: $server->tcp());
        $e = self::caught(static fn () => $lock->acquire(30));
        self::assertSame(ConnectionException::class, $e::class, 'not busy');
        $killer->wait();
    }

    /** @dataProvider calls */
    #[DataProvider('calls')]
    public function testAWrongPassword(\Closure $call): void
    {
        static $server = null;
        $server ??= new RedisServer(['requirepass' => 'right', 'user' => ['app on >right ~* &* +@all']]);
        foreach ([$server->tcp(':secret'), $server->tcp('app:secret'), $server->tcp('nobody:secret')] as $address) {
            $e = self::failure($call, $address, "redis://127.0.0.1:$server->port");
            self::assertSame(ConnectionException::class, $e::class);
            self::assertStringContainsString('WRONGPASS', $e->getMessage());
        }
        $e = self::failure($call, $server->unix('password=secret'), "unix://$server->socket");
        self::assertSame(ConnectionException::class, $e::class);

        // None at all.
        $e = self::failure($call, $server->tcp(), "redis://127.0.0.1:$server->port");
        self::assertSame(ConnectionException::class, $e::class);
        self::assertStringContainsString('NOAUTH', $e->getMessage());
    }

    public function testTheRightPassword(): void
    {
        $password = 'p@ss/w:rd?#%&+ ä';
        $server = new RedisServer(['user' => ['app on >right ~* &* +@all', 'käse on >right ~* &* +@all']]);
        $server->command('CONFIG', 'SET', 'requirepass', $password);
        $encoded = rawurlencode($password);
        $user = rawurlencode('käse');
        foreach ([":$encoded", "default:$encoded", 'app:right', "$user:right"] as $login) {
            self::assertTrue((new RedisLock('key', servers: $server->tcp($login)))->acquire());
        }
        foreach (["password=$encoded", "user=default&password=$encoded", 'user=app&password=right&db=3'] as $query) {
            self::assertTrue((new RedisLock('key', servers: $server->unix($query)))->acquire());
        }
    }

    public function testADatabaseThatDoesNotExist(): void
    {
        $server = new RedisServer(['databases' => 2]);
        $e = self::failure(static fn (RedisLock $lock) => $lock->acquire(), $server->tcp('user:secret', database: 5), "redis://127.0.0.1:$server->port/5");
        $e = self::failure(static fn (RedisLock $lock) => $lock->acquire(), $server->tcp(database: 5), "redis://127.0.0.1:$server->port/5");
        self::assertTrue((new RedisLock('key', servers: $server->tcp(database: 1)))->acquire());
    }

    /** @dataProvider transports */
    #[DataProvider('transports')]
    public function testAConnectionThatDiedWhileIdleIsReplacedSilently(string $transport): void
    {
        $server = $transport === 'tls' ? RedisServer::sharedTls() : RedisServer::shared();
        $lock = new RedisLock('key', servers: self::address($transport));
        $operator = new RedisLock('key', servers: self::address($transport));
        $calls = [
            static fn () => $lock->acquire(),
            static fn () => $lock->refresh(),
            static fn () => $lock->getHolder()['pid'] === getmypid(),
            static fn () => $lock->release(),
            static fn () => $lock->acquire(1),
            static fn () => $operator->forceRelease(),
            static fn () => !$lock->release(),
            static fn () => $lock->synchronized(static function () use ($server): bool {
                $server->killClients();

                return true;
            }),
            static fn () => RedisLock::restore('key', 'token', servers: self::address($transport))->acquire(),
        ];
        $lock->getHolder();
        foreach ($calls as $number => $call) {
            $server->killClients();
            usleep(2_000); // idle, and not in the middle of something
            self::assertTrue($call(), "call $number");
        }
        $lock = new RedisLock('other', servers: self::address($transport));
        $lock->acquire();
        $server->killClients();
        unset($lock);
        self::assertSame(0, $server->command('EXISTS', 'other'), 'also on destruction');
    }

    public function testAServerThatClosesIdleConnections(): void
    {
        $server = new RedisServer(['timeout' => 1]);
        $lock = new RedisLock('key', servers: $server->tcp());
        self::assertTrue($lock->acquire());
        self::eventually(static function () use ($server): bool {
            $server->command('PING'); // ours stays

            return $server->clients() === [];
        }, 'the server closes the idle connection');
        self::assertTrue($lock->release());
        self::assertTrue($lock->acquire());
    }

    public function testScriptsThatAreForgottenBetweenAnyTwoCalls(): void
    {
        $server = RedisServer::shared();
        $lock = new RedisLock('key', servers: $server->tcp());
        $other = new RedisLock('key', servers: $server->tcp());
        for ($round = 0; $round < 2; $round++) {
            foreach ([
                static fn () => $lock->acquire(),
                static fn () => !$other->acquire(0.03),
                static fn () => $other->getHolder()['pid'] === getmypid(),
                static fn () => $lock->refresh(),
                static fn () => $lock->release(),
                static fn () => !$lock->release(),
                static fn () => $lock->acquire(),
                static fn () => $other->forceRelease(),
                static fn () => !$lock->release(),
                static fn () => RedisLock::restore('key', 'token', servers: $server->tcp())->acquire(),
                static fn () => $lock->synchronized(static fn () => true),
            ] as $number => $call) {
                $server->command('SCRIPT', 'FLUSH');
                self::assertTrue($call(), "call $number");
            }
        }
    }

    public function testAServerThatWasRestartedEmptyWhileHeld(): void
    {
        $server = new RedisServer();
        $lock = new RedisLock('key', servers: $server->tcp());
        $lock->acquire();
        $server->restart();
        self::assertFalse($lock->release());
        self::assertFalse($lock->isAcquired());

        $lock->acquire();
        $server->restart();
        self::assertFalse($lock->refresh());
        self::assertFalse($lock->isAcquired());
        self::assertTrue($lock->isExpired());
        self::assertSame(0, $server->command('DBSIZE'), 'nothing is created by that');

        $e = self::caught(static fn () => $lock->synchronized(static function () use ($server): string {
            $server->restart();

            return 'done';
        }));
        self::assertInstanceOf(LockLostException::class, $e);
        self::assertSame('done', $e->getResult());
    }

    public function testAServerThatIsDownWhileHeldAndComesBack(): void
    {
        $this->setting('command_timeout', '0.3');
        $server = new RedisServer();
        $lock = new RedisLock('key', servers: $server->unix());
        $lock->acquire();
        $token = $lock->getToken();
        $server->kill();
        self::assertInstanceOf(ConnectionException::class, self::caught(static fn () => $lock->refresh()));
        self::assertTrue($lock->isAcquired(), 'no answer is no loss');
        self::assertInstanceOf(ConnectionException::class, self::caught(static fn () => $lock->release()));
        self::assertSame($token, $lock->getToken(), 'kept for another try');
        $server->start();
        $server->command('SET', 'key', $token, 'PX', 30_000);
        self::assertTrue($lock->release());
        self::assertSame(0, $server->command('EXISTS', 'key'));
    }

    public function testAReadOnlyReplica(): void
    {
        $primary = RedisServer::shared();
        $replica = new RedisServer(['replicaof' => "127.0.0.1 $primary->port"]);
        $holder = new RedisLock('key', servers: $primary->tcp());
        $holder->acquire();
        self::eventually(static fn () => $replica->command('EXISTS', 'key') === 1, 'the key comes to the replica');

        foreach ([$replica->tcp(), $replica->unix()] as $address) {
            foreach (['key', 'free'] as $key) {
                $lock = new RedisLock($key, servers: $address);
                foreach ([static fn () => $lock->acquire(), static fn () => $lock->acquire(5)] as $call) {
                    $e = self::caught(static fn () => self::withinDeadline($call));
                    self::assertInstanceOf(CommandException::class, $e, 'not busy');
                    self::assertStringContainsString('READONLY', $e->getMessage());
                    self::assertStringContainsString(explode('?', $address)[0], $e->getMessage());
                }
            }
            // Ours as far as it knows, another's, and nobody's: it is not the one to say.
            foreach ([['key', $holder->getToken()], ['key', 'another'], ['free', 'another']] as [$key, $token]) {
                foreach (['acquire', 'release', 'refresh'] as $method) {
                    $e = self::caught(static fn () => RedisLock::restore($key, $token, servers: $address)->$method());
                    self::assertInstanceOf(CommandException::class, $e, "$method of $key");
                    self::assertStringContainsString('READONLY', $e->getMessage());
                }
            }
            $handle = RedisLock::restore('key', $holder->getToken(), servers: $address);
            self::assertSame(getmypid(), $handle->getHolder()['pid'], 'reading works');
        }
        self::assertTrue($holder->release());
    }

    public function testAPrimaryThatBecameAReplica(): void
    {
        $server = new RedisServer();
        $lock = new RedisLock('key', servers: $server->tcp());
        $lock->acquire();
        // Of a primary that does not answer, so that it keeps what it has.
        $server->command('REPLICAOF', '127.0.0.1', RedisServer::freePort());
        foreach ([static fn () => $lock->refresh(), static fn () => $lock->release()] as $call) {
            $e = self::caught($call);
            self::assertInstanceOf(CommandException::class, $e);
            self::assertStringContainsString('READONLY', $e->getMessage());
            self::assertNotNull($lock->getToken(), 'kept');
        }
        $server->command('REPLICAOF', 'NO', 'ONE');
        self::assertTrue($lock->release());
    }

    public function testAFullServer(): void
    {
        $server = new RedisServer(['maxmemory-policy' => 'noeviction']);
        $held = new RedisLock('held', servers: $server->tcp());
        $left = new RedisLock('left', servers: $server->tcp());
        $held->acquire();
        $left->acquire();
        $server->command('SCRIPT', 'FLUSH');
        $server->command('CONFIG', 'SET', 'maxmemory', 1);

        $lock = new RedisLock('key', servers: $server->tcp());
        foreach ([static fn () => $lock->acquire(), static fn () => $lock->acquire(3)] as $call) {
            $e = self::caught($call);
            self::assertSame(CommandException::class, $e::class, 'not busy');
            self::assertStringContainsString('OOM', $e->getMessage());
            self::assertStringContainsString($server->tcp(), $e->getMessage());
        }
        self::assertFalse((new RedisLock('held', servers: $server->tcp()))->isAcquired());
        self::assertSame(getmypid(), $lock->getHolder()['pid'] ?? (new RedisLock('held', servers: $server->tcp()))->getHolder()['pid']);
        self::assertTrue($held->refresh());
        self::assertTrue($held->release(), 'the way out always works');
        self::assertTrue((new RedisLock('left', servers: $server->tcp()))->forceRelease());
        self::assertSame(0, $server->command('DBSIZE'));
    }

    /** @dataProvider calls */
    #[DataProvider('calls')]
    public function testAScriptThatHangsTheServer(\Closure $call): void
    {
        $this->setting('command_timeout', '0.5');
        $server = new RedisServer(['lua-time-limit' => 20]);
        $name = "redis://127.0.0.1:$server->port";
        (new RedisLock('warm', servers: $server->tcp()))->acquire();
        $hung = $server->connect();
        $hung->send('EVAL', 'while true do end', 0);
        $observer = $server->connect();
        $isBusy = static function () use ($observer): bool {
            try {
                $observer->command('PING');
            } catch (RawError $e) {
                return str_starts_with($e->getMessage(), 'BUSY');
            }

            return false;
        };
        self::eventually($isBusy, 'the server says BUSY');

        $e = self::failure($call, $server->tcp(), $name);
        self::assertSame(CommandException::class, $e::class);
        self::assertStringContainsString('BUSY', $e->getMessage());

        $observer->command('SCRIPT', 'KILL');
        self::eventually(static fn () => !$isBusy(), 'the script ends');
        self::assertTrue((new RedisLock('key', servers: $server->tcp()))->acquire());
    }

    public function testAServerThatIsPaused(): void
    {
        $this->setting('command_timeout', '0.3');
        $server = new RedisServer();
        $lock = new RedisLock('key', servers: $server->tcp());
        $server->command('CLIENT', 'PAUSE', 60_000, 'WRITE');
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire()));
        self::assertSame(ConnectionException::class, $e::class);
        $server->command('CLIENT', 'UNPAUSE');
        self::assertTrue($lock->acquire());
    }

    public static function garbage(): array
    {
        return ['HTTP' => ["HTTP/1.1 400 Bad Request\r\n\r\n"], 'SSH' => ["SSH-2.0-OpenSSH\r\n"], 'a wrong type' => [":7\r\n"],
            'another word' => ["+QUEUED\r\n"], 'an array' => ["*2\r\n+a\r\n:1\r\n"], 'an endless string' => ["\$999999999999\r\nx"],
            'deep nesting' => [str_repeat("*1\r\n", 20_000)], 'half a reply' => ["+O"],
            'bytes' => ["\0\xff\0\xff"], 'nothing' => ['']];
    }

    /** @dataProvider garbage */
    #[DataProvider('garbage')]
    public function testAServerThatIsNoRedis(string $answer): void
    {
        $this->setting('command_timeout', '0.3');
        $process = PhpProcess::code('
            $listener = stream_socket_server("tcp://127.0.0.1:0");
            echo stream_socket_get_name($listener, false), "\n";
            while ($client = stream_socket_accept($listener, 60)) {
                fread($client, 65536);
                fwrite($client, base64_decode($argv[1]));
                fclose($client);
            }
        ', [base64_encode($answer)]);
        $address = 'redis://' . $process->readLine();
        foreach (['acquire', 'getHolder', 'forceRelease'] as $method) {
            $lock = new RedisLock('key', servers: $address);
            $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->$method()));
            self::assertInstanceOf(\RedisLock\Exception::class, $e, "$method(): {$e->getMessage()}");
            self::assertStringContainsString($address, $e->getMessage());
            self::assertFalse($lock->isAcquired());
        }
        $process->kill();
        $process->wait();
    }

    public function testOneBrokenServerDoesNotDisturbAnother(): void
    {
        $down = new RedisLock('key', servers: 'redis://127.0.0.1:' . RedisServer::freePort());
        $up = new RedisLock('key', servers: RedisServer::shared()->tcp());
        self::assertTrue($up->acquire());
        self::assertInstanceOf(ConnectionException::class, self::caught(static fn () => $down->acquire()));
        self::assertTrue($up->release());
    }

    public function testAServerThatStartsLateIsFound(): void
    {
        $server = new RedisServer();
        $server->kill();
        $lock = new RedisLock('key', servers: $server->tcp());
        self::assertInstanceOf(ConnectionException::class, self::caught(static fn () => $lock->acquire()));
        $server->start();
        self::assertTrue($lock->acquire());
    }

    public function testWhatASilentServerStillHoldsIsFreedWhenItAnswersAgain(): void
    {
        $this->setting('connect_timeout', 0.2);
        $this->setting('command_timeout', 0.2);
        $server = new RedisServer();
        $locks = [];
        foreach (range(1, 10) as $number) {
            $locks[$number] = new RedisLock("key $number", ttl: 60, servers: $server->tcp());
            self::assertTrue($locks[$number]->acquire());
        }
        $server->kill(SIGSTOP);
        [, $seconds] = self::timed(static function () use (&$locks): void {
            $locks = [];
        });
        self::assertLessThan(2.0, $seconds, 'it is waited for once, and not for each lock');
        $server->kill(SIGCONT);

        self::assertTrue((new RedisLock('another', servers: $server->tcp()))->acquire());
        self::assertSame(0, $server->command('DBSIZE'), 'and the lock of the last call was dropped, too');
    }

    public function testAServerThatAnswersWithAnErrorIsNotSilent(): void
    {
        $server = new RedisServer();
        $server->command('ACL', 'SETUSER', 'user', 'on', '>secret', '+@all', '~ours:*');
        $address = $server->tcp('user:secret');
        $theirs = RedisLock::restore('theirs:key', 'token', servers: $address);
        $server->command('SET', 'theirs:key', 'token');
        self::assertInstanceOf(CommandException::class, self::caught(static fn () => $theirs->acquire()));
        unset($theirs);

        $lock = new RedisLock('ours:key', servers: $address);
        self::assertTrue($lock->acquire());
        unset($lock);
        self::assertSame(0, $server->command('EXISTS', 'ours:key'));
    }
}
