<?php

namespace RedisLock\Tests\Support;

/**
 * Another PHP process with the extension loaded: a worker, or one that is to die.
 */
final class PhpProcess
{
    /** @var resource */
    private $process;
    /** @var resource */
    private $stdin;
    /** @var resource */
    private $stdout;
    /** @var resource */
    private $stderr;
    private string $read = '';
    private int $taken = 0;
    private ?int $exitCode = null;
    private ?int $endedBySignal = null;
    private int $cleanup;

    /**
     * @param list<string>                     $command arguments of php
     * @param array<string, string|int|float>  $ini
     */
    private function __construct(array $command, array $ini)
    {
        // The tests are run with PHP_INI_SCAN_DIR, which a child inherits; by hand it may be this variable.
        $options = [];
        $extension = getenv('REDIS_LOCK_EXTENSION');
        if (is_string($extension) && $extension !== '') {
            $ini = ['extension' => $extension] + $ini;
        }
        foreach ($ini as $name => $value) {
            array_push($options, '-d', "$name=\"$value\"");
        }

        $file = tempnam(sys_get_temp_dir(), 'redis-lock-');
        $stderr = fopen($file, 'a');
        // A place of our own in it, and no name that a forked child of ours could take away.
        $this->stderr = fopen($file, 'r');
        unlink($file);
        $process = proc_open([PHP_BINARY, ...$options, ...$command], [['pipe', 'r'], ['pipe', 'w'], $stderr], $pipes);
        if ($process === false) {
            throw new \RuntimeException('php did not start.');
        }
        $this->process = $process;
        [$this->stdin, $this->stdout] = $pipes;
        stream_set_blocking($this->stdout, false);
        $this->cleanup = Cleanup::add(fn () => $this->kill());
    }

    /**
     * Runs PHP code (without "<?php"); it finds its arguments from $argv[1] on.
     *
     * @param list<string|int|float>          $arguments
     * @param array<string, string|int|float> $ini
     */
    public static function code(string $code, array $arguments = [], array $ini = []): self
    {
        return new self(['-r', $code, '--', ...array_map(strval(...), $arguments)], $ini);
    }

    /**
     * @param list<string|int|float>          $arguments
     * @param array<string, string|int|float> $ini
     */
    public static function file(string $file, array $arguments = [], array $ini = []): self
    {
        return new self([$file, '--', ...array_map(strval(...), $arguments)], $ini);
    }

    /** @return list<string> the names of a process's threads but the first; each has its name a moment after it began */
    public static function threads(int $pid): array
    {
        $tasks = array_diff(glob("/proc/$pid/task/*"), ["/proc/$pid/task/$pid"]);

        return array_map(static fn (string $task) => rtrim((string) @file_get_contents("$task/comm")), array_values($tasks));
    }

    public function pid(): int
    {
        return $this->status()['pid'];
    }

    public function isRunning(): bool
    {
        return $this->status()['running'];
    }

    public function signal(int $signal): void
    {
        posix_kill($this->pid(), $signal);
    }

    public function writeLine(string $line): void
    {
        fwrite($this->stdin, "$line\n");
    }

    /** The next line of its output, without the line's end; null when it ended without one. */
    public function readLine(float $timeout = 30.0): ?string
    {
        $until = microtime(true) + $timeout;
        while (($end = strpos($this->read, "\n", $this->taken)) === false) {
            if (!$this->readMore($until)) {
                return null;
            }
        }
        $line = substr($this->read, $this->taken, $end - $this->taken);
        $this->taken = $end + 1;

        return $line;
    }

    /** Waits for its end. @return int the exit code; 128 + signal when a signal ended it */
    public function wait(float $timeout = 60.0): int
    {
        $until = microtime(true) + $timeout;
        while ($this->readMore($until)) {
        }
        // Its output may end before itself.
        while ($this->isRunning()) {
            $this->bound($until);
            usleep(1_000);
        }
        Cleanup::forget($this->cleanup);
        EngineReport::look($this->errorOutput());

        return $this->endedBySignal !== null ? 128 + $this->endedBySignal : $this->exitCode;
    }

    /** All it wrote to its standard output so far. */
    public function output(): string
    {
        return $this->read;
    }

    /** All it wrote to its standard error so far. */
    public function errorOutput(): string
    {
        return stream_get_contents($this->stderr, -1, 0);
    }

    public function kill(): void
    {
        if ($this->isRunning()) {
            $this->signal(SIGKILL);
        }
        // Nothing is left to be done when this process ends. What keeps this object keeps its pipes open, and select(2)
        // takes no more than a thousand.
        Cleanup::forget($this->cleanup);
    }

    /** @return bool false at the end of the output */
    private function readMore(float $until): bool
    {
        while (true) {
            $this->bound($until);
            $ready = [$this->stdout];
            $none = null;
            if (@stream_select($ready, $none, $none, 0, 100_000) === 1) {
                $more = fread($this->stdout, 65_536);
                if ($more === '' || $more === false) {
                    return !feof($this->stdout);
                }
                $this->read .= $more;

                return true;
            }
        }
    }

    private function bound(float $until): void
    {
        if (microtime(true) > $until) {
            $this->kill();
            throw new \RuntimeException("The process took too long. Its output: $this->read\n" . $this->errorOutput());
        }
    }

    /** @return array{pid: int, running: bool} */
    private function status(): array
    {
        $status = proc_get_status($this->process);
        // Before PHP 8.3 only the first look after the end tells how it ended.
        if (!$status['running'] && $this->exitCode === null) {
            $this->exitCode = $status['exitcode'];
            $this->endedBySignal = $status['signaled'] ? $status['termsig'] : null;
        }

        return $status;
    }
}
