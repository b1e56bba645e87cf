<?php

/**
 * Makes locks that share a server, a prefix and defaults: one object to inject where locks are needed.
 */
class RedisLockFactory
{
    /**
     * Does no I/O.
     *
     * @param string|list<string>|null $servers The server of all locks, or several, as in RedisLock::__construct().
     *                                 null: the setting redis_lock.servers.
     * @param string|null $prefix      Put before every key. null: the setting redis_lock.prefix.
     * @param float|null  $ttl         Default ttl in seconds. null: the setting redis_lock.ttl.
     * @param bool|null   $renew       Default for renew. null: the setting redis_lock.renew.
     * @param float|null  $maxHold     Default for maxHold, for locks that are renewed. null: no limit.
     * @param bool        $interrupt   Default for interrupt.
     * @param bool        $fencing     Default for fencing.
     * @param bool        $autoRelease Default for autoRelease.
     * @param int         $minReplicas Default for minReplicas.
     * @param float|null  $restartGuard Default for restartGuard, in seconds. null: none.
     *
     * @throws \ValueError     A value is out of range, or the server's address is malformed.
     * @throws \LogicException The object is constructed already.
     */
    public function __construct(
        #[\SensitiveParameter] string|array|null $servers = null,
        ?string $prefix = null,
        ?float $ttl = null,
        ?bool $renew = null,
        ?float $maxHold = null,
        bool $interrupt = false,
        bool $fencing = false,
        bool $autoRelease = true,
        int $minReplicas = 0,
        ?float $restartGuard = null,
    ) {
    }

    /**
     * A lock on $key. Does no I/O.
     *
     * @param string     $key         The name to lock: bytes, not empty, at most 16 MiB.
     * @param float|null $ttl         Seconds. null: the factory's.
     * @param bool|null  $renew       null: the factory's.
     * @param float|null $maxHold     Seconds; INF: no limit. null: the factory's. Only with renewal.
     * @param bool|null  $interrupt   null: the factory's.
     * @param bool|null  $fencing     null: the factory's.
     * @param bool|null  $autoRelease null: the factory's.
     * @param int|null   $minReplicas null: the factory's.
     * @param float|null $restartGuard Seconds. null: the factory's.
     *
     * @throws \ValueError A value is out of range, or the key is empty or ends like this library's own keys.
     */
    public function createLock(
        string $key,
        ?float $ttl = null,
        ?bool $renew = null,
        ?float $maxHold = null,
        ?bool $interrupt = null,
        ?bool $fencing = null,
        ?bool $autoRelease = null,
        ?int $minReplicas = null,
        ?float $restartGuard = null,
    ): RedisLock {
    }

    /**
     * A handle on a lease acquired elsewhere, as RedisLock::restore() gives it. Does no I/O.
     *
     * @param string     $key         The key.
     * @param string     $token       What getToken() gave. Not empty.
     * @param float|null $ttl         Seconds. null: the factory's.
     * @param bool|null  $renew       null: the factory's.
     * @param float|null $maxHold     As in createLock().
     * @param bool|null  $interrupt   null: the factory's.
     * @param bool|null  $fencing     null: the factory's.
     * @param bool|null  $autoRelease null: the factory's.
     * @param int|null   $minReplicas null: the factory's.
     * @param float|null $restartGuard Seconds. null: the factory's.
     * @param int|null   $fence       What getFence() gave.
     *
     * @throws \ValueError As createLock(); or the token is empty, or $fence is no fence.
     */
    public function restoreLock(
        string $key,
        #[\SensitiveParameter] string $token,
        ?float $ttl = null,
        ?bool $renew = null,
        ?float $maxHold = null,
        ?bool $interrupt = null,
        ?bool $fencing = null,
        ?bool $autoRelease = null,
        ?int $minReplicas = null,
        ?float $restartGuard = null,
        ?int $fence = null,
    ): RedisLock {
    }
}
