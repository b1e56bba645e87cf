<?php

namespace RedisLock;

/**
 * RedisLock::synchronized() could not get the lock in time: someone else held it. Nothing was called.
 *
 * The message says how long it waited, who holds the lock (host, process, when it asked for it, and for how long unless it is
 * refreshed; or that it is another client), and how many stood before it in line.
 */
class LockTimeoutException extends Exception
{
}
