<?php

namespace RedisLock\Tests;

use RedisLock;
use RedisLock\ConnectionException;
use RedisLock\Tests\Support\Certificates;
use RedisLock\Tests\Support\Cleanup;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\RedisServer;

/** TLS: who is trusted, who is not, and what is said about it. (That locks work over it stands in LockTest.) */
final class TlsTest extends LockTestCase
{
    public function testAnAuthorityOfOurOwn(): void
    {
        $server = RedisServer::sharedTls();
        self::assertTrue((new RedisLock('key', servers: $server->tls()))->acquire());
        $byName = str_replace('127.0.0.1', 'localhost', $server->tls());
        self::assertTrue((new RedisLock('by name', servers: $byName))->acquire());
        $encoded = "rediss://127.0.0.1:$server->tlsPort/1?cafile=" . rawurlencode($server->certificates->ca);
        self::assertTrue((new RedisLock('encoded', servers: $encoded))->acquire());
    }

    public function testAnotherAuthority(): void
    {
        $server = RedisServer::sharedTls();
        $others = new Certificates(Cleanup::folder());
        $this->assertRefused("rediss://user:hidden@127.0.0.1:$server->tlsPort?cafile=$others->ca", 'certificate');
    }

    public function testTheSystemsAuthoritiesDoNotKnowOurs(): void
    {
        $this->assertRefused('rediss://127.0.0.1:' . RedisServer::sharedTls()->tlsPort, 'certificate');
    }

    public function testACertificateForAnotherName(): void
    {
        $server = new RedisServer(['bind' => '127.0.0.1 127.0.0.2', 'tls-auth-clients' => 'no'], tls: true);
        $this->assertRefused(str_replace('//127.0.0.1', '//127.0.0.2', $server->tls()), 'certificate');
        self::assertTrue((new RedisLock('key', servers: $server->tls()))->acquire());
    }

    public function testAServerThatAsksForOurCertificate(): void
    {
        $server = new RedisServer(['tls-auth-clients' => 'yes'], tls: true);
        $lock = new RedisLock('key', servers: $server->tls(clientCertificate: true));
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->release());
        $this->assertRefused($server->tls(), '');

        $others = new Certificates(Cleanup::folder());
        $this->assertRefused($server->tls() . "&cert=$others->clientCertificate&key=$others->clientKey", '');
    }

    public function testAPlainClientOnATlsPort(): void
    {
        $this->assertRefused('redis://127.0.0.1:' . RedisServer::sharedTls()->tlsPort, '');
    }

    public function testATlsClientOnAPlainPort(): void
    {
        $server = RedisServer::sharedTls();
        $this->assertRefused("rediss://127.0.0.1:$server->port?cafile={$server->certificates->ca}", '');
    }

    public function testFilesThatAreMissingOrEmpty(): void
    {
        $server = RedisServer::sharedTls();
        $folder = Cleanup::folder();
        touch("$folder/empty");
        file_put_contents("$folder/garbage", "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n");
        $files = $server->certificates;
        $base = "rediss://127.0.0.1:$server->tlsPort";
        foreach (["$base?cafile=$folder/missing", "$base?cafile=$folder/empty", "$base?cafile=$folder/garbage",
            "$base?cafile=$folder", "$base?cafile=$files->ca&cert=$folder/missing&key=$files->clientKey",
            "$base?cafile=$files->ca&cert=$files->clientCertificate&key=$folder/missing",
            "$base?cafile=$files->ca&cert=$files->clientKey&key=$files->clientCertificate",
            "$base?cafile=$files->ca&cert=$files->clientCertificate&key=$files->serverKey"] as $address) {
            $this->assertRefused($address, '');
        }
    }

    public function testPasswordAndDatabase(): void
    {
        $server = new RedisServer(['tls-auth-clients' => 'no', 'requirepass' => 'secret'], tls: true);
        $address = str_replace(['rediss://', '?'], ['rediss://:secret@', '/2?'], $server->tls());
        $lock = new RedisLock('key', servers: $address);
        self::assertTrue($lock->acquire());
        self::assertSame(1, $server->connect(database: 2)->command('EXISTS', 'key'));
        $this->assertRefused(str_replace(':secret@', ':hidden@', $address), "rediss://127.0.0.1:$server->tlsPort/2");
    }

    public function testAMegabyte(): void
    {
        $key = str_repeat('long', 1 << 18);
        $lock = new RedisLock($key, servers: RedisServer::sharedTls()->tls());
        self::assertTrue($lock->acquire());
        self::assertFalse((new RedisLock($key, servers: RedisServer::sharedTls()->tls()))->acquire());
        self::assertTrue($lock->release());
    }

    public function testRenewal(): void
    {
        $server = new RedisServer(['tls-auth-clients' => 'no'], tls: true);
        $lock = new RedisLock('key', ttl: 0.5, renew: true, servers: $server->tls());
        self::assertTrue($lock->acquire());
        $before = RedisLock::stats();
        $renewed = static fn (int $times) => static fn () => RedisLock::stats()['renewals'] >= $before['renewals'] + $times;
        $connections = static fn (): array => preg_grep('/^total_connections/', explode("\r\n", $server->command('INFO', 'stats')));
        self::eventually($renewed(1), 'a renewal');
        $opened = $connections();
        self::assertCount(1, $opened);
        self::eventually($renewed(6), 'five more');
        self::assertSame($opened, $connections(), 'on one connection');
        self::assertTrue($lock->isAcquired());
        self::assertSame($before['renewalErrors'], RedisLock::stats()['renewalErrors']);
    }

    private function assertRefused(string $address, string $reason): void
    {
        $this->setting('command_timeout', '0.5');
        $lock = new RedisLock('key', servers: $address);
        $e = self::caught(static fn () => self::withinDeadline(static fn () => $lock->acquire()));
        self::assertSame(ConnectionException::class, $e::class, $e->getMessage());
        $name = preg_replace('~^(\w+://)(?:[^@]*@)?([^?]+).*~', '$1$2', $address);
        self::assertStringContainsString($name, $e->getMessage());
        self::assertStringContainsString($reason, $e->getMessage());
        self::assertStringNotContainsString('hidden', $e->getMessage());
        self::assertFalse($lock->isAcquired());
    }
}
