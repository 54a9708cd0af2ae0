// SPDX-License-Identifier: MIT
//! The sample of docs/zig.md: an allocator that finds mistakes in Debug and ReleaseSafe, and
//! mimalloc in the fast modes.
const std = @import("std");
const builtin = @import("builtin");
const mimalloc = @import("mimalloc");

var debug_allocator: std.heap.DebugAllocator(.{}) = .init;

pub fn main() !void {
    const gpa, const is_debug = gpa: {
        if (builtin.os.tag == .wasi) break :gpa .{ std.heap.wasm_allocator, false };
        break :gpa switch (builtin.mode) {
            .Debug, .ReleaseSafe => .{ debug_allocator.allocator(), true },
            .ReleaseFast, .ReleaseSmall => .{ mimalloc.allocator, false },
        };
    };
    defer if (is_debug) {
        _ = debug_allocator.deinit();
    };

    const text = try std.fmt.allocPrint(gpa, "{d} blocks", .{7});
    defer gpa.free(text);
    if (!std.mem.eql(u8, text, "7 blocks")) return error.Unexpected;

    // All blocks of a heap are freed at once.
    var heap = try mimalloc.Heap.init();
    defer heap.deinit();
    _ = try heap.allocator().alloc(u64, 1000);
}
