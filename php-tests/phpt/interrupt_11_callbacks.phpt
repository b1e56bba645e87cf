--TEST--
Interrupt: thrown into code that PHP calls by itself: callbacks, handlers, magic methods
--DESCRIPTION--
Native functions stand between the callable and what runs then. They stop at an exception, each in its own way.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
class Magic implements ArrayAccess, IteratorAggregate, Countable, JsonSerializable
{
    public function __get(string $name): mixed { return spin(5); }
    public function __toString(): string { return (string) spin(5); }
    public function __invoke(): mixed { return spin(5); }
    public function offsetGet(mixed $offset): mixed { return spin(5); }
    public function offsetSet(mixed $offset, mixed $value): void {}
    public function offsetExists(mixed $offset): bool { return true; }
    public function offsetUnset(mixed $offset): void {}
    public function getIterator(): Iterator { return new ArrayIterator([spin(5)]); }
    public function count(): int { spin(5); return 0; }
    public function jsonSerialize(): mixed { return spin(5); }
    public function __serialize(): array { return [spin(5)]; }
    public static function __callStatic(string $name, array $arguments): mixed { return spin(5); }
}
class Stream
{
    public $context;
    public function stream_open(): bool { return true; }
    public function stream_read(int $count): string { spin(5); return ''; }
    public function stream_eof(): bool { return true; }
    public function stream_stat(): array { return []; }
}
stream_wrapper_register('magic', Stream::class);
spl_autoload_register(fn (string $class) => $class === 'Unknown' ? spin(5) : null);
$file = __DIR__ . '/included-' . getmypid() . '.php';
file_put_contents($file, '<?php for (;;) {}');

$slow = fn () => spin(5) ?? 0;
$magic = new Magic();
foreach ([
    'array_map()' => fn () => array_map($slow, [1, 2, 3]),
    'array_walk()' => function () use ($slow) {
        $array = [1, 2, 3];
        array_walk($array, $slow);
    },
    'usort()' => function () use ($slow) {
        $array = [3, 1, 2];
        usort($array, $slow);
    },
    'preg_replace_callback()' => fn () => preg_replace_callback('/x/', fn () => (string) $slow(), 'xxx'),
    'iterator_apply()' => fn () => iterator_apply(new ArrayIterator([1, 2]), $slow),
    'call_user_func()' => fn () => call_user_func_array($slow, []),
    'an output callback' => function () use ($slow) {
        ob_start(fn () => (string) $slow());
        echo 'x';
        ob_end_clean();
    },
    'an error handler' => function () use ($slow) {
        set_error_handler(fn () => (bool) $slow());
        try {
            trigger_error('of the callable');
        } finally {
            restore_error_handler();
        }
    },
    'an autoloader' => fn () => class_exists('Unknown'),
    'a stream wrapper' => fn () => fread(fopen('magic://', 'r'), 10),
    'an included file' => fn () => include $file,
    'eval' => fn () => eval('for (;;) {}'),
    'a closure that is bound' => fn () => (fn () => spin(5))->call($magic),
    'Reflection' => fn () => (new ReflectionFunction('spin'))->invoke(5),
    'a callable string' => fn () => array_map('spin', [5, 5]),
    '__get()' => fn () => $magic->some,
    '__toString()' => fn () => "$magic",
    '__invoke()' => fn () => $magic(),
    '__callStatic()' => fn () => Magic::some(),
    '__serialize()' => fn () => serialize($magic),
    'offsetGet()' => fn () => $magic['some'],
    'getIterator()' => fn () => [...$magic],
    'count()' => fn () => count($magic),
    'jsonSerialize()' => fn () => json_encode($magic),
] as $what => $code) {
    $took = seconds(function () use ($code, &$seen) {
        $seen = run(doomed(ttl: 0.05), $code);
    });
    // Something of PHP's own may come on top, or be warned of.
    check($what, $seen[0] === 'key was lost' && $seen['thrown'] === 1 && $took < 1.5, [$seen, $took]);
}
same('an object as the callable', INTERRUPTED, run(doomed(ttl: 0.05), $magic));
unlink($file);
PHP);
?>
--EXPECT--
array_map(): yes
array_walk(): yes
usort(): yes
preg_replace_callback(): yes
iterator_apply(): yes
call_user_func(): yes
an output callback: yes
an error handler: yes
an autoloader: yes
a stream wrapper: yes
an included file: yes
eval: yes
a closure that is bound: yes
Reflection: yes
a callable string: yes
__get(): yes
__toString(): yes
__invoke(): yes
__callStatic(): yes
__serialize(): yes
offsetGet(): yes
getIterator(): yes
count(): yes
jsonSerialize(): yes
an object as the callable: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
