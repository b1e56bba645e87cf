<?php

/*
 * What a waiter costs while nothing happens: what it asks of the server, and its CPU time.
 *
 * Usage: php idle.php SOCKET [SECONDS]
 */

require __DIR__ . '/shared.php';

/** CPU time of all threads of a process in ms, to the nanosecond; its utime and stime are this in steps of 10 ms. */
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
    [$holder, $waiter] = [new Worker($library, $socket), new Worker($library, $socket)];
    together([$holder], 'acquire');
    $waiter->order('acquire');
    sleep(1); // until it has queued up

    [$requests, $cpu] = [requests($socket), cpu($waiter->pid)];
    usleep((int) ($seconds * 1e6));
    $cpu = cpu($waiter->pid) - $cpu;
    $requests = requests($socket) - $requests;

    together([$holder], 'release');
    $waiter->answer();
    together([$waiter], 'release');

    $ours = $library === OURS;
    tell("requests of $library, a second", $requests / $seconds, most: $ours ? 1.5 : null);
    tell("CPU time of $library, a second", $cpu / $seconds, 'ms', most: $ours ? 1 : null);
}
