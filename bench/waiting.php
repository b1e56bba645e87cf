<?php

/*
 * Eight workers and one lock, for every library in turn: how often it changes hands, how long they wait for it, how
 * evenly it is spread, and what it asks of the server. First with pauses between the turns, then with as few as
 * possible, where a poller does best: whoever frees the lock takes it again at once, and nobody else is served.
 *
 * The workers live through all rounds, and all begin a round at the same moment.
 *
 * Usage: php waiting.php SOCKET [SECONDS]: so long each library, with pauses; two thirds of it without
 */

require __DIR__ . '/shared.php';

const WORKERS = 8;
const ROUNDS = 5;

[$socket, $seconds] = [$argv[1], (float) ($argv[2] ?? 30)];

/** One round of one library. @param list<Worker> $workers */
function round_of(array $workers, string $socket, float $seconds, int $hold, int $pause): array
{
    $before = requests($socket);
    $start = hrtime(true) + 50_000_000;
    $answers = together($workers, 'turns', $start, $start + (int) ($seconds * 1e9), $hold, $pause);
    $waits = array_merge(...array_column($answers, 1));

    return [
        'counts' => array_column($answers, 0),
        'rate' => array_sum(array_column($answers, 0)) / $seconds,
        'half' => quantile($waits, .5) / 1e3,
        'p99' => quantile($waits, .99) / 1e3,
        'longest' => max($waits) / 1e3,
        // Also of the last turns, which ended after the round.
        'requests' => (requests($socket) - $before) / count($waits),
    ];
}

/** @param list<string> $libraries @return array<string, array> the figures of each, one a round; counts summed up */
function measure(array $libraries, string $socket, float $seconds, int $hold, int $pause): array
{
    $crews = [];
    foreach ($libraries as $library) {
        for ($i = 0; $i < WORKERS; $i++) {
            $crews[$library][] = new Worker($library, $socket);
        }
        // Connections are made and scripts loaded before it counts.
        round_of($crews[$library], $socket, 1.0, $hold, $pause);
    }

    $rounds = [];
    for ($round = 0; $round < ROUNDS; $round++) {
        foreach (inTurn($libraries, $round) as $library) {
            $rounds[$library][] = round_of($crews[$library], $socket, $seconds / ROUNDS, $hold, $pause);
        }
    }

    printf("  %-12s %28s %27s %9s %14s\n", '', 'acquisitions a second', 'wait, ms', 'requests', 'a worker/mean');
    printf("  %-12s %10s %8s %8s %9s %8s %8s %9s %7s %6s\n", '', 'median', '10 %', '90 %', 'p50', 'p99', 'longest', 'each', 'least', 'most');
    $figures = [];
    foreach ($libraries as $library) {
        $of = array_map(static fn (string $name) => array_column($rounds[$library], $name), [
            'rate' => 'rate', 'half' => 'half', 'p99' => 'p99', 'longest' => 'longest', 'requests' => 'requests',
        ]);
        $counts = array_map(static fn (int ...$all) => array_sum($all), ...array_column($rounds[$library], 'counts'));
        $of['shares'] = array_map(static fn (int $count) => $count * WORKERS / array_sum($counts), $counts);
        printf("  %-12s %10.1f %8.1f %8.1f %9.2f %8.2f %8.2f %9.2f %7.3f %6.3f\n", $library,
            quantile($of['rate'], .5), quantile($of['rate'], .1), quantile($of['rate'], .9), quantile($of['half'], .5),
            quantile($of['p99'], .5), max($of['longest']), quantile($of['requests'], .5), min($of['shares']), max($of['shares']));
        $figures[$library] = $of;
    }

    return $figures;
}

$rivals = [PHPREDIS];
foreach ([SYMFONY => ['Symfony/Component/Lock'], LARAVEL => ['Illuminate/Cache', 'Illuminate/Redis']] as $library => $folders) {
    $found = array_filter($folders, static fn (string $folder) => stream_resolve_include_path("$folder/autoload.php"));
    if ($found === $folders) {
        $rivals[] = $library;
    } else {
        echo "$library is not installed, and left out.\n";
    }
}

printf("Waiting: %d workers, 5 ms hold, pauses of 0 to 80 ms, %d rounds of %.1f s each\n", WORKERS, ROUNDS, $seconds / ROUNDS);
$figures = measure([...builds(), ...$rivals], $socket, $seconds, 5_000, 80_000);
$least = [PHPREDIS => 1.25, SYMFONY => 2.0, LARAVEL => 2.7];
foreach (array_keys($figures) as $library) {
    if ($library !== OURS) {
        tell("rate, ours / $library", ratios($figures[OURS]['rate'], $figures[$library]['rate']), least: $least[$library] ?? null);
    }
}
tell('p99 wait of ours', $figures[OURS]['p99'], 'ms', most: 30);
tell('requests of ours, each acquisition', $figures[OURS]['requests'], most: 5);
tell('a worker of ours, farthest from the mean', max(array_map(static fn ($share) => abs($share - 1), $figures[OURS]['shares'])), most: 0.1);

$seconds *= 2 / 3;
printf("\nWaiting: %d workers, 1 ms hold, no pauses, %d rounds of %.1f s each\n", WORKERS, ROUNDS, $seconds / ROUNDS);
$figures = measure([...builds(), PHPREDIS], $socket, $seconds, 1_000, 0);
foreach (array_keys($figures) as $library) {
    if ($library !== OURS) {
        tell("rate, ours / $library", ratios($figures[OURS]['rate'], $figures[$library]['rate']), least: $library === PHPREDIS ? 0.9 : null);
    }
}
tell('least / most a worker of ours', min($figures[OURS]['shares']) / max($figures[OURS]['shares']), least: 0.95);
