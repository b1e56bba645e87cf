<?php

// Loads the helpers of these tests: PHPUnit calls it, a .phpt test requires it.

if (!extension_loaded('redis_lock')) {
    fwrite(STDERR, "The extension redis_lock is not loaded. bin/test builds and loads it; by hand:\n"
        . "REDIS_LOCK_EXTENSION=<path of the .so> php -d extension=<path of the .so> …\n");
    exit(1);
}

spl_autoload_register(static function (string $class): void {
    $prefix = 'RedisLock\\Tests\\';
    if (str_starts_with($class, $prefix)) {
        $file = __DIR__ . '/' . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
