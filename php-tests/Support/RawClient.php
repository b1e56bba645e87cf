<?php

namespace RedisLock\Tests\Support;

/**
 * A Redis client of a few lines: looks at what the extension left in a server, and plays "another program".
 * Arguments and replies are bytes; an error reply is thrown as RawError.
 */
final class RawClient
{
    /** @var resource */
    private $stream;

    /** @param string $address tcp://127.0.0.1:1234 or unix:///path */
    public function __construct(string $address, float $timeout = 10.0)
    {
        $stream = @stream_socket_client($address, $code, $reason, $timeout);
        if ($stream === false) {
            throw new \RuntimeException("$address: $reason");
        }
        stream_set_timeout($stream, (int) $timeout, (int) (fmod($timeout, 1.0) * 1e6));
        $this->stream = $stream;
    }

    /** Sends one command and gives its reply: string, int, null or array. */
    public function command(string|int|float ...$arguments): mixed
    {
        $this->send(...$arguments);

        return $this->receive();
    }

    /** Only sends: for a command whose reply is long in coming. */
    public function send(string|int|float ...$arguments): void
    {
        $request = '*' . count($arguments) . "\r\n";
        foreach ($arguments as $argument) {
            $request .= '$' . strlen((string) $argument) . "\r\n$argument\r\n";
        }
        for ($sent = 0; $sent < strlen($request); $sent += $written) {
            $written = fwrite($this->stream, substr($request, $sent));
            if ($written === false || $written === 0) {
                throw new \RuntimeException('The server closed the connection.');
            }
        }
    }

    public function receive(): mixed
    {
        $line = fgets($this->stream);
        if ($line === false || !str_ends_with($line, "\r\n")) {
            throw new \RuntimeException('No reply.');
        }
        $rest = substr($line, 1, -2);

        switch ($line[0]) {
            case '+':
                return $rest;
            case ':':
                return (int) $rest;
            case '-':
                throw new RawError($rest);
            case '$':
                return (int) $rest < 0 ? null : substr($this->bytes((int) $rest + 2), 0, -2);
            case '*':
                $items = [];
                for ($i = 0; $i < (int) $rest; $i++) {
                    $items[] = $this->receive();
                }

                return (int) $rest < 0 ? null : $items;
            default:
                throw new \RuntimeException("Not a reply: $line");
        }
    }

    public function close(): void
    {
        fclose($this->stream);
    }

    private function bytes(int $length): string
    {
        $bytes = '';
        while (strlen($bytes) < $length) {
            $more = fread($this->stream, $length - strlen($bytes));
            if ($more === false || $more === '') {
                throw new \RuntimeException('The reply broke off.');
            }
            $bytes .= $more;
        }

        return $bytes;
    }
}
