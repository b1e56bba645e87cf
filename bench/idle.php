<?php

/*
 * What a waiter costs while nothing happens: what it asks of the server, and its CPU time, beside that of a process that
 * does nothing but wake up every 50 ms, as often as a waiter looks whether PHP wants something of it.
 *
 * Usage: php idle.php SOCKET [SECONDS]
 */

require __DIR__ . '/shared.php';

/** CPU time of all threads of a process in ms, exactly; utime and stime are the same in steps of 10 ms. */
function cpu(int $pid): float
{
    $all = 0.0;
    foreach (glob("/proc/$pid/task/*/schedstat") as $file) {
        $all += (int) file_get_contents($file) / 1e6;
    }

    return $all;
}

[$socket, $seconds] = [$argv[1], (float) ($argv[2] ?? 10)];
echo "Idle: a process that waits while another holds the lock, $seconds s\n";

foreach (builds() as $library) {
    [$holder, $waiter, $sleeper] = [new Worker($library, $socket), new Worker($library, $socket), new Worker($library, $socket)];
    together([$holder], 'acquire');
    $waiter->order('acquire');
    $sleeper->order('doze', $seconds + 2);
    sleep(1); // until it has queued up

    [$requests, $cpu, $least] = [requests($socket), cpu($waiter->pid), cpu($sleeper->pid)];
    usleep((int) ($seconds * 1e6));
    [$cpu, $least] = [cpu($waiter->pid) - $cpu, cpu($sleeper->pid) - $least];
    $requests = requests($socket) - $requests;

    together([$holder], 'release');
    $waiter->answer();
    $sleeper->answer();
    together([$waiter], 'release');

    $ours = $library === OURS;
    // "None that can be measured": 2 ms is one step of utime and stime in five seconds.
    tell("requests of $library, a second", $requests / $seconds, most: $ours ? 1.5 : null);
    tell("CPU time of $library, a second", $cpu / $seconds, 'ms', most: $ours ? 2 : null);
    tell('  of one that only wakes up as often', $least / $seconds, 'ms');
}
