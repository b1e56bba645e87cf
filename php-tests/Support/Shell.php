<?php

namespace RedisLock\Tests\Support;

/**
 * A bash script that runs in the folder of the repository, as somebody would type it there: in an environment
 * without the settings that bin/test made for PHP.
 */
final class Shell
{
    public const FOLDER = __DIR__ . '/../..';

    public readonly int $pid;

    /** @var resource */
    private $process;
    /** @var resource */
    private $output;
    private string $read = '';
    private ?int $code;

    /** @param array<string, string> $environment added to ours */
    public function __construct(string $script, array $environment = [])
    {
        $inherited = array_diff_key(getenv(), ['PHP_INI_SCAN_DIR' => 0, 'REDIS_LOCK_EXTENSION' => 0, 'REDIS_URL' => 0]);
        $this->process = proc_open(
            ['bash', '-c', $script],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]],
            $pipes,
            self::FOLDER,
            $environment + $inherited,
        );
        $this->output = $pipes[1];
        // It may have ended by now, and then only this tells how.
        ['pid' => $this->pid, 'running' => $isRunning, 'exitcode' => $code] = proc_get_status($this->process);
        $this->code = $isRunning ? null : $code;
        $cleanup = fn () => is_resource($this->process) && proc_terminate($this->process);
        Cleanup::add($cleanup);
    }

    /** @return array{int, string} exit code and output */
    public static function run(string $script, array $environment = []): array
    {
        return (new self($script, $environment))->wait();
    }

    /** Reads on until $text was printed. */
    public function waitFor(string $text, float $timeout = 600.0): void
    {
        for ($until = microtime(true) + $timeout; !str_contains($this->read, $text);) {
            $this->readMore($until) || throw new \RuntimeException("It ended without \"$text\":\n$this->read");
        }
    }

    /** @return array{int, string} exit code and output */
    public function wait(float $timeout = 600.0): array
    {
        for ($until = microtime(true) + $timeout; $this->readMore($until);) {
        }
        fclose($this->output);

        $code = proc_close($this->process);

        return [$this->code ?? $code, $this->read];
    }

    /** @return bool false at the end of the output */
    private function readMore(float $until): bool
    {
        $ready = [$this->output];
        $none = null;
        if (stream_select($ready, $none, $none, (int) max(1, $until - microtime(true))) === 0) {
            proc_terminate($this->process);
            throw new \RuntimeException("It took too long. Its output:\n$this->read");
        }
        $more = fread($this->output, 65_536);
        $this->read .= $more;

        return $more !== '' && $more !== false;
    }
}
