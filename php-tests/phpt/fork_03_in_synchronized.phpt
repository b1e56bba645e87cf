--TEST--
Fork: a child comes out of the synchronized() in which it was forked, and releases nothing
--DESCRIPTION--
It returns, throws or exits out of a call that its parent began and that holds the parent's lock. For the child
that is no loss either: it never had the lock.
--FILE--
<?php
require __DIR__ . '/phpt.inc';

server();
$warnings = [];
set_error_handler(function (int $level, string $message) use (&$warnings) {
    $warnings[] = $message;
    return true;
});

foreach ([
    'returns' => fn () => 'value',
    'throws' => fn () => throw new DomainException('of the child'),
    'exits' => fn () => exit(0),
    'takes its own lock and returns' => fn () => (new RedisLock('own', ttl: 300))->acquire(),
    'tries to release and returns' => fn (RedisLock $lock) => $lock->release(),
] as $how => $end) {
    $lock = new RedisLock('invoice', ttl: 300);
    $critical = function () use ($lock, $end, &$fork, &$token, &$held) {
        $token = $lock->getToken();
        $fork = new Fork();
        if ($fork->pid === 0) {
            return $end($lock);
        }
        $fork->status();
        $held = [$lock->isAcquired(), $lock->getToken(), server()->command('GET', 'invoice'), keys()];

        return 'of the parent';
    };
    $said = outcome(fn () => $lock->synchronized($critical));
    if ($fork->pid === 0) {
        $fork->report([$said, $lock->isAcquired(), $warnings]);
    }
    $told = $fork->told();
    echo "$how: the child sees ", json_encode($told), "\n";
    same('  the parent holds to the end', [true, $token, $token, ['invoice']], $held);
    same('  and returns', 'of the parent', $said);
    same('  then it is free', [false, []], [$lock->isAcquired(), keys()]);
}
same('nobody was warned', [], $warnings);
?>
--EXPECT--
returns: the child sees ["value",false,[]]
  the parent holds to the end: yes
  and returns: yes
  then it is free: yes
throws: the child sees ["DomainException: of the child",false,[]]
  the parent holds to the end: yes
  and returns: yes
  then it is free: yes
exits: the child sees "The child told nothing."
  the parent holds to the end: yes
  and returns: yes
  then it is free: yes
takes its own lock and returns: the child sees [true,false,[]]
  the parent holds to the end: yes
  and returns: yes
  then it is free: yes
tries to release and returns: the child sees [false,false,[]]
  the parent holds to the end: yes
  and returns: yes
  then it is free: yes
nobody was warned: yes
