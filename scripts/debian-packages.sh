#!/bin/sh
# Installs what Gradus uses of Debian and its relatives: bubblewrap, which isolates model-written code. Does nothing where it is there.
# Where it cannot be installed (no apt-get, not root, no network), says so and goes on: without it, tests of the sandbox are skipped.
command -v bwrap > /dev/null && exit 0
if ! command -v apt-get > /dev/null; then
    echo "bubblewrap is not installed; install your system's package of that name to run model-written code" >&2
    exit 0
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true 2> /dev/null; then
        echo "bubblewrap is not installed; as root, run: apt-get install bubblewrap" >&2
        exit 0
    fi
    as_root=sudo
fi
export DEBIAN_FRONTEND=noninteractive
install() { $as_root apt-get install --yes --quiet --no-install-recommends bubblewrap > /dev/null 2>&1; }
install || { $as_root apt-get update --quiet > /dev/null 2>&1; install; } || echo "bubblewrap could not be installed by apt-get" >&2
exit 0
