<?php

namespace RedisLock;

/**
 * A server is unreachable, refused the connection, did not answer in time, or refused authentication or TLS.
 * The message says which server and why; it holds no password and no token.
 *
 * After a time-out it is unknown whether the request was carried out.
 */
class ConnectionException extends Exception
{
}
