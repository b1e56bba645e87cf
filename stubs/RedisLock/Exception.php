<?php

namespace RedisLock;

/**
 * The base of all exceptions of this extension. Busy is not among them: acquire() returns false for that.
 */
class Exception extends \RuntimeException
{
}
