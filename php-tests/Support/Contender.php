<?php

namespace RedisLock\Tests\Support;

/**
 * A process with one lock ($lock) that does what it is told (contender.php), to contend with others. Its moments are
 * seconds of the clock that hrtime() reads, which is the same in all processes.
 */
final class Contender
{
    public readonly PhpProcess $process;
    /** When the order that answered last began and ended. */
    public float $began = 0.0;
    public float $ended = 0.0;

    /**
     * @param string                          $setup PHP code that runs before the first order
     * @param array<string, string|int|float> $ini
     */
    public function __construct(string $address, string $key, float $ttl = 30.0, string $setup = '', array $ini = [])
    {
        $this->process = PhpProcess::file(__DIR__ . '/contender.php', [$address, $key, $ttl, $setup], $ini);
    }

    /** Gives an order: "acquire 30", "release", "turn 30" or "run" with a line of PHP code. answer() tells the outcome. */
    public function tell(string $order): void
    {
        $this->process->writeLine($order);
    }

    /**
     * What came of the order: "held" or "busy", "released" or "lost", "had" (a turn), what the code returned, or class
     * and message of what was thrown. null: the process ended.
     */
    public function answer(float $timeout = 30.0): mixed
    {
        $line = $this->process->readLine($timeout);
        if ($line === null) {
            return null;
        }
        [$outcome, $this->began, $this->ended] = json_decode($line, flags: JSON_THROW_ON_ERROR);

        return $outcome;
    }

    public function ask(string $order): mixed
    {
        $this->tell($order);

        return $this->answer();
    }

    public function kill(): void
    {
        $this->process->kill();
        $this->process->wait();
    }
}
