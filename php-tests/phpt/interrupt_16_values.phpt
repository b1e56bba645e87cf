--TEST--
Interrupt: what a call has just returned is freed when the exception comes before it is used, and nothing else is
--DESCRIPTION--
The engine unwinds a frame as if its next opcode had thrown, and leaves to that opcode the values that it would have taken
over: an exception between the two that knows nothing of this leaks the value, and frees arguments and parts of strings that
nobody has put there yet.
--FILE--
<?php
require __DIR__ . '/interrupt.inc';

inEachWay(<<<'PHP'
const BYTES = 300_000;
// Ends after the lease has, and what it gives is missed where it is not freed.
const SLOW = 'sleep 0.09; head -c ' . BYTES . ' /dev/zero | tr "\\\\0" x';

class Box
{
    public $value = '';
    public $rows = ['x' => ['y' => 1]];
    public static $static = '';
    public static $used;
    public function __construct(mixed ...$values) {}
    public function __get(string $name): string { return "$name!"; }
    public function self(mixed ...$values): static { return $this; }
}
function big(string $letter = 'y'): string
{
    return str_repeat($letter, BYTES);
}
function generator(): Generator
{
    $value = yield shell_exec(SLOW);
    yield "a{$value}" . strlen(shell_exec(SLOW));
}
function numbers(): Generator
{
    try {
        yield from [1, 2];
    } finally {
        Box::$static = 'ended';
    }
}
function used(mixed $value): int
{
    return Box::$used = strlen((string) $value);
}
function row(): array
{
    return [Box::$static, 'rows' => ['x' => 1]];
}
function taking(string $value, string ...$more): int
{
    return strlen($value);
}
$shell = 'shell_exec';
$box = new Box;
$array = ['x' => ['y' => 0]];
$yes = true;
$uses = [
    'discarded' => function () { shell_exec(SLOW); },
    'assigned' => function () { $value = shell_exec(SLOW); },
    'assigned to what had a value' => function () { $value = big(); $value = shell_exec(SLOW); },
    'assigned by operator' => function () { $value = big(); $value .= shell_exec(SLOW); },
    'assigned to a property' => function () use ($box) { $box->value = shell_exec(SLOW); },
    'assigned to a static property' => function () { Box::$static = shell_exec(SLOW); },
    'assigned to an element' => function () use ($array) { $array['x']['y'] = shell_exec(SLOW); },
    'assigned where the key was made' => function () use ($array) { $array['x'][big()] = shell_exec(SLOW); },
    'appended' => function () use ($array) { $array[] = shell_exec(SLOW); },
    'taken apart' => function () { [$value] = [shell_exec(SLOW)]; },
    'a static variable' => function () { static $value; $value = shell_exec(SLOW); },
    'the first argument' => fn () => strlen(shell_exec(SLOW)),
    'the second argument' => fn () => str_pad(big(), 5, shell_exec(SLOW)),
    'the third argument' => fn () => str_replace(big(), big('z'), shell_exec(SLOW)),
    'an argument of a function in PHP' => fn () => taking(shell_exec(SLOW)),
    'the last of many' => fn () => taking(big(), big('z'), big('a'), shell_exec(SLOW)),
    'an argument by its name' => fn () => str_pad(string: big(), length: 5, pad_string: shell_exec(SLOW)),
    'an argument by another name' => fn () => str_pad(length: 5, string: shell_exec(SLOW)),
    'an argument of an unknown function' => fn () => $GLOBALS['shell']('exit 1') ?? taking(...[big(), shell_exec(SLOW)]),
    'an argument of a method' => fn () => $box->self(big(), shell_exec(SLOW)),
    'an argument of a constructor' => fn () => new Box(big(), shell_exec(SLOW)),
    'of a call within calls' => fn () => $box->self(big(), taking(big('z'), strrev(shell_exec(SLOW)))),
    'of calls in a row' => fn () => $box->self(big())->self(big('z'))->self(shell_exec(SLOW)),
    'behind an element' => fn () => $box->self([big()], [big('z'), shell_exec(SLOW)]),
    'an element' => fn () => [big(), shell_exec(SLOW), big('z')],
    'a key' => fn () => [shell_exec(SLOW) => big()],
    'the beginning of a string' => fn () => "{$shell(SLOW)} and $yes",
    'the middle of a string' => fn () => "a $yes and {$shell(SLOW)} and " . big() . " of {$box->name}",
    'the middle of a string of values' => fn () => "{$box->name} and {$shell(SLOW)} and {$box->name}",
    'the end of a string' => fn () => "{$box->name} and {$box->other} and {$shell(SLOW)}",
    'in a string in a call' => fn () => taking(big(), "{$box->name}, {$shell(SLOW)}, {$box->name}"),
    'joined' => fn () => big() . shell_exec(SLOW),
    'joined before' => fn () => shell_exec(SLOW) . big(),
    'compared' => fn () => big() === shell_exec(SLOW),
    'negated' => fn () => !shell_exec(SLOW),
    'cast' => fn () => (array) shell_exec(SLOW),
    'chosen' => fn () => shell_exec(SLOW) ?: big(),
    'chosen if there is none' => fn () => shell_exec(SLOW) ?? big(),
    'a branch' => fn () => strlen($yes ? shell_exec(SLOW) : big()),
    'another branch' => fn () => strlen(!$yes ? big() : shell_exec(SLOW)),
    'matched' => fn () => match (shell_exec(SLOW)) { 'a', 'b' => big(), default => big('z') },
    'switched on' => function () { switch (shell_exec(SLOW)) { case 'a': case 'b': break; default: return big(); } },
    'a condition' => function () { if (shell_exec(SLOW)) { return big(); } },
    'a condition of a loop' => function () { while (shell_exec(SLOW)) { } },
    'in a loop over values' => function () { foreach ([big(), big('z')] as $value) { $value = shell_exec(SLOW); } },
    'looped over' => function () { foreach ((array) shell_exec(SLOW) as $value) { } },
    'returned' => fn () => shell_exec(SLOW),
    'returned from a try' => function () { try { return shell_exec(SLOW); } catch (RuntimeException) { } },
    'printed' => function () { print shell_exec(SLOW); },
    'yielded' => fn () => generator()->current(),
    'yielded after what was sent' => fn () => generator()->send(big()),
    'without warnings' => function () { $value = @shell_exec(SLOW); return used($value); },
    'without warnings, as an argument' => fn () => used(@shell_exec(SLOW)),
    'returned out of a loop over values' => function () { foreach (str_split(big(), 1000) as $value) { return shell_exec(SLOW); } },
    'returned out of a loop over a generator' => function () { foreach (numbers() as $value) { return shell_exec(SLOW); } },
    'in a loop that goes on with an outer one' => function () {
        foreach ([1, 2] as $outer) { foreach (numbers() as $value) { shell_exec(SLOW); continue 2; } }
    },
    'in a loop that is left' => function () { foreach (str_split(big(), 1000) as $value) { shell_exec(SLOW); break; } return used($value); },
    'returned out of a switch' => function () { switch (big()) { default: return shell_exec(SLOW); } },
    'assigned where the key was counted' => function () { $i = 1; $a = []; $a[$i + 1] = shell_exec(SLOW); return used($a[2]); },
    'assigned where the key is counted on' => function () { $i = 1; $a = []; $a[$i++] = shell_exec(SLOW); return used($a[1]); },
    'joined to what is no string' => function () use ($yes) { $value = (!$yes) . shell_exec(SLOW); return used($value); },
    'assigned to a property of a class with a name' => function () { $class = 'Box'; $class::$static = shell_exec(SLOW); return used(Box::$static); },
    'of a class with a name' => fn () => used((new ('Box'))->self(big(), shell_exec(SLOW))->name),
    'the name of a class' => fn () => used($box::class . shell_exec(SLOW)),
    'an offset of what a call gave' => fn () => used(row()['rows'][shell_exec(SLOW)] ?? 1),
    'an offset of a property of it' => fn () => used($box->self()->rows['x'][shell_exec(SLOW)] ?? 1),
    'the name of a property of it' => fn () => used($box->self(big())->{shell_exec(SLOW)}),
    'where an element of it is set' => function () use ($box) { $box->self()->rows['x'][shell_exec(SLOW)]['y'] = big(); used(1); },
    'where an element of it is unset' => function () use ($box) { unset($box->self()->rows['x'][shell_exec(SLOW)]); used(1); },
    'where an element of it is looked for' => fn () => used(isset($box->self()->rows['x'][shell_exec(SLOW)]['y'])),
    'in a generator in a native function' => fn () => used(count(iterator_to_array(generator()))),
    'in a generator in a native iterator' => fn () => used(iterator_count(new IteratorIterator(generator()))),
    'in a generator that is spread' => fn () => used(count([big(), ...generator()])),
    'in a native callback' => fn () => array_map('shell_exec', [SLOW, SLOW]),
    'in a callback' => fn () => array_map(fn ($value) => $value . shell_exec(SLOW), [big(), big()]),
];
$ended = $left = [];
foreach ($uses as $use => $critical) {
    $before = memory_get_usage();
    ob_start();
    $how = run(doomed(), $critical);
    ob_end_clean();
    $grown = memory_get_usage() - $before;
    if ($how !== INTERRUPTED) {
        $ended[$use] = $how;
    }
    if ($grown > BYTES / 2) {
        $left[$use] = $grown;
    }
}
// Blocks until somebody opens the other end, and is a complete object then.
$fifo = __DIR__ . '/fifo-' . getmypid();
posix_mkfifo($fifo, 0600);
$ended['constructed'] = run(doomed(), function () use ($fifo) {
    shell_exec("(sleep 0.09; : >$fifo) >/dev/null 2>&1 &");
    $file = new SplFileObject($fifo);
    used($file);
});
unlink($fifo);
$ended = array_filter($ended, fn (array $how) => $how !== INTERRUPTED);
same('nothing is done after it', null, Box::$used);
same('it is thrown, whatever becomes of the value', [], $ended);
same('and the value is freed', [], $left);
PHP);
?>
--EXPECT--
nothing is done after it: yes
it is thrown, whatever becomes of the value: yes
and the value is freed: yes
the same in each way in which PHP executes code: yes
nothing is left: yes
