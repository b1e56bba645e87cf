<?php

namespace RedisLock\Tests\Support;

/**
 * A TCP proxy in front of a server, to lose replies and to be silent. It is a process of its own (tcp-proxy.php):
 * the test that controls it is blocked in a call of the extension when it acts.
 */
final class TcpProxy
{
    public readonly int $port;
    private PhpProcess $process;

    public function __construct(int $serverPort)
    {
        $this->process = PhpProcess::file(__DIR__ . '/tcp-proxy.php', [$serverPort]);
        $this->port = (int) $this->process->readLine();
    }

    public function tcp(): string
    {
        return "redis://127.0.0.1:$this->port";
    }

    /** As at the start: everything passes, nothing is delayed. */
    public function pass(): void
    {
        $this->tell('pass');
    }

    /** Takes connections and requests and answers nothing; the server sees none of it. */
    public function silence(): void
    {
        $this->tell('silence');
    }

    /**
     * The next $times requests with this command reach the server; the replies are thrown away and the connections
     * closed.
     *
     * @param string $command its name, such as SET; * for any
     */
    public function loseReply(string $command = '*', int $times = 1): void
    {
        $this->tell("lose $command $times close");
    }

    /** As loseReply(), but the connection stays open and silent. */
    public function swallowReply(string $command = '*', int $times = 1): void
    {
        $this->tell("lose $command $times silent");
    }

    /** Holds every reply back for so long. */
    public function delay(float $seconds): void
    {
        $this->tell("delay client $seconds");
    }

    /** Holds every request back for so long. */
    public function delayRequests(float $seconds): void
    {
        $this->tell("delay server $seconds");
    }

    /** Closes all connections; new ones are taken. */
    public function cut(): void
    {
        $this->tell('cut');
    }

    /** Connections that were made since the start. */
    public function connections(): int
    {
        return (int) $this->tell('connections');
    }

    /** @return list<string> the names of all commands that came in since the start, in order */
    public function requests(): array
    {
        $answer = $this->tell('requests');

        return $answer === '' ? [] : explode(' ', $answer);
    }

    public function stop(): void
    {
        $this->process->kill();
        $this->process->wait();
    }

    private function tell(string $line): string
    {
        $this->process->writeLine($line);

        return $this->process->readLine() ?? throw new \RuntimeException('The proxy ended: ' . $this->process->errorOutput());
    }
}
