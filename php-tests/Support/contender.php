<?php

// The process behind Contender: php contender.php -- <address> <key> <ttl> <setup>. Several addresses with spaces between
// them are a quorum. It takes orders on its standard input and answers each with a line of JSON: what came of it, and the
// moments at which it began and ended.

[$address, $key, $ttl, $setup] = array_slice($argv, -4);
$address = str_contains($address, ' ') ? explode(' ', $address) : $address;
$lock = new RedisLock($key, (float) $ttl, servers: $address);
eval($setup);

while (($line = fgets(STDIN)) !== false) {
    [$order, $argument] = explode(' ', rtrim($line, "\n"), 2) + [1 => ''];
    $began = hrtime(true);
    $ended = null;
    try {
        switch ($order) {
            case 'acquire':
                $outcome = $lock->acquire((float) $argument) ? 'held' : 'busy';
                break;
            case 'release':
                $outcome = $lock->release() ? 'released' : 'lost';
                break;
            case 'turn': // held for 5 ms, which are its beginning and end
                $outcome = 'busy';
                if ($lock->acquire((float) $argument)) {
                    $began = hrtime(true);
                    usleep(5_000);
                    $ended = hrtime(true);
                    $outcome = $lock->release() ? 'had' : 'lost';
                }
                break;
            case 'run': // PHP code; it sees the variables of this file
                $outcome = eval($argument);
                break;
        }
    } catch (Throwable $e) {
        $outcome = $e::class . ": {$e->getMessage()}";
    }
    echo json_encode([$outcome, $began / 1e9, ($ended ?? hrtime(true)) / 1e9], JSON_PRESERVE_ZERO_FRACTION), "\n";
}
