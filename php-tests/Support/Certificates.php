<?php

namespace RedisLock\Tests\Support;

/**
 * A certificate authority of our own, with one certificate for a server on 127.0.0.1 and one for a client.
 */
final class Certificates
{
    public readonly string $ca;
    public readonly string $serverCertificate;
    public readonly string $serverKey;
    public readonly string $clientCertificate;
    public readonly string $clientKey;

    public function __construct(string $folder)
    {
        $this->ca = "$folder/ca.crt";
        $newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
        self::openssl(['req', '-x509', ...$newKey, '-keyout', "$folder/ca.key", '-out', $this->ca,
            '-days', '2', '-subj', '/CN=A test authority']);

        foreach (['server', 'client'] as $name) {
            file_put_contents("$folder/$name.ext", "subjectAltName=IP:127.0.0.1,DNS:localhost\n"
                . "extendedKeyUsage={$name}Auth\nbasicConstraints=CA:FALSE\n");
            self::openssl(['req', ...$newKey, '-keyout', "$folder/$name.key", '-out', "$folder/$name.csr",
                '-subj', "/CN=A test $name"]);
            self::openssl(['x509', '-req', '-in', "$folder/$name.csr", '-CA', $this->ca, '-CAkey', "$folder/ca.key",
                '-CAcreateserial', '-extfile', "$folder/$name.ext", '-days', '2', '-out', "$folder/$name.crt"]);
        }
        $this->serverCertificate = "$folder/server.crt";
        $this->serverKey = "$folder/server.key";
        $this->clientCertificate = "$folder/client.crt";
        $this->clientKey = "$folder/client.key";
    }

    /** @param list<string> $arguments */
    private static function openssl(array $arguments): void
    {
        $output = tmpfile();
        $process = proc_open(['openssl', ...$arguments], [['file', '/dev/null', 'r'], $output, $output], $pipes);
        if ($process === false || proc_close($process) !== 0) {
            rewind($output);
            throw new \RuntimeException('openssl: ' . stream_get_contents($output));
        }
    }
}
