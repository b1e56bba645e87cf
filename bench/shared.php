<?php

/*
 * What the parts of the benchmark share: the libraries that are compared, worker processes, and how figures are told.
 */

const OURS = 'ours';
const FENCED = 'ours, fenced';
const OTHER_BUILD = 'other build';
const PHPREDIS = 'phpredis';
const SYMFONY = 'Symfony';
const LARAVEL = 'Laravel';

/** @return list<string> the builds of this extension that are compared: OTHER_INI loads the other one, see bin/bench */
function builds(): array
{
    return getenv('OTHER_INI') === false ? [OURS] : [OURS, OTHER_BUILD];
}

/** A PHP process that keeps one lock of one library, see worker.php. It ends with its input. */
final class Worker
{
    public readonly int $pid;
    /** @var resource */
    private $process;
    /** @var array{resource, resource} */
    private array $pipes = [];

    public function __construct(public readonly string $library, string $socket)
    {
        $environment = getenv();
        if ($library === OTHER_BUILD) {
            $environment['PHP_INI_SCAN_DIR'] = $environment['OTHER_INI'];
        }
        $command = [PHP_BINARY, __DIR__ . '/worker.php', $library, $socket];
        // Its errors go where ours go. Not by naming STDERR: PHP would rewind the file that it may be.
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w']], $this->pipes, null, $environment);
        $this->pid = proc_get_status($this->process)['pid'];
        $this->answer(); // it is ready
    }

    /** Has it do one of the things that worker.php can; it answers when that is done. */
    public function order(string $what, int|float ...$arguments): void
    {
        fwrite($this->pipes[0], json_encode([$what, $arguments]) . "\n");
    }

    public function answer(): mixed
    {
        $ready = [$this->pipes[1]];
        $none = null;
        $line = stream_select($ready, $none, $none, 120) === 1 ? fgets($this->pipes[1]) : false;
        if ($line === false) {
            proc_terminate($this->process, SIGKILL);
            throw new RuntimeException("A worker of \"$this->library\" failed or hung.");
        }

        return json_decode($line, true, flags: JSON_THROW_ON_ERROR);
    }
}

/** Has workers do the same at the same time. @param list<Worker> $workers @return list<mixed> their answers */
function together(array $workers, string $what, int|float ...$arguments): array
{
    foreach ($workers as $worker) {
        $worker->order($what, ...$arguments);
    }

    return array_map(static fn (Worker $worker) => $worker->answer(), $workers);
}

/** What clients sent to the server so far, requests in the sense of one read of it; less what this function sends. */
function requests(string $socket): int
{
    static $redis = null;
    static $own = 0;
    if ($redis === null) {
        $redis = new Redis();
        $redis->connect($socket);
    }

    return $redis->info('stats')['total_reads_processed'] - ++$own;
}

/** The list in another order for every round, so that what changes with time hits all alike. */
function inTurn(array $list, int $round): array
{
    $first = $round % count($list);

    return [...array_slice($list, $first), ...array_slice($list, 0, $first)];
}

/** The value below which a share of all values is. @param list<int|float> $values */
function quantile(array $values, float $share): float
{
    sort($values);

    return $values[(int) round($share * (count($values) - 1))];
}

/** @param list<int|float> $values @param list<int|float> $divisors @return list<float> */
function ratios(array $values, array $divisors): array
{
    return array_map(static fn ($value, $divisor) => $value / $divisor, $values, $divisors);
}

/**
 * Prints one figure, or the median of several, and how it stands to its budget.
 *
 * @param float|list<int|float> $values
 */
function tell(string $what, float|array $values, string $unit = '', ?float $least = null, ?float $most = null): void
{
    $value = is_array($values) ? quantile($values, .5) : $values;
    $digits = $value < 10 ? 3 : 1;
    $spread = is_array($values)
        ? sprintf("(10 %%: %.{$digits}f, 90 %%: %.{$digits}f)", quantile($values, .1), quantile($values, .9))
        : '';
    $budget = match (true) {
        $least !== null => "budget: at least $least" . ($value < $least ? ', MISSED' : ''),
        $most !== null => "budget: at most $most" . ($value > $most ? ', MISSED' : ''),
        default => '',
    };
    echo rtrim(sprintf("  %-40s %9.{$digits}f %-3s %-30s %s", $what, $value, $unit, $spread, $budget)), "\n";
}
