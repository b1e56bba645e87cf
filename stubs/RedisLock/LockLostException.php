<?php

namespace RedisLock;

/**
 * The lease ended while its holder worked: someone else may have had the lock at the same time.
 */
class LockLostException extends Exception
{
    private $result = null;

    /**
     * What the callable of RedisLock::synchronized() returned; the work was done, but not under the lock alone.
     *
     * @return mixed null when there is none.
     */
    public function getResult(): mixed
    {
    }
}
