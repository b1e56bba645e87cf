<?php

namespace RedisLock;

/**
 * The server answered a request with an error: OOM, READONLY, NOPERM, WRONGTYPE, MISCONF, BUSY, LOADING…
 * The message says which server and what it answered; it holds no password and no token.
 */
class CommandException extends Exception
{
}
