<?php

namespace RedisLock\Tests\Support;

/** A client that runs PSUBSCRIBE *, as tools that watch a server do: every channel then has someone who listens. */
final class Subscriber
{
    private RawClient $client;

    public function __construct(RedisServer $server)
    {
        $this->client = $server->connect();
        $this->client->command('PSUBSCRIBE', '*');
    }

    /** @return list<array{string, string}> channel and message of what was published since the last look */
    public function messages(): array
    {
        // The answer to this comes after all that was published before.
        $this->client->send('PING');
        for ($messages = []; ($item = $this->client->receive())[0] === 'pmessage';) {
            $messages[] = array_slice($item, 2);
        }

        return $messages;
    }
}
