<?php

namespace RedisLock\Tests\Support;

/**
 * What PHP says of itself when something is wrong in it. A debug build checks its rules as it runs, and tells at the end of
 * each request which memory nobody freed; in all builds php-fpm tells of workers that crashed.
 */
final class EngineReport
{
    private const WRONG = '/memory leaks? detected|Assertion .* failed|zend_mm_heap corrupted|exited on signal (4|6|7|8|11)\b/';

    /** @param string $said what a process wrote that is no output of its script */
    public static function look(string $said): void
    {
        if (preg_match(self::WRONG, $said) === 1) {
            throw new \RuntimeException("PHP found a fault in itself: $said");
        }
    }
}
