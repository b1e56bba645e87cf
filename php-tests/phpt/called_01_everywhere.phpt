--TEST--
Called from everywhere: wherever PHP runs code, that code can lock
--DESCRIPTION--
Destructors, output callbacks, autoloaders, error and exception handlers, sort callbacks, generators, stream wrappers,
ticks: some run with an exception pending, some in the middle of another function of the engine.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$use = function (string $where) {
    $lock = new RedisLock('key', ttl: 300);
    $good = $lock->acquire() && $lock->isAcquired() && $lock->refresh() && $lock->release()
        && $lock->synchronized(fn () => keys() === ['key']) && !$lock->isAcquired();
    same($where, [true, []], [$good, keys()]);
};

class Destructor
{
    public self $self;

    public function __construct(private Closure $use, private string $where)
    {
    }

    public function __destruct()
    {
        ($this->use)($this->where);
    }
}
$object = new Destructor($use, 'destructor');
unset($object);
$object = new Destructor($use, 'destructor, called by the collector of cycles');
$object->self = $object;
unset($object);
gc_collect_cycles();
try {
    (function () use ($use) {
        $object = new Destructor($use, 'destructor, while an exception is on its way');
        throw new DomainException('on its way');
    })();
} catch (DomainException $e) {
    same('  which is not lost', 'on its way', $e->getMessage());
}

$seen = '';
ob_start(function (string $output) use (&$seen) {
    $lock = new RedisLock('key', ttl: 300);
    $seen .= json_encode([$lock->acquire(), $lock->release(), $lock->synchronized(fn () => 'done')]);

    return $output;
});
echo "some output\n";
ob_end_flush();
same('output callback', '[true,true,"done"]', $seen);

spl_autoload_register(function (string $class) use ($use) {
    if ($class === 'NotThere') {
        $use('autoloader');
    }
});
class_exists('NotThere');

set_error_handler(function () use ($use) {
    $use('error handler');

    return true;
});
trigger_error('to be handled');
restore_error_handler();

$list = [2, 1];
usort($list, function ($a, $b) use ($use) {
    $use('sort callback');

    return $a <=> $b;
});

$generator = (function () use ($use) {
    try {
        yield 1;
    } finally {
        $use('end of a generator that is dropped');
    }
})();
$generator->current();
unset($generator);

preg_replace_callback('/x/', fn () => $use('callback of preg_replace_callback()'), 'x');
json_encode(new class ($use) implements JsonSerializable {
    public function __construct(private Closure $use)
    {
    }

    public function jsonSerialize(): mixed
    {
        return ($this->use)('json_encode()');
    }
});
eval('$use("eval()");');
(new ReflectionFunction($use))->invoke('reflection');
array_map($use, ['array_map()']);

// In synchronized(): everything at once.
(new RedisLock('around', ttl: 300))->synchronized(function () {
    $lock = new RedisLock('key', ttl: 300);
    $object = new Destructor(fn () => same('  in a destructor', true, $lock->acquire() && $lock->release()), '');
    unset($object);
    same('  and itself', 'done', $lock->synchronized(fn () => 'done'));
});
same('all is free', [], keys());
?>
--EXPECT--
destructor: yes
destructor, called by the collector of cycles: yes
destructor, while an exception is on its way: yes
  which is not lost: yes
some output
output callback: yes
autoloader: yes
error handler: yes
sort callback: yes
end of a generator that is dropped: yes
callback of preg_replace_callback(): yes
json_encode(): yes
eval(): yes
reflection: yes
array_map(): yes
  in a destructor: yes
  and itself: yes
all is free: yes
