# shellcheck shell=bash
# What the commands in bin share: install what is missing, build the extension, load it, leave nothing behind.
# To be sourced. It makes the repository the current folder, and $scratch a folder that is gone at the end.
#
# PHP and PHP_CONFIG choose another PHP than the one in PATH; the build takes them as they are. REDIS_SERVER chooses
# another server, such as valkey-server; the tests take it as it is.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command=bin/$(basename "$0")
php=${PHP:-php}
php_config=${PHP_CONFIG:-php-config}
redis_server=${REDIS_SERVER:-redis-server}

say() { printf '%s\n' "$*" >&2; }
stop() { say "$@"; exit 1; }

# ---- The way out --------------------------------------------------------------------------------------------------

scratch=$(mktemp -d "${TMPDIR:-/tmp}/redis_lock.XXXXXX")
before_leaving=() # functions, the last one first

leave() {
    trap '' HUP INT TERM
    for ((i = ${#before_leaving[@]} - 1; i >= 0; i--)); do
        "${before_leaving[i]}" || true
    done
    rm -rf "$scratch"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Ends a job that was started under "set -m", with all that it started: such a job is a process group of its own.
end_group() { # PID
    kill -KILL -- "-$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

# ---- What has to be there -----------------------------------------------------------------------------------------

need_rust() {
    local least found
    least=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)
    # rustup's folder is not in the PATH of every shell.
    command -v cargo >/dev/null || PATH=$PATH:${HOME:-/root}/.cargo/bin
    found=$(cargo --version 2>/dev/null && rustc --version 2>/dev/null) || found=
    found=${found##*rustc }
    found=${found%% *}
    [ -n "$found" ] ||
        stop "Rust is missing. Install version $least or newer (https://rustup.rs), and run $command again."
    printf '%s\n' "$least" "$found" | sort -C -V ||
        stop "Rust $found is too old. Install version $least or newer (https://rustup.rs), and run $command again."
}

need_cargo() { # TOOL...: of those that rustup can leave out
    local tool
    for tool in "$@"; do
        cargo "$tool" --version >/dev/null 2>&1 ||
            stop "Rust's tool \"cargo $tool\" is missing. Install it (rustup component add rustfmt clippy)," \
                "and run $command again."
    done
}

# The packages as Debian names them, and what of each is used here: that may also come from elsewhere.
declare -A use_of=(
    [gcc]='a C compiler, cc'
    [libc6-dev]='the headers of the C library'
    [ca-certificates]='the certificates with which cargo trusts its registry'
    [libclang-dev]='libclang and its headers'
    [php-cli]='PHP 8.1 or newer, php'
    [php-dev]='the headers of PHP, php-config and run-tests.php'
    [php-fpm]='PHP-FPM of the same version'
    [php-redis]='the PHP extension redis'
    [php-sqlite3]='the PHP extension pdo_sqlite'
    [phpunit]='PHPUnit 9.6 or newer'
    [redis-server]='Redis, redis-server and redis-cli'
    [openssl]='the command openssl'
    [valgrind]='the command valgrind'
    [libfcgi-bin]='the command cgi-fcgi'
    [shellcheck]='the command shellcheck'
    [make]='the command make'
    [xz-utils]='the command xz'
    [php-symfony-lock]='Symfony Lock in the include_path of PHP'
    [php-illuminate-cache]="Laravel's cache in the include_path of PHP"
    [php-illuminate-redis]="Laravel's connections to Redis in the include_path of PHP"
)

is_there() { # PACKAGE
    case $1 in
        gcc) command -v cc ;;
        libc6-dev) printf '#include <stdlib.h>\n' | cc -E - ;;
        ca-certificates) [ -e "${SSL_CERT_FILE:-}" ] || [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs ] ;;
        libclang-dev)
            [ -n "${LIBCLANG_PATH:-}" ] || command -v llvm-config ||
                ls -d /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/llvm-*/lib/clang/*/include
            ;;
        php-cli) "$php" -r 'exit((int) (PHP_VERSION_ID < 80100));' ;;
        php-dev) [ -f "$("$php_config" --include-dir)/main/php.h" ] && run_tests_php ;;
        php-fpm) PATH=$PATH:/usr/sbin command -v "php-fpm$("$php" -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')" php-fpm ;;
        php-redis) "$php" -r 'exit((int) !extension_loaded("redis"));' ;;
        php-sqlite3) "$php" -r 'exit((int) !extension_loaded("pdo_sqlite"));' ;;
        redis-server) command -v "$redis_server" && command -v redis-cli ;;
        libfcgi-bin) command -v cgi-fcgi ;;
        xz-utils) command -v xz ;;
        php-symfony-lock) php_includes Symfony/Component/Lock/autoload.php ;;
        php-illuminate-cache) php_includes Illuminate/Cache/autoload.php ;;
        php-illuminate-redis) php_includes Illuminate/Redis/autoload.php ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

php_includes() { # FILE
    # shellcheck disable=SC2016 # PHP's variable
    "$php" -r 'exit((int) !stream_resolve_include_path($argv[1]));' -- "$1"
}

# PHP's own runner of .phpt tests, which comes with its headers.
run_tests_php() {
    local lib
    lib=$("$php_config" --prefix)/lib/php
    ls "$lib/$(php_api)/build/run-tests.php" 2>/dev/null || ls "$lib/build/run-tests.php"
}

# The version of the headers, as an extension has it. Only Debian's php-config says it.
php_api() { sed -n 's/^#define ZEND_MODULE_API_NO //p' "$("$php_config" --include-dir)/Zend/zend_modules.h"; }

# The same, but that it tries each test once: otherwise it tries many again that failed, and shows nothing of the first time.
phpt_runner() {
    sed 's/&& error_may_be_retried(/\&\& false &/' "$(run_tests_php)" >"$scratch/run-tests.php"
    printf '%s\n' "$scratch/run-tests.php"
}

# What it lays beside a test that failed; its output has it all.
remove_phpt_output() {
    find php-tests -name '*.phpt' | while IFS= read -r test; do
        rm -f "${test%t}" "${test%.phpt}".{diff,exp,log,out,sh,mem}
    done
}

find_missing() { # PACKAGE...: sets $missing, which is its caller's
    missing=()
    for package in "$@"; do
        is_there "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ]
}

need() { # PACKAGE...
    local missing package
    find_missing "$@" || return 0

    if ! on_debian; then
        say "$command needs what follows, and this is not a Debian system, where it would install it:"
        tell_use "${missing[@]}"
        stop "Install it, and run $command again."
    elif [ "$(id -u)" != 0 ]; then
        say "$command needs packages that are missing, and only root can install them:"
        say "    apt-get install ${missing[*]}"
        stop "Have them installed, and run $command again."
    fi

    say "Installing ${missing[*]} (their services are not started)"
    install_packages "${missing[@]}" >"$scratch/apt.log" 2>&1 || {
        tail -n 20 "$scratch/apt.log" >&2
        stop "Debian's packages could not be installed. Install ${missing[*]}, and run $command again."
    }
    hash -r
    for package in "${missing[@]}"; do
        is_there "$package" || {
            say "Debian's package $package is installed, and this is missing still:"
            tell_use "$package"
            stop "PHP is taken from \"$php\" and \"$php_config\": set PHP and PHP_CONFIG to choose another."
        }
    done
}

# As need, of what the command can do without.
want() { # PACKAGE...
    local missing package
    find_missing "$@" || return 0

    if on_debian && [ "$(id -u)" = 0 ]; then
        say "Installing ${missing[*]}"
        install_packages "${missing[@]}" >"$scratch/apt.log" 2>&1 || true
    fi
    if find_missing "${missing[@]}"; then
        say "$command goes on without this, which is missing:"
        tell_use "${missing[@]}"
    fi
}

on_debian() { command -v apt-get >/dev/null && [ -e /etc/debian_version ]; }

tell_use() { # PACKAGE...
    local package
    for package in "$@"; do
        printf '    %-20s %s\n' "$package" "${use_of[$package]}" >&2
    done
}

install_packages() { # PACKAGE...
    local apt=(apt-get -y -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold)
    export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l
    # Debian starts a service as it installs it; a policy-rc.d that ends with 101 forbids it.
    policy=/usr/sbin/policy-rc.d
    if [ -e "$policy" ]; then
        cp -a "$policy" "$scratch/policy-rc.d"
    fi
    before_leaving+=(restore_policy)
    printf '#!/bin/sh\nexit 101\n' >"$policy.new"
    chmod 755 "$policy.new"
    mv "$policy.new" "$policy"
    # A source that is out of reach does not matter if the packages are in another one.
    "${apt[@]}" update || true
    "${apt[@]}" install --no-install-recommends "$@" </dev/null
    local result=$?
    restore_policy
    return $result
}

restore_policy() {
    if [ -e "$scratch/policy-rc.d" ]; then
        mv "$scratch/policy-rc.d" "$policy"
    elif [ -n "${policy:-}" ]; then
        rm -f "$policy"
    fi
    policy=
}

# ---- The extension ------------------------------------------------------------------------------------------------

# shellcheck disable=SC2034 # for those who source this
for_the_build=(gcc libc6-dev ca-certificates libclang-dev php-cli php-dev)
# shellcheck disable=SC2034
build=(cargo build --release --locked)

# Where the built file is to be found, whatever the user's cargo is set to.
export CARGO_TARGET_DIR=$PWD/target

# Lets every PHP process that is started from here on load what was built, also php-fpm and children of children.
# It reads all of $scratch/ini.
load_extension() {
    local api
    api=$(php_api)
    "$php" -i | grep -c "^PHP Extension => $api\$" >/dev/null ||
        stop "$php and $php_config are of different versions: set PHP and PHP_CONFIG to the paths of two that match."
    "$php" -r 'exit((int) extension_loaded("redis_lock"));' ||
        stop "The settings of $php load a redis_lock already, so that the one built here would not be used." \
            "Take it out of them first (php --ini shows the files)."
    mkdir -p "$scratch/ini"
    printf 'extension="%s"\n' "$CARGO_TARGET_DIR/release/libredis_lock.so" >"$scratch/ini/redis_lock.ini"
    export PHP_INI_SCAN_DIR="${PHP_INI_SCAN_DIR-}:$scratch/ini"
    "$php" -r 'exit((int) !extension_loaded("redis_lock"));' || stop "$php does not load the extension."
}

# Starts a private redis-server on the Unix socket $socket, which ends with us.
server=
start_redis() {
    socket=$scratch/redis.sock
    set -m
    "$redis_server" --port 0 --unixsocket "$socket" --dir "$scratch" --save '' --appendonly no \
        >"$scratch/redis.log" 2>&1 </dev/null &
    server=$!
    set +m
    before_leaving+=(end_redis)
    until redis-cli -s "$socket" ping >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || stop "redis-server did not start: $(tail -n 3 "$scratch/redis.log")"
        sleep 0.05
    done
}
end_redis() { end_group "$server"; }
