# SPDX-License-Identifier: MIT
"""Reads profiles as their formats define them, and not as the library writes them: pprof's message,
plain or gzip, by the wire format of protocol buffers; jemalloc's text; folded stacks."""

import gzip
import math
import re
from collections import namedtuple

Sample = namedtuple("Sample", "stack values")  # stack: addresses, the innermost first
Mapping = namedtuple("Mapping", "start limit offset path build_id")
Profile = namedtuple("Profile", "types default period period_type samples mappings comments "
                                "drop_frames time_nanos")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """Pairs of a field's number and its value, a number or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            if len(value) != size:
                raise ValueError("a field is cut short")
        else:
            raise ValueError(f"wire type {key & 7}")
        yield key >> 3, value


def packed(value):
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        numbers.append(number)
    return numbers


def signed(number):
    return number - (1 << 64) if number >> 63 else number


def read_pprof(data):
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    message = list(fields(data))
    strings = [value.decode() for key, value in message if key == 6]
    if strings[0] != "":
        raise ValueError("the first string is not empty")
    one = dict(message)
    mappings, locations, samples, types = {}, {}, [], []

    def pair(value):
        parts = dict(fields(value))
        return strings[parts[1]], strings[parts[2]]

    for key, value in message:
        if key == 1:
            types.append(pair(value))
        elif key == 3:
            m = dict(fields(value))
            mappings[m[1]] = Mapping(m.get(2, 0), m.get(3, 0), m.get(4, 0),
                                     strings[m.get(5, 0)], strings[m.get(6, 0)])
        elif key == 4:
            m = dict(fields(value))
            if m[1] in locations:
                raise ValueError("a location comes twice")
            if m.get(2, 0) and not (mappings[m[2]].start <= m[3] < mappings[m[2]].limit):
                raise ValueError("a location is not in its mapping")
            locations[m[1]] = m[3]
    if len(set(locations.values())) != len(locations):
        raise ValueError("an address comes twice")
    for key, value in message:
        if key == 2:
            ids, numbers = [], []
            for part, content in fields(value):
                if part == 1:
                    ids += packed(content)
                elif part == 2:
                    numbers += [signed(n) for n in packed(content)]
            if len(numbers) != len(types):
                raise ValueError("a sample has another number of values than there are types")
            samples.append(Sample([locations[i] for i in ids], numbers))
    return Profile(types, strings[one.get(14, 0)], one.get(12), pair(one[11]), samples,
                   list(mappings.values()), [strings[v] for k, v in message if k == 13],
                   strings[one.get(7, 0)], one.get(9, 0))


COUNTS = r"\s*t\*: (\d+): (\d+) \[(\d+): (\d+)\]"


def read_heap_v2(text):
    """Samples with values as those of pprof, unsampled as readers of this format do it; the header's
    counts; the text of the mappings."""
    head, _, maps = text.partition("\nMAPPED_LIBRARIES:\n")
    lines = head.splitlines()
    rate = int(re.fullmatch(r"heap_v2/(\d+)", lines[0]).group(1))
    total = [int(n) for n in re.fullmatch(COUNTS, lines[1]).groups()]
    samples = []
    for stack, counts in zip(lines[2::2], lines[3::2]):
        if not stack.startswith("@"):
            raise ValueError(f"no stack: {stack}")
        numbers = [int(n) for n in re.fullmatch(COUNTS, counts).groups()]
        values = []
        for objects, size in (numbers[2:], numbers[:2]):
            scale = 1
            if objects:
                scale = 1 / -math.expm1(-(size / objects) / rate)
            values += [objects * scale, size * scale]
        samples.append(Sample([int(a, 16) - 1 for a in stack.split()[1:]], values))
    return rate, total, samples, maps


def read_gperf(text):
    """gperftools' text as jemalloc's, which has the same numbers in another order."""
    head, _, maps = text.partition("\nMAPPED_LIBRARIES:\n")
    lines = head.strip().splitlines()
    first = re.fullmatch(r"heap profile: (.*) @ heap_v2/(\d+)", lines[0])
    same = [f"heap_v2/{first.group(2)}", f"  t*: {first.group(1)}"]
    for line in lines[1:]:
        counts, _, stack = line.partition(" @")
        same += ["@" + stack, f"  t*: {counts}"]
    return read_heap_v2("\n".join(same) + "\n\nMAPPED_LIBRARIES:\n" + maps)


def read_folded(text):
    """Pairs of the names, the outermost first, and the value."""
    result = []
    for line in text.splitlines():
        stack, _, value = line.rpartition(" ")
        result.append((stack.split(";"), int(value)))
    return result
