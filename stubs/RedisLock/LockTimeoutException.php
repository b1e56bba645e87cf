<?php

namespace RedisLock;

/**
 * RedisLock::synchronized() could not get the lock in time: someone else held it. Nothing was called.
 */
class LockTimeoutException extends Exception
{
}
