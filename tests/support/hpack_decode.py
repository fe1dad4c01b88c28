"""Decode header blocks with python3-hpack and compare: for tests/unit/wire/http2/hpack_encoder_test.c.

Lines of standard input:
    size N          SETTINGS_HEADER_TABLE_SIZE as the decoder announces it
    block HEX       a header block
    expect HEX      its fields, "name=value " each
Exit status 1, with a message, at the first block that differs or that the decoder rejects.
"""

import sys

import hpack


def main():
    decoder = hpack.Decoder(max_header_list_size=1 << 20)
    block = None
    for number, line in enumerate(sys.stdin, 1):
        word, _, argument = line.rstrip("\n").partition(" ")
        if word == "size":
            decoder.max_allowed_table_size = int(argument)
        elif word == "block":
            block = bytes.fromhex(argument)
        elif word == "expect":
            fields = decoder.decode(block, raw=True)
            seen = b"".join(name + b"=" + value + b" " for name, value in fields)
            if seen != bytes.fromhex(argument):
                sys.exit(f"line {number}: {seen!r} instead of {bytes.fromhex(argument)!r}")
        else:
            sys.exit(f"line {number}: unknown word {word!r}")


main()
