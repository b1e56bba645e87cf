<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock\Tests\Support\Cleanup;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\Readme;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\WaitTestCase;

/** What a lock guards refuses who comes too late: the snippets of README, in a database and in Redis. */
final class FencedWriteTest extends WaitTestCase
{
    private RedisServer $server;
    private string $database;

    protected function setUp(): void
    {
        parent::setUp();
        $this->server = $this->server();
        $this->database = Cleanup::folder() . '/shop.sqlite';
    }

    /**
     * What the snippet says, the line that writes, and what takes its check out.
     */
    public static function resources(): array
    {
        return [
            'SQL' => ['$db->', '$update->execute(', ['fence <= ?' => '? > 0']],
            'Redis' => ['$redis->', '$written = ', ['return 0' => '']],
        ];
    }

    /** @dataProvider resources */
    #[DataProvider('resources')]
    public function testAHolderThatWasStoppedWritesTooLate(string $resource, string $line): void
    {
        $late = $this->overtaken(Readme::snippet('php', $resource), $resource);
        self::assertSame(255, $late->wait());
        self::assertStringContainsString('RuntimeException: Too late', $late->output() . $late->errorOutput());
        self::assertSame(2, $this->pieces($resource), 'what the other one has written');

        // Nobody else is kept from it.
        self::assertSame(0, $this->recounts(Readme::snippet('php', $resource), 3)->wait());
        self::assertSame(3, $this->pieces($resource));
    }

    /** @dataProvider resources */
    #[DataProvider('resources')]
    public function testWithoutTheCheckItIsNoticedWhenItIsWritten(string $resource, string $line, array $check): void
    {
        $unchecked = strtr(Readme::snippet('php', $resource), $check);
        self::assertNotSame(Readme::snippet('php', $resource), $unchecked);
        $late = $this->overtaken($unchecked, $resource);
        self::assertSame(255, $late->wait());
        self::assertStringContainsString('LockLostException', $late->output() . $late->errorOutput());
        self::assertSame(1, $this->pieces($resource), 'what the other one has written is gone');
    }

    /** @dataProvider resources */
    #[DataProvider('resources')]
    public function testOneHolderMayWriteAsOftenAsItLikes(string $resource, string $line): void
    {
        $pattern = '/^ *' . preg_quote($line, '/') . '.*\n/m';
        $twice = preg_replace($pattern, '$0$0', Readme::snippet('php', $resource), 1, $count);
        self::assertSame(1, $count);
        $process = $this->recounts($twice, 4);
        self::assertSame(0, $process->wait(), $process->output() . $process->errorOutput());
        self::assertSame(4, $this->pieces($resource));
    }

    /** @dataProvider resources */
    #[DataProvider('resources')]
    public function testAfterAClockThatWasAhead(string $resource): void
    {
        $snippet = Readme::snippet('php', $resource);
        self::assertSame(0, $this->recounts($snippet, 1)->wait());
        preg_match("/--pattern '(.*?)'/", Readme::text(), $pattern);
        // The prefix is that of README's settings, which this process does not have.
        $fences = $this->server->command('KEYS', str_replace('shop:', '', $pattern[1], $count));
        self::assertSame(1, $count);
        self::assertCount(1, $fences);
        $tomorrow = (time() + 86_400) * 1_000_000;
        $this->server->command('SET', $fences[0], $tomorrow);
        self::assertSame(0, $this->recounts($snippet, 2)->wait(), 'it goes on from there');
        self::assertSame((string) ($tomorrow + 1), $this->server->command('GET', $fences[0]));

        // The recovery, and what comes of one half of it, or of an idle day.
        $this->server->command('DEL', $fences[0]);
        self::assertSame(255, $this->recounts($snippet, 3)->wait());
        self::assertSame(2, $this->pieces($resource));
        if ($resource === '$db->') {
            (new \PDO("sqlite:$this->database"))->exec('UPDATE stock SET fence = 0');
        } else {
            $this->server->command('HSET', 'pieces:4711', 'fence', 0);
        }
        self::assertSame(0, $this->recounts($snippet, 3)->wait());
        self::assertSame(3, $this->pieces($resource));
    }

    /**
     * Counts one piece, and is stopped before it writes that down, for longer than its lease; another one has counted
     * two, and written that, when it goes on.
     */
    private function overtaken(string $snippet, string $resource): PhpProcess
    {
        $stopped = $this->recounts($snippet, 1, 'stop', ttl: 0.5);
        $state = static fn (): string => preg_replace('/^.*\) (\w).*$/s', '$1', file_get_contents("/proc/{$stopped->pid()}/stat"));
        self::eventually(static fn () => $state() === 'T', 'it is stopped');
        self::assertSame('', $stopped->output());
        self::eventually(fn () => $this->server->command('EXISTS', 'stock:4711') === 0, 'its lease ends');
        self::assertSame(0, $this->recounts($snippet, 2)->wait());
        self::assertSame(2, $this->pieces($resource));
        $stopped->signal(SIGCONT);

        return $stopped;
    }

    private function recounts(string $snippet, int $pieces, string $situation = '', float $ttl = 30): PhpProcess
    {
        return Readme::run($snippet, $this->server->unix(), $situation, $pieces, $this->database, ['redis_lock.ttl' => $ttl]);
    }

    /** What stands there now. */
    private function pieces(string $resource): int
    {
        return (int) ($resource === '$db->'
            ? (new \PDO("sqlite:$this->database"))->query("SELECT pieces FROM stock WHERE article = '4711'")->fetchColumn()
            : $this->server->command('HGET', 'pieces:4711', 'pieces'));
    }
}
