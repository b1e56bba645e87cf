<?php

/**
 * Stubs of the extension redis_lock, for IDEs and static analysers.
 *
 * Durations are seconds; an int is taken wherever a float is.
 */

/**
 * A lock on one name, held across processes and machines through Redis.
 *
 * One object is one holder: two objects with the same key exclude each other, also in one process.
 * A lock always has a ttl, so that a holder that dies locks nobody out for long.
 *
 * @see https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ the pattern: SET NX PX, compare and delete
 */
class RedisLock
{
    /**
     * Describes a lock. Does no I/O: nothing connects before the first acquire.
     *
     * @param string      $key         The name to lock: bytes, not empty, at most 16 MiB.
     * @param float|null  $ttl         Seconds that Redis keeps the key without a refresh, rounded up to whole
     *                                 milliseconds; at least 0.003. null: the setting redis_lock.ttl.
     * @param bool|null   $renew       true: a thread of this process renews the lease while it is held, at a third of its
     *                                 ttl, also while PHP waits for something else. It ends with release(), with the
     *                                 object, and with the request. The ttl must be at least 0.1. null: the setting
     *                                 redis_lock.renew.
     * @param float|null  $maxHold     Seconds after the acquire at which renewal ends; the lease then runs out by its ttl.
     *                                 Greater than 0; only with $renew. INF and null: no limit.
     * @param bool        $interrupt   true: if the lease is lost while synchronized() runs, LockLostException is thrown
     *                                 into the running callable, as soon as it runs PHP code again.
     * @param bool        $fencing     true: each acquire also gives a fence, in the same round trip, see getFence().
     * @param bool        $autoRelease true: the lock is freed when the object goes away and at the end of the request.
     *                                 false: the key is left to its ttl, to hand the token to another process; renewal
     *                                 ends all the same.
     * @param int         $minReplicas How many replicas must have confirmed an acquire before it is reported (WAIT, in the
     *                                 same round trip); if they have not within half of redis_lock.command_timeout, the
     *                                 key is freed again, and ConnectionException says so. 0 to 1000000; 0 with a quorum
     *                                 and with memory://. A refresh or renewal is not confirmed.
     * @param float|null  $restartGuard Seconds for which a server must have been up to grant a lock, at least the longest
     *                                 ttl in use: one that was restarted without what it held must not give it away anew.
     *                                 By the server's own uptime, which a step of its clock falsifies. null: none.
     * @param string|list<string>|null $servers The server: redis://[user:pass@]host:port[/db],
     *                                 rediss://…[?cafile=&cert=&key=], unix:///path[?db=&user=&password=],
     *                                 redis+sentinel://[user:pass@]host:port,…/name[/db][?sentinel_user=&sentinel_password=],
     *                                 redis+cluster://[user:pass@]host:port,… or memory://. Several in an array: a quorum
     *                                 of independent servers (Redlock), of which a majority must agree: of any kind but
     *                                 the last two. There, what goes wrong is a ConnectionException with each server's
     *                                 reason, and nobody holds the key that no majority has.
     *                                 null: the setting redis_lock.servers, where spaces stand between several.
     * @param string|null $prefix      Put before the key. null: the setting redis_lock.prefix.
     *
     * @see https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ Redlock
     *
     * @throws \ValueError     A value is out of range, $maxHold is given without renewal, $minReplicas without replicas, the key is empty or ends like this library's own keys
     *                         (":redis_lock:queue", ":redis_lock:fence"), or the server's address is malformed.
     * @throws \LogicException The object is constructed already.
     */
    public function __construct(
        string $key,
        ?float $ttl = null,
        ?bool $renew = null,
        ?float $maxHold = null,
        bool $interrupt = false,
        bool $fencing = false,
        bool $autoRelease = true,
        int $minReplicas = 0,
        ?float $restartGuard = null,
        #[\SensitiveParameter] string|array|null $servers = null,
        ?string $prefix = null,
    ) {
    }

    /**
     * Takes the lock.
     *
     * Who waits stands in line, and is told when the lock is passed on: first come, first served. While another
     * library holds the key, or where the server refuses subscriptions, it asks again and again instead (settings
     * redis_lock.poll_min and redis_lock.poll_max). What a signal handler throws ends the wait and leaves the line.
     *
     * @param float $wait Seconds to wait for it. 0: exactly one try, out of line. INF: no limit.
     *
     * @return bool true: this object holds the lock. false: someone else holds the key, and nothing else.
     *
     * @throws \ValueError                     $wait is negative or NAN.
     * @throws \LogicException                 This object holds the lock already.
     * @throws \RedisLock\ConnectionException  The server cannot be reached, or did not answer in time.
     * @throws \RedisLock\CommandException     The server answered with an error.
     * @throws \RedisLock\Exception            The operating system gave no randomness for a token, or no thread.
     */
    public function acquire(float $wait = 0.0): bool
    {
    }

    /**
     * Takes the lock, calls $critical with no arguments, frees the lock on every way out, and returns what
     * $critical returned. An exception of $critical goes through untouched.
     *
     * If the lease is lost while $critical runs, LockLostException is thrown: with interrupt: true right into $critical,
     * which it leaves like any other exception, but not in the middle of a finally block, a destructor or another fiber;
     * it waits for their end. Otherwise, or if $critical catches it and goes on, when $critical has returned. If $critical
     * threw something else, that goes through, and a warning tells of the loss.
     *
     * If the server cannot be reached for the release, the value is returned and a warning is raised; the key
     * then lives until its ttl ends. What an error handler throws for that warning is dropped.
     *
     * @template T
     *
     * @param callable(): T $critical What to do while the lock is held.
     * @param float|null    $wait     Seconds to wait for the lock, as in acquire(). null: the setting redis_lock.wait.
     *
     * @return T
     *
     * @throws \RedisLock\LockTimeoutException The lock could not be had in time.
     * @throws \RedisLock\LockLostException    The lease ended before $critical did; getResult() gives what it returned,
     *                                         null if it was interrupted.
     * @throws \ValueError                     $wait is negative or NAN.
     * @throws \LogicException                 This object holds the lock already, or $critical returned a Generator,
     *                                         whose body would run after the release.
     * @throws \RedisLock\ConnectionException  The server cannot be reached, or did not answer in time.
     * @throws \RedisLock\CommandException     The server answered with an error.
     * @throws \RedisLock\Exception            The operating system gave no randomness for a token, or no thread.
     */
    public function synchronized(callable $critical, ?float $wait = null): mixed
    {
    }

    /**
     * Frees the lock. A release whose reply was lost is tried again on a new connection.
     *
     * @return bool true: this object held the lock, and it is free now or the next one's in line. false: it was no
     *              longer ours, or never.
     *
     * @throws \RedisLock\ConnectionException Whether it was freed is unknown; the token is kept, call again.
     * @throws \RedisLock\CommandException    The server answered with an error; the token is kept, call again.
     */
    public function release(): bool
    {
    }

    /**
     * Extends the lease: the key lives for $ttl from now. It never creates: a lease that ended stays ended. A lease that
     * is renewed goes back to the ttl of the constructor once less than two thirds of that are left.
     *
     * @param float|null $ttl Seconds, as in the constructor. null: the ttl of the constructor.
     *
     * @return bool true: ours until then. false: no longer ours.
     *
     * @throws \ValueError                    $ttl is out of range, or greater than restartGuard.
     * @throws \RedisLock\Exception           It was extended, but its renewal cannot begin: the system gives no thread.
     * @throws \RedisLock\ConnectionException Whether it was extended is unknown.
     * @throws \RedisLock\CommandException    The server answered with an error.
     */
    public function refresh(?float $ttl = null): bool
    {
    }

    /**
     * Whether this object's lease is valid now. Local: no request is sent, so that it knows nothing of a
     * forceRelease() elsewhere, or of a server that forgot, until a renewal has told it.
     */
    public function isAcquired(): bool
    {
    }

    /**
     * Whether this object had a lease that ran out or was lost before it was released. Local: no request is sent.
     * The server may keep the key a little longer, for the allowance that getRemainingLifetime() names: refresh()
     * may still succeed then.
     */
    public function isExpired(): bool
    {
    }

    /**
     * Seconds for which the lease is surely still ours: the ttl from before the request was sent, less an allowance
     * for clock drift of 1 % and 2 ms. Local: no request is sent.
     *
     * @return float|null 0.0 when the lease ran out or was lost; null when this object holds nothing.
     */
    public function getRemainingLifetime(): ?float
    {
    }

    /**
     * The key as it was given, without the prefix.
     */
    public function getKey(): string
    {
    }

    /**
     * The token of this object's lease, for RedisLock::restore() in another process. Keep it secret: who has it can
     * free the lock.
     *
     * @return string|null null when this object has no lease.
     */
    public function getToken(): ?string
    {
    }

    /**
     * The fence of this object's lease: a number that grows with each acquisition of the key, so that what the lock guards
     * can remember the greatest one and refuse who comes with a smaller one, because its lease ended unnoticed. It is the
     * greater of the last one and 1 more, and of the server's time in microseconds; never more than 2^53 - 1.
     *
     * It grows also where the server forgets, as long as no server that answers has a clock behind the last fence.
     *
     * @see https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html fencing tokens
     *
     * @return int|null also of a lease that ran out or was lost; null when this object has no lease, or one without a
     *                  fence: $fencing is false.
     */
    public function getFence(): ?int
    {
    }

    /**
     * Asks the server who holds the key.
     *
     * @return array{host: ?string, pid: ?int, since: ?int, ttl: ?float}|null
     *         host and process id of the holder, and the Unix time in seconds at which it drew its token (null each
     *         when the holder is another library or hides them: redis_lock.identify = 0), and the seconds after which
     *         the key ends (null: never). null: nobody holds it.
     *
     * @throws \RedisLock\ConnectionException The server cannot be reached, or did not answer in time.
     * @throws \RedisLock\CommandException    The server answered with an error.
     */
    public function getHolder(): ?array
    {
    }

    /**
     * Ends the lease of whoever holds the key, also another library's. For operators: the holder goes on working.
     *
     * @return bool true: someone held the key, and that lease is over. false: nobody held it.
     *
     * @throws \RedisLock\ConnectionException The server cannot be reached, or did not answer in time.
     * @throws \RedisLock\CommandException    The server answered with an error, such as WRONGTYPE: the key is no lock.
     */
    public function forceRelease(): bool
    {
    }

    /**
     * What happened to the leases of this process, in numbers. A forked child starts at 0.
     *
     * @return array{lost: int, renewals: int, renewalErrors: int, interrupts: int, kept: int}
     *         lost: leases that ended before they were released, once each; one that nobody looks
     *         after, when it is released or its object goes. renewals: how often a
     *         lease was renewed. renewalErrors: how often a try failed, for whatever reason; it is tried again.
     *         interrupts: exceptions thrown into callables. kept: leases that are looked after now.
     */
    public static function stats(): array
    {
    }

    /**
     * A handle on a lease acquired elsewhere. Does no I/O: it is not acquired until refresh() says so, and it frees
     * nothing by itself before that. acquire() on it uses the given token. A forged or stale token is harmless.
     *
     * A token that the application uses again and again has a weakness: a release that did not reach the server in time
     * may free a later lease of the same token. After a release of unknown outcome the same object refuses to acquire
     * with it (ConnectionException); another object cannot know.
     *
     * @param string      $key         The key, as in the constructor.
     * @param string      $token       What getToken() gave, or an owner that the application names itself. Not empty.
     * @param float|null  $ttl         As in the constructor.
     * @param bool|null   $renew       As in the constructor; from the first refresh() that returns true, or acquire().
     * @param float|null  $maxHold     As in the constructor; counted from there.
     * @param bool        $interrupt   As in the constructor.
     * @param bool        $fencing     As in the constructor; for acquire().
     * @param bool        $autoRelease As in the constructor; it counts from the first refresh() that returns true.
     * @param int         $minReplicas As in the constructor; for acquire().
     * @param float|null  $restartGuard As in the constructor; for acquire().
     * @param string|list<string>|null $servers As in the constructor.
     * @param string|null $prefix      As in the constructor.
     * @param int|null    $fence       What getFence() gave, for the handle's getFence().
     *
     * @throws \ValueError As the constructor; or the token is empty, or $fence is no fence.
     */
    public static function restore(
        string $key,
        #[\SensitiveParameter] string $token,
        ?float $ttl = null,
        ?bool $renew = null,
        ?float $maxHold = null,
        bool $interrupt = false,
        bool $fencing = false,
        bool $autoRelease = true,
        int $minReplicas = 0,
        ?float $restartGuard = null,
        #[\SensitiveParameter] string|array|null $servers = null,
        ?string $prefix = null,
        ?int $fence = null,
    ): static {
    }
}
