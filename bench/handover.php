<?php

/*
 * How long it takes from the moment at which a holder calls release() to the one at which acquire() returns in a process
 * that waited already; in bare round trips over a Unix socket. Two workers pass the lock to and fro, and measure a trip
 * (PING) each time they hold it, after the same calm: processors and processes take longer the longer they slept.
 *
 * Usage: php handover.php SOCKET [SECONDS]
 */

require __DIR__ . '/shared.php';

const ROUNDS = 8;
const CALM = 20_000; // µs

[$socket, $seconds] = [$argv[1], (float) ($argv[2] ?? 16)];
$pairs = [];
foreach (builds() as $library) {
    $pairs[$library] = [new Worker($library, $socket), new Worker($library, $socket)];
}

$handOvers = $trips = $ratios = array_fill_keys(builds(), []);
for ($round = 0; $round < ROUNDS; $round++) {
    foreach (inTurn(builds(), $round) as $library) {
        $start = hrtime(true) + 50_000_000;
        $turns = [];
        $end = $start + (int) ($seconds * 1e9 / ROUNDS);
        foreach (together($pairs[$library], 'hand-overs', $start, $end, CALM) as $who => $answer) {
            foreach ($answer as $turn) {
                $turns[] = [...$turn, $who];
            }
        }
        usort($turns, static fn (array $a, array $b) => $a[1] <=> $b[1]);

        $here = $bare = [];
        foreach ($turns as $i => [, , $freed, $trip, $who]) {
            $bare[] = $trip / 1e3;
            [$asked, $taken, , , $next] = $turns[$i + 1] ?? [$freed, 0, 0, 0, 0];
            // The other one, and it waited through the calm.
            if ($next !== $who && $asked < $freed - CALM * 1000) {
                $here[] = ($taken - $freed) / 1e3;
            }
        }
        if ($here !== []) {
            $ratios[$library][] = quantile($here, .5) / quantile($bare, .5);
        }
        array_push($handOvers[$library], ...$here);
        array_push($trips[$library], ...$bare);
    }
}

printf("Hand-over: from release() to the return of acquire() elsewhere, %d rounds\n", ROUNDS);
foreach (builds() as $library) {
    tell("bare round trip beside $library", $trips[$library], 'µs');
    if ($ratios[$library] === []) {
        echo "  $library never handed over: whoever freed the lock took it again.\n";
        continue;
    }
    tell("hand-over of $library", $handOvers[$library], 'µs');
    tell("hand-over of $library, in round trips", $ratios[$library], most: $library === OURS ? 3.5 : null);
}
