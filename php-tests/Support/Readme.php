<?php

namespace RedisLock\Tests\Support;

/** README.md, its snippets, and the application that they are a part of. */
final class Readme
{
    /** What the reader has: the names that the PHP snippets use without explaining them. */
    private const APPLICATION = <<<'PHP'
        [, $situation, $pieces, $database] = $argv;
        $invoice = '1001';
        $article = '4711';
        $customers = ['Ada', 'Grace'];
        $lock = new RedisLock("invoice:$invoice");
        function report(string $customer): void { echo "reported\n"; }
        function charge(string $invoice): void
        {
            echo "charged\n";
            if ($GLOBALS['situation'] === 'lose') {
                (new RedisLock("invoice:$invoice"))->forceRelease();
            }
        }
        function recount(string $article): int
        {
            if ($GLOBALS['situation'] === 'stop') {
                posix_kill(getmypid(), SIGSTOP);
            }
            echo "counted\n";

            return (int) $GLOBALS['pieces'];
        }

        PHP;

    /** The same, of those that use a database. {COLUMN}: what README says a table needs. */
    private const DATABASE = <<<'PHP'
        $db = new PDO("sqlite:$database");
        if ($db->query('SELECT name FROM sqlite_master')->fetch() === false) {
            $db->exec('CREATE TABLE stock (article TEXT PRIMARY KEY, pieces INTEGER)');
            $db->exec('{COLUMN}');
            $db->exec("INSERT INTO stock (article) VALUES ('$article'), ('another')");
        }

        PHP;

    /** And of those that use Redis for more than locks. */
    private const REDIS = <<<'PHP'
        $redis = new Redis();
        $redis->connect(substr(ini_get('redis_lock.servers'), strlen('unix://')));

        PHP;

    public static function text(): string
    {
        return file_get_contents(Shell::FOLDER . '/README.md');
    }

    /** A line that is nothing but code, and begins so. */
    public static function line(string $start): string
    {
        $found = preg_match('/^`(' . preg_quote($start, '/') . '[^`]+)`$/m', self::text(), $line);

        return $found === 1 ? $line[1] : throw new \RuntimeException("README has no line \"$start…\".");
    }

    /** @return array<string, string> by the line where it begins */
    public static function snippets(string $language, string $with = ''): array
    {
        preg_match_all("/^```$language\\n(.*?)^```\$/ms", self::text(), $matches, PREG_OFFSET_CAPTURE);
        $snippets = [];
        foreach ($matches[1] as [$snippet, $offset]) {
            $snippets['line ' . (1 + substr_count(self::text(), "\n", 0, $offset))] = $snippet;
        }

        return array_filter($snippets, static fn (string $snippet) => str_contains($snippet, $with));
    }

    /** The only one that holds this. */
    public static function snippet(string $language, string $with): string
    {
        $snippets = self::snippets($language, $with);

        return count($snippets) === 1 ? current($snippets) : throw new \RuntimeException("\"$with\" stands not in one snippet.");
    }

    /**
     * Runs a PHP snippet in the application.
     *
     * @param string                          $situation 'lose': the lock is lost on the way; 'stop': the process stops there
     * @param int                             $pieces    how many there are of the article
     * @param array<string, string|int|float> $ini
     */
    public static function run(
        string $snippet,
        string $servers,
        string $situation = '',
        int $pieces = 0,
        string $database = ':memory:',
        array $ini = [],
    ): PhpProcess {
        $application = self::APPLICATION;
        if (str_contains($snippet, '$db->')) {
            $application .= strtr(self::DATABASE, ['{COLUMN}' => self::line('ALTER TABLE ')]);
        }
        if (str_contains($snippet, '$redis->')) {
            $application .= self::REDIS;
        }

        return PhpProcess::code($application . $snippet, [$situation, $pieces, $database], $ini + [
            'redis_lock.servers' => $servers,
            'redis_lock.wait' => 0.2,
            'error_log' => '',
        ]);
    }
}
