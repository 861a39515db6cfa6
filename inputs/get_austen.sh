#!/bin/sh
# Unpacks the six novels of Jane Austen (4.0 MB of text, public domain) from the Debian and Ubuntu package
# r-cran-janeaustenr into inputs/austen/, where austen.yaml expects them. Installs nothing and needs no R.
#   inputs/get_austen.sh            does nothing when the texts are there
set -eu

target=$(cd "$(dirname "$0")" && pwd)/austen
if [ -f "$target/complete" ]; then
  echo "$target: already there"
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
database=/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb
if [ ! -f "$database" ]; then
  if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root r-cran-janeaustenr); then
    echo "get_austen.sh: the package r-cran-janeaustenr could not be fetched. Run 'apt-get update' (as root) and try" \
      "again; on Ubuntu the section 'universe' must be enabled." >&2
    exit 66
  fi
  dpkg -x "$work"/r-cran-janeaustenr_*.deb "$work"
  database=$work$database
fi

mkdir -p "$target"
python3 - "$database" "$target" <<'PYTHON'
# Rdata.rdb is R's lazy-load database: records of a 4-byte big-endian length and a zlib stream of that many bytes, each
# an R object in XDR form ("R Internals", sections 1.8 and 2.6): here a vector of strings, one for each printed line.
import pathlib
import struct
import sys
import zlib

STRING_VECTOR, STRING = 16, 9


def records(data):
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from(">I", data, position)
        stream = zlib.decompressobj()
        content = stream.decompress(data[position + 4 :])
        if not stream.eof or len(content) != size:
            sys.exit(f"record at byte {position}: {len(content)} bytes where {size} were promised")
        yield content
        position = len(data) - len(stream.unused_data)


def strings(xdr):
    if xdr[:2] != b"X\n":
        sys.exit(f"not an R object in XDR form: {xdr[:8]!r}")
    (version,) = struct.unpack_from(">i", xdr, 2)
    position = 14
    if version >= 3:  # the native encoding's name
        (length,) = struct.unpack_from(">i", xdr, position)
        position += 4 + length
    kind, count = struct.unpack_from(">ii", xdr, position)
    if kind & 0xFF != STRING_VECTOR:
        sys.exit(f"an R object of type {kind & 0xFF} where strings were expected")
    position += 8
    for _ in range(count):
        kind, length = struct.unpack_from(">ii", xdr, position)
        if kind & 0xFF != STRING or length < 0:
            sys.exit(f"an R object of type {kind & 0xFF} and length {length} where a string was expected")
        yield xdr[position + 8 : position + 8 + length].decode("utf-8")
        position += 8 + length


database, target = map(pathlib.Path, sys.argv[1:])
written = 0
for record in records(database.read_bytes()):
    lines = list(strings(record))
    title = next(line for line in lines if line).strip()
    name = title.lower().replace(" ", "-") + ".txt"
    text = "\n".join(lines) + "\n"
    written += (target / name).write_bytes(text.encode("utf-8"))
    print(f"{target / name}: {len(lines)} lines")
novels = len(list(target.glob("*.txt")))
if novels != 6 or written < 4_000_000:
    sys.exit(f"{novels} novels with {written} bytes, where six with 4.0 MB were expected")
PYTHON
touch "$target/complete"
