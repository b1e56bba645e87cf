--TEST--
End of the script: locks taken while it ends are freed too, also when it dies then
--DESCRIPTION--
Shutdown functions, destructors, output callbacks and session handlers run after the script, the last of these even
after the extension's own end of the request.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

$prepare = '
    class Late {
        public static array $locks = [];
        public static Closure $die;
        public ?Late $self = null;
        public function __destruct() {
            late("destructor");
        }
    }
    function late(string $where, string $output = "") {
        $lock = Late::$locks[] = new RedisLock($where, ttl: 300);
        $kept = Late::$locks[] = new RedisLock("kept", ttl: 300);
        file_put_contents("php://stderr", $lock->acquire() && $kept->acquire() ? "held" : "busy");
        (Late::$die)();
        file_put_contents("php://stderr", " and goes on");
        return $output;
    }
';
$session = '
    ini_set("session.use_cookies", 0);
    ini_set("session.cache_limiter", "");
    session_set_save_handler(new class implements SessionHandlerInterface {
        function open($path, $name): bool { return true; }
        function close(): bool { return true; }
        function read($id): string|false { return ""; }
        function write($id, $data): bool { late("session handler"); return true; }
        function destroy($id): bool { return true; }
        function gc($max): int|false { return 0; }
    }, false);
    session_start();
    $_SESSION["changed"] = true;
';
$wheres = [
    'shutdown function' => 'register_shutdown_function(late(...), "shutdown function");',
    'destructor' => '$late = new Late;',
    'destructor in a cycle' => '$late = new Late; $late->self = $late;',
    'output callback' => 'ob_start(fn ($output) => late("output callback", $output));',
    'session handler' => $session,
];
foreach ([
    'ends' => '',
    'exit()' => 'exit(3);',
    'exception' => 'throw new Exception("late");',
    'fatal error' => 'str_repeat("x", 1 << 28);',
] as $how => $die) {
    foreach ($wheres as $where => $code) {
        $child = script("$prepare Late::\$die = function () { $die }; $code");
        $ended = $child->wait();
        $crashed = $ended > 128 && $ended < 160 ? ", ended by signal $ended" : '';
        echo "$where, $how: {$child->errorOutput()}, then ", keys() === [] ? 'free' : json_encode(keys()), "$crashed\n";
        server()->flush();
    }
}
?>
--EXPECT--
shutdown function, ends: held and goes on, then free
destructor, ends: held and goes on, then free
destructor in a cycle, ends: held and goes on, then free
output callback, ends: held and goes on, then free
session handler, ends: held and goes on, then free
shutdown function, exit(): held, then free
destructor, exit(): held, then free
destructor in a cycle, exit(): held, then free
output callback, exit(): held, then free
session handler, exit(): held, then free
shutdown function, exception: held, then free
destructor, exception: held, then free
destructor in a cycle, exception: held, then free
output callback, exception: held, then free
session handler, exception: held, then free
shutdown function, fatal error: held, then free
destructor, fatal error: held, then free
destructor in a cycle, fatal error: held, then free
output callback, fatal error: held, then free
session handler, fatal error: held, then free
