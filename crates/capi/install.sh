#!/bin/sh
# Installs the built library: install.sh PREFIX [DESTDIR]
# PREFIX must be absolute; DESTDIR is put before it, for packages. MTCP_LIB_DIR says where cargo left libmtcp_capi.so and
# libmtcp_capi.a (default: where `make build` leaves them). STRIP names another strip.
set -eu

usage="usage: install.sh PREFIX [DESTDIR]"
prefix=${1:?$usage}
destdir=${2:-}
case $prefix in
	/*) ;;
	*) echo "install.sh: '$prefix' is not an absolute path: give one" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
built=${MTCP_LIB_DIR:-$(sh "$root/scripts/release.sh")}
for file in "$built/libmtcp_capi.so" "$built/libmtcp_capi.a"; do
	[ -f "$file" ] || { echo "install.sh: $file is not there: run make build" >&2; exit 2; }
done

major=1
full=$major.0.0
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
libdir=$destdir$prefix/lib
includedir=$destdir$prefix/include
install -d "$libdir/pkgconfig" "$includedir"

# Shared.
install -m 755 "$built/libmtcp_capi.so" "$libdir/libmtcp.so.$full"
${STRIP:-strip} --strip-unneeded "$libdir/libmtcp.so.$full"
ln -sf "libmtcp.so.$full" "$libdir/libmtcp.so.$major"
ln -sf "libmtcp.so.$major" "$libdir/libmtcp.so"

# Static: one object of all that the exported functions need, in which every other name is local, so that it cannot clash with those
# of a program or of another library made in Rust.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
names=$(nm -D --defined-only "$built/libmtcp_capi.so" | awk '{ print $3 }')
undefined=
for name in $names; do
	undefined="$undefined -u $name"
done
# shellcheck disable=SC2086
ld -r --gc-sections -o "$work/all.o" $undefined "$built/libmtcp_capi.a"
objcopy --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd \
	--wildcard --keep-global-symbol='mtcp_*' --keep-global-symbol=EventToString --keep-global-symbol=GetNumCPUs \
	--weaken-symbol=GetNumCPUs "$work/all.o" "$work/mtcp.o"
ar rcs "$work/libmtcp.a" "$work/mtcp.o"
install -m 644 "$work/libmtcp.a" "$libdir/libmtcp.a"

install -m 644 "$here/include/mtcp_api.h" "$here/include/mtcp_epoll.h" "$includedir"

# Programs for the original define variables in headers, which compilers took for one variable before 2020.
printf 'int x;\n' >"$work/a.c"
printf 'int x;\nint main(void) { return x; }\n' >"$work/b.c"
cc=${CC:-cc}
common=
if ! $cc -o "$work/common" "$work/a.c" "$work/b.c" 2>/dev/null; then
	common=" -fcommon"
fi

cat >"$work/libmtcp.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: libmtcp
Description: User-level TCP/IP stack
Version: $version
Cflags: -I\${includedir}$common
Libs: -L\${libdir} -lmtcp
Libs.private: -lgcc_eh -lutil -lrt -lpthread -lm -ldl -lc
END
install -m 644 "$work/libmtcp.pc" "$libdir/pkgconfig/libmtcp.pc"
