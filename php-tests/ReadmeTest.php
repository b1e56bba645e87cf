<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use RedisLock;
use RedisLock\Tests\Support\Cleanup;
use RedisLock\Tests\Support\LockTestCase;
use RedisLock\Tests\Support\PhpProcess;
use RedisLock\Tests\Support\Readme;
use RedisLock\Tests\Support\RedisServer;
use RedisLock\Tests\Support\Shell;

/** Every snippet of README.md runs, and what its tables say is so. */
final class ReadmeTest extends LockTestCase
{
    /** The keys that the PHP snippets lock. */
    private const KEYS = ['invoice:1001', 'nightly-report', 'import', 'shop:invoice:1001', 'stock:4711'];

    /** @dataProvider phpSnippets */
    #[DataProvider('phpSnippets')]
    public function testPhpSnippetDoesItsWorkAndFreesTheLock(string $snippet): void
    {
        $server = RedisServer::shared();
        $process = Readme::run($snippet, $server->unix());
        self::assertSame(0, $process->wait(), $process->errorOutput());
        self::assertSame('', $process->errorOutput());
        self::assertMatchesRegularExpression('/^(charged\n|counted\n|(reported\n){1,2})$/', $process->output());
        // What stays is the last fence, and what the snippet wrote itself.
        $keys = preg_grep('/:redis_lock:fence$|^pieces:/D', $server->command('KEYS', '*'), PREG_GREP_INVERT);
        self::assertSame([], $keys);
    }

    /** @dataProvider phpSnippets */
    #[DataProvider('phpSnippets')]
    public function testPhpSnippetDoesNothingWhileAnotherHoldsTheLock(string $snippet): void
    {
        $held = self::holdAll();
        $process = Readme::run($snippet, RedisServer::shared()->unix());
        $process->wait();
        self::assertSame('', $process->output());
        foreach ($held as $lock) {
            self::assertTrue($lock->release(), 'It frees no lock of others.');
        }
    }

    public function testBusyDownAndLostAreThreeAnswers(): void
    {
        $snippet = Readme::snippet('php', 'CommandException');

        $held = self::holdAll();
        $busy = Readme::run($snippet, RedisServer::shared()->unix());
        self::assertSame(0, $busy->wait());
        self::assertStringStartsWith('busy: ', $busy->errorOutput());
        self::assertSame('', $busy->output());
        unset($held);

        $nowhere = 'redis://127.0.0.1:' . RedisServer::freePort();
        $down = Readme::run($snippet, $nowhere);
        self::assertSame(0, $down->wait());
        self::assertStringStartsWith('down: ', $down->errorOutput());
        self::assertStringContainsString($nowhere, $down->errorOutput());
        self::assertSame('', $down->output());

        $lost = Readme::run($snippet, RedisServer::shared()->unix(), 'lose');
        self::assertSame(0, $lost->wait());
        self::assertStringStartsWith('lost: ', $lost->errorOutput());
        self::assertSame("charged\n", $lost->output());
    }

    public function testTheUserOfTheAclLineMayDoAllThatItTakes(): void
    {
        $server = new RedisServer();
        self::assertSame('OK', $server->command(...explode(' ', Readme::line('ACL SETUSER '))));
        $this->setting('prefix', 'shop:');

        $holder = new RedisLock('job', fencing: true, servers: $server->tcp('shop:password'));
        self::assertTrue($holder->acquire());
        $waiter = PhpProcess::code('
            $lock = new RedisLock("job", fencing: true, servers: $argv[1], prefix: "shop:");
            echo $lock->acquire(20) ? "held" : "busy", "\n", $lock->refresh() && $lock->release() ? "released" : "lost", "\n";
        ', [$server->tcp('shop:password')]);
        self::eventually(static fn () => count($server->command('KEYS', '*queue')) === 1, 'it stands in line');
        self::assertIsInt($holder->getHolder()['pid']);
        self::assertCount(1, $server->command('PUBSUB', 'CHANNELS', 'shop:*'), 'and is told');
        self::assertTrue($holder->release());
        self::assertSame(['held', 'released'], [$waiter->readLine(), $waiter->readLine()]);
        self::assertSame([], $server->command('ACL', 'LOG'));
        self::assertSame([], preg_grep('/:redis_lock:fence$/D', $server->command('KEYS', '*'), PREG_GREP_INVERT));
    }

    public function testIniSnippetsLoadTheExtensionAndSetWhatTheySay(): void
    {
        $loads = Readme::snippets('ini', 'extension=redis_lock');
        self::assertNotEmpty($loads);
        foreach (Readme::snippets('ini') as $snippet) {
            $folder = Cleanup::folder();
            copy(self::extension(), "$folder/redis_lock.so");
            $snippet = in_array($snippet, $loads, true) ? $snippet : "extension=redis_lock\n$snippet";
            file_put_contents("$folder/php.ini", "extension_dir=\"$folder\"\n$snippet");
            // Nothing but this php.ini.
            $php = 'PHP_INI_SCAN_DIR= ' . escapeshellarg(PHP_BINARY) . " -c '$folder'";
            [$code, $output] = Shell::run("$php -r 'new RedisLock(\"k\"); echo serialize(ini_get_all(\"redis_lock\", false));'");
            self::assertSame(0, $code, $output);
            $expected = parse_ini_string($snippet);
            self::assertSame('redis_lock', $expected['extension']);
            unset($expected['extension']);
            ksort($expected);
            self::assertSame($expected, array_intersect_key(unserialize($output), $expected));
        }
    }

    /** @dataProvider shellSnippets */
    #[DataProvider('shellSnippets')]
    public function testShellSnippet(string $snippet): void
    {
        $folder = Cleanup::folder();
        // PHP is the one of this test, and its folder for extensions is not the system's.
        $script = "set -eu\nexport PHP_INI_SCAN_DIR=" . escapeshellarg((string) getenv('PHP_INI_SCAN_DIR')) . "\n"
            . 'php() { ' . escapeshellarg(PHP_BINARY) . ' "$@"; }' . "\n"
            . "php-config() { [ \"\$*\" = --extension-dir ] && echo '$folder'; }\n";
        foreach (explode("\n", trim($snippet)) as $command) {
            $words = explode(' ', $command);
            if (in_array($words[0], ['bin/demo', 'bin/test'], true)) {
                // DemoTest runs the one, and the other runs this: that they are there, and know the part named.
                self::assertTrue(is_executable(Shell::FOLDER . "/$words[0]"), $command);
                self::assertSame([0, ''], Shell::run("bash -n $words[0]"));
                if (isset($words[1])) {
                    self::assertStringContainsString("\n  $words[1] ", Shell::run('bin/test help')[1], $command);
                }
            } else {
                self::assertContains($words[0], ['cargo', 'install', 'php'], "This test does not know how to try: $command");
                $script .= "$command\n";
            }
        }
        [$code, $output] = Shell::run($script);
        self::assertSame(0, $code, $output);
        if (str_contains($snippet, '--extension-dir')) {
            self::assertFileEquals(self::extension(), "$folder/redis_lock.so");
        }
        if (str_contains($snippet, '--ri')) {
            self::assertStringContainsString('redis_lock.servers', $output);
        }
    }

    public function testNoSnippetIsOfAnotherKind(): void
    {
        $known = count(Readme::snippets('php')) + count(Readme::snippets('ini')) + count(Readme::snippets('sh'));
        self::assertSame(2 * $known, preg_match_all('/^\s*(```|~~~)/m', Readme::text()), 'Each is php, ini or sh.');
        self::assertDoesNotMatchRegularExpression('/^(\t| {4})/m', preg_replace('/^```.*?^```/ms', '', Readme::text()),
            'Code stands between fences.');
    }

    public function testTheTableOfMethodsIsTheClass(): void
    {
        preg_match_all('/^\| `((?:static )?\w+\(.*?\)(?:: [?\w]+)?)` \|/m', Readme::text(), $rows);
        $methods = array_map(self::signature(...), (new \ReflectionClass(RedisLock::class))->getMethods());
        self::assertEqualsCanonicalizing($methods, str_replace('\|', '|', $rows[1]));
    }

    public function testTheTableOfSettingsIsWhatThereIs(): void
    {
        preg_match_all('/^\| `(redis_lock\.\w+)` \| (?:`(.*?)`)? ?\|/m', Readme::text(), $rows);
        $settings = array_map(static fn ($setting) => (string) $setting['global_value'], ini_get_all('redis_lock'));
        $table = array_combine($rows[1], $rows[2]);
        ksort($table);
        self::assertSame($settings, $table);
    }

    public function testTheAddressesAreTaken(): void
    {
        preg_match_all('/`([a-z+]+:\/\/.*?)`/', Readme::text(), $addresses);
        self::assertGreaterThan(6, count($addresses[1]));
        foreach ($addresses[1] as $address) {
            self::assertSame('k', (new RedisLock('k', servers: $address))->getKey());
        }
    }

    public function testTheNamesAreThere(): void
    {
        preg_match_all('/`((?:bin|src|stubs|php-tests)\/[\w.\/-]*)`/', Readme::text(), $paths);
        self::assertNotEmpty($paths[1]);
        foreach ($paths[1] as $path) {
            self::assertFileExists(Shell::FOLDER . "/$path");
        }
        preg_match_all('/`(RedisLock\\\\\w+|RedisLockFactory)`/', Readme::text(), $classes);
        self::assertNotEmpty($classes[1]);
        foreach ($classes[1] as $class) {
            self::assertTrue(class_exists($class), $class);
        }
        preg_match('/^rust-version = "(.*)"$/m', file_get_contents(Shell::FOLDER . '/Cargo.toml'), $rust);
        preg_match_all('/Rust (\d[\d.]*\d)/', Readme::text(), $versions);
        self::assertSame([$rust[1]], array_values(array_unique($versions[1])));
    }

    public static function phpSnippets(): array
    {
        return array_map(static fn ($snippet) => [$snippet], Readme::snippets('php'));
    }

    public static function shellSnippets(): array
    {
        return array_map(static fn ($snippet) => [$snippet], Readme::snippets('sh'));
    }

    /** @return list<RedisLock> */
    private static function holdAll(): array
    {
        return array_map(static function (string $key): RedisLock {
            $lock = new RedisLock($key, servers: RedisServer::shared()->unix());
            self::assertTrue($lock->acquire());

            return $lock;
        }, self::KEYS);
    }

    /** The file that this process loaded. */
    private static function extension(): string
    {
        preg_match('/\S*redis_lock\.so$/m', file_get_contents('/proc/self/maps'), $match);

        return $match[0];
    }

    private static function signature(\ReflectionMethod $method): string
    {
        $parameters = array_map(static fn (\ReflectionParameter $parameter) => $parameter->getType() . ' $' . $parameter->getName()
            . ($parameter->isOptional() ? ' = ' . strtolower(var_export($parameter->getDefaultValue(), true)) : ''), $method->getParameters());

        return ($method->isStatic() ? 'static ' : '') . $method->getName() . '(' . implode(', ', $parameters) . ')'
            . ($method->hasReturnType() ? ': ' . $method->getReturnType() : '');
    }
}
