#!/bin/busybox sh
# The first program of a guest: mounts what programs expect, loads the drivers, and then does what it is told over the
# second serial line. A command is a line with its longest time in seconds and its length in bytes, and then the script;
# the answer is what the script printed, and a line with its status.
/bin/busybox --install -s /bin
export PATH=/opt:/usr/bin:/bin HOME=/root
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm /dev/pts
mount -t devpts none /dev/pts
for directory in /dev/shm /run /srv /tmp; do mount -t tmpfs none $directory; done
mount -t bpf none /sys/fs/bpf
ip link set lo up
ulimit -n 65536
while read -r module; do insmod /modules/$module.ko; done </modules/order
stty -F /dev/ttyS1 raw -echo
exec </dev/ttyS1 >/dev/ttyS1 2>&1
echo "@@ ready"
while read -r longest length; do
    head -c "$length" >/tmp/.script
    timeout -s KILL "$longest" sh /tmp/.script </dev/null
    echo "@@ $?"
done
poweroff -f
