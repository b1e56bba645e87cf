<?php

// The scene of bin/demo: several workers (charge.php) get the same invoice to charge.
//
//     php scene.php play FOLDER      the folder takes the ledger
//     php scene.php clear            frees the lock of a worker that was killed
//
// The server is the one of the setting redis_lock.servers.

const INVOICE = '1001';
const WORKERS = 5;

/** One process of charge.php. It is ready to go when the constructor returns. */
final class Worker
{
    /** @var resource */
    public $output;
    /** @var resource */
    private $input;
    /** @var resource */
    private $process;

    public function __construct(public readonly int $number, string ...$arguments)
    {
        $this->process = proc_open(
            [PHP_BINARY, __DIR__ . '/charge.php', ...$arguments],
            [['pipe', 'r'], ['pipe', 'w']],
            $pipes,
        );
        [$this->input, $this->output] = $pipes;
        if ($this->tells() !== 'ready') {
            fail("Worker $number did not start.");
        }
    }

    public function go(): void
    {
        fwrite($this->input, "\n");
    }

    /** What it did; the next line of its output. */
    public function tells(): string
    {
        $line = fgets($this->output);

        return $line === false ? 'FAILED' : rtrim($line);
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    public function kill(): void
    {
        proc_terminate($this->process, 9);
    }
}

function fail(string $why): never
{
    fwrite(STDERR, "$why\n");
    exit(1);
}

/** A fresh ledger: nothing is charged. */
function ledger(string $folder): string
{
    file_put_contents("$folder/ledger", '');

    return "$folder/ledger";
}

function timesCharged(string $ledger): int
{
    return count(file($ledger));
}

/** Prints what the workers tell, as they tell it. */
function listen(float $since, Worker ...$workers): void
{
    while ($workers !== []) {
        $ready = array_map(fn (Worker $worker) => $worker->output, $workers);
        $none = null;
        stream_select($ready, $none, $none, 60) ?: fail('Nobody told anything for a minute.');
        foreach (array_intersect_key($workers, $ready) as $key => $worker) {
            printf("   %.1f s later  worker %d %s\n", microtime(true) - $since, $worker->number, $worker->tells());
            unset($workers[$key]);
        }
    }
}

/** All workers at once. @return int how often the invoice was charged */
function rush(string $folder, string ...$lock): int
{
    $ledger = ledger($folder);
    $workers = array_map(fn (int $number) => new Worker($number, INVOICE, $ledger, '0.5', ...$lock), range(1, WORKERS));
    $since = microtime(true);
    foreach ($workers as $worker) {
        $worker->go();
    }
    listen($since, ...$workers);

    return timesCharged($ledger);
}

function play(string $folder): void
{
    $lock = new RedisLock('invoice:' . INVOICE);
    $lock->getHolder(); // a server that cannot be reached is told before the curtain rises

    printf("\n%d PHP processes are told at the same moment: charge invoice %s.\n", WORKERS, INVOICE);

    echo "\n1. Without a lock\n\n";
    $times = rush($folder);
    echo "\n   The invoice was charged $times times: each worker looked before any had charged.\n";
    $times > 1 || fail('   That was not to be expected: this machine is so busy that the workers missed each other.');

    echo "\n2. With a lock: \$lock->synchronized(fn () => charge(\$invoice))\n\n";
    $times = rush($folder, 'lock');
    $times === 1 || fail("   The invoice was charged $times times: the lock does not work.");
    echo "\n   The invoice was charged once: one worker at a time looked and charged, the others waited.\n";

    echo "\n3. A worker dies while it holds the lock\n\n";
    $ledger = ledger($folder);
    $first = new Worker(1, INVOICE, $ledger, '10', 'lock');
    $next = new Worker(2, INVOICE, $ledger, '0', 'lock');
    $first->go();
    for ($until = microtime(true) + 10; ($holder = $lock->getHolder()) === null; usleep(1_000)) {
        microtime(true) < $until || fail('   Worker 1 did not get the lock.');
    }
    $next->go();
    $first->kill();
    $since = microtime(true);
    echo "   Worker 1 took the lock with a ttl of 3 s: its lease ends then, unless it frees it before.\n";
    echo "   Redis, asked who holds the lock, said: process {$holder['pid']} on {$holder['host']}.\n";
    echo "   Worker 2 waits for the lock. Worker 1 is killed (kill -9 {$first->pid()}) and can free nothing any more.\n\n";
    listen($since, $next);
    timesCharged($ledger) === 1 || fail('   Worker 2 did not get in: the lock does not work.');
    echo "\n   The lease ended by itself, and the next worker got in. A dead worker locks nobody out for long.\n\n";
}

try {
    match ($argv[1] ?? null) {
        'play' => play($argv[2]),
        'clear' => (new RedisLock('invoice:' . INVOICE))->forceRelease(),
    };
} catch (RedisLock\Exception $e) {
    fail($e->getMessage());
}
