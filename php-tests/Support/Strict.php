<?php

declare(strict_types=1);

namespace RedisLock\Tests\Support;

/** Calls from a file with strict_types: PHP converts nothing but int to float. */
final class Strict
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
