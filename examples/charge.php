<?php

// One worker. It is told to charge an invoice, and so are others at the same moment.
//
//     php charge.php INVOICE LEDGER BANK_SECONDS [lock]

[, $invoice, $ledger, $bankSeconds] = $argv;
$locked = isset($argv[4]);

function charge(string $invoice, string $ledger, float $bankSeconds): string
{
    if (str_contains(file_get_contents($ledger), "$invoice charged\n")) {
        return 'found it charged already';
    }
    usleep((int) ($bankSeconds * 1e6)); // the bank takes its time
    file_put_contents($ledger, "$invoice charged\n", FILE_APPEND);

    return 'found it not charged yet, and CHARGED it';
}

echo "ready\n";
fgets(STDIN); // and go, all at the same moment

if ($locked) {
    $lock = new RedisLock("invoice:$invoice", ttl: 3);
    $told = $lock->synchronized(fn () => charge($invoice, $ledger, $bankSeconds));
} else {
    $told = charge($invoice, $ledger, $bankSeconds);
}
echo "$told\n";
