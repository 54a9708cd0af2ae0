# SPDX-License-Identifier: MIT
"""What Python programs do all day: objects, strings, dictionaries, JSON, regular expressions.

Run with PYTHONMALLOC=malloc, so that every object is a call of the allocator. Each part checks
its own result. Argument: rounds.
"""

import collections
import json
import re
import sys


class Node:
    def __init__(self, key):
        self.key, self.left, self.right = key, None, None


def tree(count):
    root, state = Node(0), 1
    for _ in range(count):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        at = root
        while at.key != state:
            side = "left" if state < at.key else "right"
            if getattr(at, side) is None:
                setattr(at, side, Node(state))
            at = getattr(at, side)
    return root


def depth_first(root):
    stack, keys = [root], []
    while stack:
        node = stack.pop()
        keys.append(node.key)
        stack.extend(child for child in (node.left, node.right) if child)
    return keys


def documents(count):
    return [{"id": i, "name": f"item {i}", "tags": [f"t{i % 7}", f"u{i % 11}"],
             "price": i * 1.25, "parts": [{"n": n, "text": "x" * n} for n in range(i % 9)]}
            for i in range(count)]


def one_round(number):
    keys = depth_first(tree(4000))
    assert len(keys) == len(set(keys)) > 3900
    items = documents(3000)
    text = json.dumps(items)
    again = json.loads(text)
    assert again == items
    words = re.findall(r"[a-z]+ \d+", text)
    assert len(words) == 3000
    counted = collections.Counter(tag for item in again for tag in item["tags"])
    assert sum(counted.values()) == 6000
    joined = "".join(sorted(f"{word}:{number}" for word in words))
    assert joined.count(":") == 3000
    table = {}
    for i in range(30000):
        table[str(i * 7919 % 30011)] = [i]
        if i > 10000:
            table.pop(str((i - 10000) * 7919 % 30011))
    assert 9000 < len(table) <= 10001


for round_number in range(int(sys.argv[1])):
    one_round(round_number)
print("objects: all rounds right")
