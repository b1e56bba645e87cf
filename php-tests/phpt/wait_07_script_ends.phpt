--TEST--
Wait: at the end of the script; and scripts that end while they are still listening
--DESCRIPTION--
Shutdown functions, destructors, output callbacks and session handlers may wait, the last of these even after the
extension's own end of the request.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$holder = new RedisLock('invoice', ttl: 60);
$wait = '
    class Late {
        public static RedisLock $lock;
        public ?Late $self = null;
        public function __destruct() {
            late();
        }
    }
    function late(string $output = "") {
        Late::$lock = new RedisLock("invoice", ttl: 60);
        file_put_contents("php://stderr", Late::$lock->acquire(wait: 30) ? "got it" : "busy");
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
        function write($id, $data): bool { late(); return true; }
        function destroy($id): bool { return true; }
        function gc($max): int|false { return 0; }
    }, false);
    session_start();
    $_SESSION["changed"] = true;
';
foreach ([
    'plain end' => ['late();', 0, ''],
    'exit()' => ['late(); exit(3);', 3, ''],
    'exception' => ['late(); throw new DomainException("late");', 255, 'Uncaught DomainException: late'],
    'error' => ['late(); trigger_error("late", E_USER_ERROR);', 255, 'Fatal error: late'],
    'released before' => ['late(); Late::$lock->release();', 0, ''],
    'in a cycle' => ['late(); $late = new stdClass; $late->self = $late; $late->lock = Late::$lock;', 0, ''],
    'shutdown function' => ['register_shutdown_function(late(...));', 0, ''],
    'destructor' => ['$late = new Late;', 0, ''],
    'destructor in a cycle' => ['$late = new Late; $late->self = $late;', 0, ''],
    'output callback' => ['ob_start(fn ($output) => late($output));', 0, ''],
    'session handler' => [$session, 0, ''],
    'shutdown function, after an error' =>
        ['register_shutdown_function(late(...)); trigger_error("late", E_USER_ERROR);', 255, 'Fatal error: late'],
] as $how => [$code, $status, $says]) {
    $holder->acquire();
    $child = script($wait . $code);
    awaitQueued('invoice', $child->pid());
    $holder->release();
    $ended = $child->wait();
    check("$how: it gets the lock", $child->errorOutput() === 'got it', $child->errorOutput());
    check('  ends well', $ended === $status && str_contains($child->output(), $says), [$ended, $child->output()]);
    check('  and leaves nothing', eventually(fn () => left() === []), left());
}
?>
--EXPECT--
plain end: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
exit(): it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
exception: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
error: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
released before: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
in a cycle: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
shutdown function: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
destructor: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
destructor in a cycle: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
output callback: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
session handler: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
shutdown function, after an error: it gets the lock: yes
  ends well: yes
  and leaves nothing: yes
