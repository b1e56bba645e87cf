--TEST--
Called from everywhere: the handler of the warning about a release that failed
--DESCRIPTION--
It runs while synchronized() ends, with the callable's value or exception at hand. It may exit, die, and lock. What it
throws, as many a framework's handler does for each warning, must not take the value away: the work is done, and would be
done again. The warning is in the error log then.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

foreach ([
    'returns' => ['return true;', "value\n"],
    'throws' => ['throw new DomainException("of the handler");', "value\n"],
    'exits' => ['exit("exit\n");', "exit\n"],
    'dies' => ['str_repeat("x", 1 << 28);', 'Fatal error: Allowed memory size'],
    'locks in memory' => ['return (new RedisLock("key", servers: "memory://"))->synchronized(fn () => true);', "value\n"],
    'uses the object' => ['global $lock; $lock->isAcquired(); $lock->isExpired(); $lock->getToken(); return true;', "value\n"],
    'drops the object' => ['global $lock; $lock = null; return true;', "value\n"],
] as $how => [$handler, $says]) {
    foreach (['value' => 'return "value";', 'exception' => 'throw new LengthException("of the callable");'] as $end => $callable) {
        $child = script('
            $warnings = [];
            set_error_handler(function (int $level, string $message) use (&$warnings) {
                $warnings[] = $message;
                ' . $handler . '
            });
            $lock = new RedisLock("key", ttl: 300);
            try {
                echo $lock->synchronized(function () {
                    posix_kill(' . server()->pid() . ', SIGKILL);
                    ' . $callable . '
                }), "\n";
            } catch (Exception $e) {
                echo $e::class, ": ", $e->getMessage(), "\n";
            }
            echo count($warnings) === 1 && str_contains($warnings[0], "could not be released") ? "one warning\n" : json_encode($warnings);
        ');
        $status = $child->wait();
        $output = $child->output();
        if ($end === 'exception' && !in_array($how, ['exits', 'dies'], true)) {
            $says = "LengthException: of the callable\n";
        }
        $good = match ($how) {
            'exits' => $status === 0 && $output === $says,
            'dies' => $status === 255 && str_contains($output, $says),
            default => $status === 0 && $output === "{$says}one warning\n",
        };
        check("$end, the handler $how", $good, [$status, $output, $child->errorOutput()]);
        server()->restart();
    }
}
?>
--EXPECT--
value, the handler returns: yes
exception, the handler returns: yes
value, the handler throws: yes
exception, the handler throws: yes
value, the handler exits: yes
exception, the handler exits: yes
value, the handler dies: yes
exception, the handler dies: yes
value, the handler locks in memory: yes
exception, the handler locks in memory: yes
value, the handler uses the object: yes
exception, the handler uses the object: yes
value, the handler drops the object: yes
exception, the handler drops the object: yes
