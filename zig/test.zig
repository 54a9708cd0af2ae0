// SPDX-License-Identifier: MIT
//! The tests of the Zig front: the standard library's own for allocators, sequences against a
//! model, alignments, resizing in place, heaps, and the ends of threads and processes.
//!
//! They run with and without a libc, and single-threaded; what needs threads is left out there.
const std = @import("std");
const builtin = @import("builtin");
const mimalloc = @import("mimalloc");
const linux = std.os.linux;
const testing = std.testing;
const gpa = mimalloc.allocator;

// A stack for signals in every thread's storage would cost more than the threads themselves.
pub const std_options: std.Options = if (@hasField(std.Options, "signal_stack_size"))
    .{ .signal_stack_size = null }
else
    .{};

const has_processes = builtin.os.tag == .linux;

test "the standard library's tests of allocators" {
    try std.heap.testAllocator(gpa);
    try std.heap.testAllocatorAligned(gpa);
    try std.heap.testAllocatorLargeAlignment(gpa);
    try std.heap.testAllocatorAlignedShrink(gpa);
}

test "the same on a heap" {
    var heap = try mimalloc.Heap.init();
    defer heap.deinit();
    try std.heap.testAllocator(heap.allocator());
    try std.heap.testAllocatorAligned(heap.allocator());
    try std.heap.testAllocatorLargeAlignment(heap.allocator());
    try std.heap.testAllocatorAlignedShrink(heap.allocator());
}

test "alignments up to 1 MiB, sizes around them" {
    var shift: u6 = 0;
    while (shift <= 20) : (shift += 1) {
        const alignment: std.mem.Alignment = @enumFromInt(shift);
        const bytes = alignment.toByteUnits();
        for ([_]usize{ 1, 7, bytes, bytes + 1, 3 * bytes + 5, 100_000 }) |size| {
            const p = gpa.rawAlloc(size, alignment, 0) orelse return error.OutOfMemory;
            try testing.expect(alignment.check(@intFromPtr(p)));
            @memset(p[0..size], 0xA5);
            gpa.rawFree(p[0..size], alignment, 0);
        }
    }
}

test "too large is out of memory" {
    try testing.expect(gpa.rawAlloc(std.math.maxInt(usize) - 100, .@"16", 0) == null);
    try testing.expect(gpa.rawAlloc(std.math.maxInt(isize), .@"1", 0) == null);
}

test "huge blocks grow by remap with their contents" {
    var memory = try gpa.alloc(u8, 1 << 20);
    for (memory, 0..) |*byte, i| byte.* = @truncate(i *% 31);
    while (memory.len < 64 << 20) {
        const more = gpa.remap(memory, memory.len * 2) orelse try gpa.realloc(memory, memory.len * 2);
        memory = more;
    }
    for (memory[0 .. 1 << 20], 0..) |byte, i| try testing.expectEqual(@as(u8, @truncate(i *% 31)), byte);
    // Where every block ends in a canary (Debug), it stays at its place.
    if (gpa.resize(memory, 2 << 20)) {
        memory = memory[0 .. 2 << 20];
    } else {
        try testing.expect(switch (builtin.mode) {
            .Debug => true,
            else => false,
        });
    }
    for (memory[0 .. 1 << 20], 0..) |byte, i| try testing.expectEqual(@as(u8, @truncate(i *% 31)), byte);
    gpa.free(memory);
}

test "a heap frees all at once, or leaves its blocks behind" {
    for (0..100) |_| {
        var heap = try mimalloc.Heap.init();
        defer heap.deinit();
        for (0..200) |i| {
            const block = try heap.allocator().alloc(u8, 1 + i * 37);
            @memset(block, 1);
            try testing.expect(heap.contains(block.ptr));
        }
    }
    var heap = try mimalloc.Heap.init();
    const block = try heap.allocator().dupe(u8, "still here");
    heap.release();
    try testing.expectEqualStrings("still here", block);
    gpa.free(block);
}

test "statistics and version" {
    try testing.expect(mimalloc.version() >= 30000);
    const Seen = struct {
        var bytes: usize = 0;
        fn out(text: [*:0]const u8, _: ?*anyopaque) callconv(.c) void {
            bytes += std.mem.len(text);
        }
    };
    mimalloc.printStats(&Seen.out, null);
    try testing.expect(Seen.bytes > 100);
    try testing.expect(mimalloc.processInfo().peak_rss > 0);
}

// ---- sequences against a model -----------------------------------------------------------------

const Slot = struct { memory: []u8 = &.{}, alignment: std.mem.Alignment = .@"1", seed: u8 = 0 };

fn fill(slot: *Slot, seed: u8) void {
    slot.seed = seed;
    for (slot.memory, 0..) |*byte, i| byte.* = seed +% @as(u8, @truncate(i *% 7));
}

fn verify(slot: Slot, length: usize) !void {
    for (slot.memory[0..length], 0..) |byte, i| {
        if (byte != slot.seed +% @as(u8, @truncate(i *% 7))) return error.Overwritten;
    }
}

fn anySize(random: std.Random) usize {
    const bits = random.uintLessThan(u5, 21);
    return 1 + random.uintLessThan(usize, @as(usize, 1) << bits);
}

fn step(random: std.Random, allocator: std.mem.Allocator, slot: *Slot) !void {
    if (slot.memory.len == 0) {
        slot.alignment = @enumFromInt(random.uintLessThan(u4, 15));
        const size = anySize(random);
        const p = allocator.rawAlloc(size, slot.alignment, 0) orelse return error.OutOfMemory;
        if (!slot.alignment.check(@intFromPtr(p))) return error.Misaligned;
        slot.memory = p[0..size];
        return fill(slot, random.int(u8));
    }
    try verify(slot.*, slot.memory.len);
    const size = anySize(random);
    switch (random.uintLessThan(u8, 4)) {
        0 => if (allocator.rawResize(slot.memory, slot.alignment, size, 0)) {
            const common = @min(size, slot.memory.len);
            slot.memory.len = size;
            try verify(slot.*, common);
            fill(slot, random.int(u8));
        },
        1 => if (allocator.rawRemap(slot.memory, slot.alignment, size, 0)) |p| {
            const common = @min(size, slot.memory.len);
            if (!slot.alignment.check(@intFromPtr(p))) return error.Misaligned;
            slot.memory = p[0..size];
            try verify(slot.*, common);
            fill(slot, random.int(u8));
        },
        else => {
            allocator.rawFree(slot.memory, slot.alignment, 0);
            slot.memory = &.{};
        },
    }
}

fn playSequence(allocator: std.mem.Allocator, seed: u64, steps: usize) !void {
    var prng = std.Random.DefaultPrng.init(seed);
    var slots: [64]Slot = @splat(.{});
    for (0..steps) |_| try step(prng.random(), allocator, &slots[prng.random().uintLessThan(usize, 64)]);
    for (slots) |slot| {
        try verify(slot, slot.memory.len);
        if (slot.memory.len > 0) allocator.rawFree(slot.memory, slot.alignment, 0);
    }
}

test "sequences against a model" {
    for (0..8) |seed| try playSequence(gpa, seed, 4000);
    var heap = try mimalloc.Heap.init();
    defer heap.deinit();
    try playSequence(heap.allocator(), 100, 4000);
}

// ---- threads -----------------------------------------------------------------------------------

fn playInThread(seed: u64, failed: *std.atomic.Value(bool)) void {
    playSequence(gpa, seed, 3000) catch failed.store(true, .seq_cst);
}

test "sequences in eight threads" {
    if (builtin.single_threaded) return;
    var failed: std.atomic.Value(bool) = .init(false);
    var threads: [8]std.Thread = undefined;
    for (&threads, 0..) |*t, i| t.* = try std.Thread.spawn(.{}, playInThread, .{ i, &failed });
    for (threads) |t| t.join();
    try testing.expect(!failed.load(.seq_cst));
}

// From Zig 0.16 on thread-local storage, which a libc takes from the stack, holds a signal stack of
// 256 KiB.
const small_stack: std.Thread.SpawnConfig = .{ .stack_size = 1 << 20 };

const Left = struct { blocks: [16][]u8 = undefined };

fn leaveBlocks(left: *Left, tag: u8) void {
    for (&left.blocks, 0..) |*block, i| {
        block.* = gpa.alloc(u8, 64 + i * 100) catch @panic("OOM");
        @memset(block.*, tag);
    }
}

fn takeBlocks(left: *Left, tag: u8) !void {
    for (left.blocks) |block| {
        for (block) |byte| try testing.expectEqual(tag, byte);
        gpa.free(block);
    }
}

// Were the heaps of ended threads not taken over, each thread would cost a record and its pages:
// more than a gigabyte for ten thousand.
const most_growth = 48 << 20;

test "ten thousand threads end with live blocks" {
    if (builtin.single_threaded) return;
    var before: usize = 0;
    for (0..10_000) |round| {
        var left: Left = .{};
        const tag: u8 = @truncate(round);
        const thread = try std.Thread.spawn(small_stack, leaveBlocks, .{ &left, tag });
        thread.join();
        try takeBlocks(&left, tag);
        if (round == 100) before = mimalloc.processInfo().current_rss;
    }
    try testing.expect(mimalloc.processInfo().current_rss < before + most_growth);
}

fn freeAll(blocks: [][]u8) void {
    for (blocks) |block| gpa.free(block);
}

// In fast builds a thread keeps the last blocks of each size that it freed at hand. Were they lost
// with the thread, this would cost 130 KiB each time.
test "a thousand threads end with freed blocks at hand" {
    if (builtin.single_threaded) return;
    var before: usize = 0;
    var blocks: [64 * 31][]u8 = undefined;
    for (0..1_000) |round| {
        for (&blocks, 0..) |*block, i| {
            block.* = try gpa.alloc(u8, 16 * (1 + i % 64));
            @memset(block.*, @truncate(i));
        }
        for (blocks, 0..) |block, i| {
            try testing.expectEqual(@as(u8, @truncate(i)), block[0]);
            try testing.expectEqual(@as(u8, @truncate(i)), block[block.len - 1]);
        }
        const thread = try std.Thread.spawn(small_stack, freeAll, .{@as([][]u8, &blocks)});
        thread.join();
        if (round == 100) before = mimalloc.processInfo().current_rss;
    }
    try testing.expect(mimalloc.processInfo().current_rss < before + most_growth);
}

test "a huge block that becomes a small one" {
    for ([_]usize{ 1, 16, 1000, 1024, 1025, 5000 }) |small| {
        var block = try gpa.alloc(u8, 3 << 20);
        @memset(block, 7);
        block = try gpa.realloc(block, small);
        for (block) |byte| try testing.expectEqual(@as(u8, 7), byte);
        gpa.free(block);
        const others = [_][]u8{ try gpa.alloc(u8, small), try gpa.alloc(u8, small) };
        @memset(others[0], 1);
        @memset(others[1], 2);
        try testing.expectEqual(@as(u8, 1), others[0][small - 1]);
        for (others) |other| gpa.free(other);
    }
}

fn leaveDetached(left: *Left, tag: u8, done: *std.atomic.Value(u32)) void {
    leaveBlocks(left, tag);
    _ = done.fetchAdd(1, .release);
}

test "detached threads end with live blocks" {
    if (builtin.single_threaded) return;
    const lefts = try gpa.alloc(Left, 8);
    defer gpa.free(lefts);
    var before: usize = 0;
    for (0..250) |round| {
        var done: std.atomic.Value(u32) = .init(0);
        const tag: u8 = @truncate(round);
        for (lefts) |*left| {
            const thread = try std.Thread.spawn(small_stack, leaveDetached, .{ left, tag, &done });
            thread.detach();
        }
        while (done.load(.acquire) < lefts.len) std.Thread.yield() catch {};
        for (lefts) |*left| try takeBlocks(left, tag);
        if (round == 20) before = mimalloc.processInfo().current_rss;
    }
    try testing.expect(mimalloc.processInfo().current_rss < before + most_growth);
}

// ---- processes ---------------------------------------------------------------------------------

fn waitFor(pid: usize) !void {
    var status: u32 = 0;
    _ = linux.waitpid(@intCast(pid), @ptrCast(&status), 0);
    try testing.expectEqual(@as(u32, 0), status);
}

test "the child of a fork allocates, frees and starts threads" {
    if (!has_processes) return;
    var left: Left = .{};
    leaveBlocks(&left, 9);
    const pid = linux.fork();
    if (pid == 0) {
        takeBlocks(&left, 9) catch linux.exit_group(1);
        playSequence(gpa, 5, 2000) catch linux.exit_group(2);
        if (!builtin.single_threaded and !builtin.link_libc) {
            for (0..20) |_| {
                var inner: Left = .{};
                const thread = std.Thread.spawn(.{}, leaveBlocks, .{ &inner, 3 }) catch linux.exit_group(3);
                thread.join();
                takeBlocks(&inner, 3) catch linux.exit_group(4);
            }
        }
        linux.exit_group(0);
    }
    try waitFor(pid);
    try takeBlocks(&left, 9);
}

test {
    _ = @import("test_ends.zig");
}
