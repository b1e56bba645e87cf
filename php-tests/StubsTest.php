<?php

namespace RedisLock\Tests;

use PHPUnit\Framework\TestCase;
use RedisLock\Tests\Support\Describe;

/** The stubs say what the extension is: nothing more, nothing less. */
final class StubsTest extends TestCase
{
    private const STUBS = __DIR__ . '/../stubs';

    public function testTheStubsAreTheFaceOfTheExtension(): void
    {
        $classes = array_keys((new \ReflectionExtension('redis_lock'))->getClasses());
        $extension = Describe::classes($classes);

        self::assertEquals($this->stubs(), $extension);
    }

    public function testThereIsNothingBesideClassesAndSettings(): void
    {
        $extension = new \ReflectionExtension('redis_lock');
        self::assertSame([], $extension->getFunctions());
        self::assertSame([], $extension->getConstants());
        self::assertNotSame('', (string) $extension, 'Reflection can print all of it');
        foreach (array_keys($extension->getINIEntries()) as $name) {
            self::assertStringStartsWith('redis_lock.', $name);
        }
    }

    public function testOneFileAClassAndEachOfThemIsSound(): void
    {
        $expected = array_map(
            static fn (string $class) => strtr($class, '\\', '/') . '.php',
            array_keys((new \ReflectionExtension('redis_lock'))->getClasses()),
        );
        sort($expected);
        self::assertSame($expected, $this->files());

        foreach ($this->files() as $file) {
            exec(escapeshellarg(PHP_BINARY) . ' -n -l ' . escapeshellarg(self::STUBS . "/$file") . ' 2>&1', $output, $code);
            self::assertSame(0, $code, implode("\n", $output));
        }
    }

    public function testEveryMethodIsExplained(): void
    {
        foreach ($this->stubs() as $class => $description) {
            self::assertNotFalse($description['doc'] ?? true, $class);
            $source = file_get_contents(self::STUBS . '/' . strtr($class, '\\', '/') . '.php');
            foreach (array_keys($description['methods']) as $method) {
                self::assertMatchesRegularExpression("~\\*/\\n    public (static )?function $method\\(~", $source, "$class::$method()");
            }
        }
    }

    /** @return list<string> */
    private function files(): array
    {
        $files = [];
        $all = new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator(self::STUBS, \FilesystemIterator::SKIP_DOTS));
        foreach ($all as $file) {
            $files[] = substr($file->getPathname(), strlen(self::STUBS) + 1);
        }
        sort($files);

        return $files;
    }

    /** What the stubs describe, read by a PHP that does not have the extension. */
    private function stubs(): array
    {
        $code = '
            require $argv[1];
            $known = get_declared_classes();
            // Parents first.
            foreach (array_merge(["RedisLock/Exception.php"], array_slice($argv, 3)) as $file) {
                require_once "$argv[2]/$file";
            }
            echo serialize(RedisLock\Tests\Support\Describe::classes(array_diff(get_declared_classes(), $known)));
        ';
        $command = [PHP_BINARY, '-n', '-r', $code, '--', __DIR__ . '/Support/Describe.php', self::STUBS, ...$this->files()];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => STDERR], $pipes);
        $output = stream_get_contents($pipes[1]);
        self::assertSame(0, proc_close($process), $output);

        return unserialize($output);
    }
}
