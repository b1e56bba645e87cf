<?php

namespace RedisLock\Tests\Support;

/** What the server answered with a minus in front. */
final class RawError extends \RuntimeException
{
}
