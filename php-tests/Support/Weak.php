<?php

namespace RedisLock\Tests\Support;

/** Calls from a file without strict_types: PHP converts what it can. */
final class Weak
{
    public static function call(callable $function, mixed ...$arguments): mixed
    {
        return $function(...$arguments);
    }

    public static function create(string $class, mixed ...$arguments): object
    {
        return new $class(...$arguments);
    }
}
