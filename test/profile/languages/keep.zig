// SPDX-License-Identifier: MIT
// As keep.c, by the C library's allocator.
const std = @import("std");

var kept: [4096][]u8 = undefined;

noinline fn keepMost() !void {
    for (kept[0..3072]) |*block| {
        block.* = try std.heap.c_allocator.alloc(u8, 16384); // most
    }
}

noinline fn keepRest() !void {
    for (kept[3072..]) |*block| {
        block.* = try std.heap.c_allocator.alloc(u8, 16384); // rest
    }
}

pub fn main() !void {
    try keepMost();
    try keepRest();
}
