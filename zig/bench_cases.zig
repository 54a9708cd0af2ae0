// SPDX-License-Identifier: MIT
//! The benchmarks of bench.zig: what a program does with an allocator that is known at compile time.
const std = @import("std");
const mimalloc = @import("mimalloc");
const program = @import("bench_program.zig");
const system = @import("bench_system.zig");
const print = system.print;
const now = system.now;
const Allocator = std.mem.Allocator;

const seed = 0x9e3779b97f4a7c15;

const Random = struct {
    state: u64,
    fn next(r: *Random) u64 {
        r.state ^= r.state << 13;
        r.state ^= r.state >> 7;
        r.state ^= r.state << 17;
        return r.state;
    }
};

/// A part of the work is for allocators that need a system call for each block.
pub const Work = struct { n: ?usize = null, divisor: usize = 1 };

pub const all = .{ .symmetric, .asymmetric, .mpsc, .back, .pair, .program };

/// Runs a benchmark, which writes a line of what it alone knows.
pub fn run(comptime gpa: Allocator, name: []const u8, work: Work) !void {
    inline for (all) |tag| if (std.mem.eql(u8, name, @tagName(tag))) return switch (tag) {
        .symmetric => symmetric(gpa, work.n orelse 2, work.divisor),
        .asymmetric => asymmetric(gpa, 20_000_000 / work.divisor),
        .mpsc => mpsc(gpa, work.n orelse 5),
        .back => back(gpa, 500_000_000 / 200 / work.divisor),
        .pair => pair(gpa, 50_000_000 / work.divisor),
        .program => program.run(gpa, work.n orelse 2),
        else => comptime unreachable,
    };
    return error.UnknownBenchmark;
}

fn size(r: *Random) usize {
    const x = r.next();
    return 8 + (if (x & 15 == 0) (x >> 8) % 2048 else (x >> 8) % 128);
}

fn symmetricThread(comptime gpa: Allocator, index: usize, rounds: usize) void {
    const live = 20_000;
    var r: Random = .{ .state = seed *% (index + 1) };
    const slots = gpa.alloc([]u8, live) catch @panic("OOM");
    defer gpa.free(slots);
    for (slots) |*slot| slot.* = gpa.alloc(u8, size(&r)) catch @panic("OOM");
    for (0..rounds) |_| {
        for (0..live / 2) |_| {
            const slot = &slots[r.next() % live];
            gpa.free(slot.*);
            slot.* = gpa.alloc(u8, size(&r)) catch @panic("OOM");
            slot.*[0] = 1;
        }
    }
    for (slots) |slot| gpa.free(slot);
}

fn symmetric(comptime gpa: Allocator, threads: usize, divisor: usize) !void {
    var list: [64]std.Thread = undefined;
    for (list[0..threads], 0..) |*t, i| t.* = try std.Thread.spawn(.{}, struct {
        fn run(index: usize, rounds: usize) void {
            symmetricThread(gpa, index, rounds);
        }
    }.run, .{ i, 800 / threads / divisor });
    for (list[0..threads]) |t| t.join();
}

const Ring = struct {
    slots: [1024]std.atomic.Value(?*[64]u8) = @splat(.init(null)),

    fn put(ring: *Ring, at: usize, message: *[64]u8) void {
        const slot = &ring.slots[at % ring.slots.len];
        while (slot.load(.acquire) != null) std.Thread.yield() catch {};
        slot.store(message, .release);
    }

    fn take(ring: *Ring, at: usize) *[64]u8 {
        const slot = &ring.slots[at % ring.slots.len];
        while (true) {
            if (slot.load(.acquire)) |message| {
                slot.store(null, .release);
                return message;
            }
            std.Thread.yield() catch {};
        }
    }
};

fn asymmetric(comptime gpa: Allocator, messages: usize) !void {
    const State = struct {
        var ring: Ring = .{};
        fn free(count: usize) void {
            for (0..count) |i| gpa.destroy(ring.take(i));
        }
    };
    const t = try std.Thread.spawn(.{}, State.free, .{messages});
    for (0..messages) |i| {
        const message = try gpa.create([64]u8);
        message[0] = @truncate(i);
        State.ring.put(i, message);
    }
    t.join();
}

fn mpsc(comptime gpa: Allocator, seconds: usize) !void {
    const State = struct {
        var rings: [3]Ring = @splat(.{});
        var stop: std.atomic.Value(bool) = .init(false);
        var sent: [3]std.atomic.Value(usize) = @splat(.init(0));
        var taken: std.atomic.Value(usize) = .init(0);
        var sum: usize = 0;
        fn send(index: usize) void {
            var count: usize = 0;
            while (!stop.load(.monotonic)) : (count += 1) {
                const message = gpa.create([64]u8) catch @panic("OOM");
                rings[index].put(count, message);
            }
            sent[index].store(count, .release);
            _ = taken.fetchAdd(1, .release);
        }
        fn consume() void {
            var at: [3]usize = @splat(0);
            var count: usize = 0;
            while (true) {
                var found = false;
                const ended = taken.load(.acquire) == 3;
                for (&rings, &at) |*ring, *i| {
                    const slot = &ring.slots[i.* % ring.slots.len];
                    if (slot.load(.acquire)) |message| {
                        slot.store(null, .release);
                        i.* += 1;
                        gpa.destroy(message);
                        count += 1;
                        found = true;
                    }
                }
                if (!found and ended) break;
                if (!found) std.Thread.yield() catch {};
            }
            sum = count;
        }
    };
    var threads: [4]std.Thread = undefined;
    for (threads[0..3], 0..) |*t, i| t.* = try std.Thread.spawn(.{}, State.send, .{i});
    threads[3] = try std.Thread.spawn(.{}, State.consume, .{});
    var first: usize = 0;
    var most: usize = 0;
    for (0..seconds) |i| {
        system.sleepFor(1);
        const resident = mimalloc.processInfo().current_rss / 1024;
        if (i == 0) first = resident;
        most = @max(most, resident);
        if ((i + 1) % 60 == 0) print("{d} s: {d} KiB\n", .{ i + 1, resident });
    }
    const last = mimalloc.processInfo().current_rss / 1024;
    State.stop.store(true, .monotonic);
    for (threads) |t| t.join();
    print("after 1 s {d} KiB, after {d} s {d}, most {d}; {d} M messages\n", .{
        first, seconds, last, most, State.sum / 1_000_000,
    });
}

fn back(comptime gpa: Allocator, count: usize) !void {
    const slots = try gpa.alloc(*[200]u8, count);
    for (slots) |*slot| {
        slot.* = try gpa.create([200]u8);
        @memset(slot.*, 1);
    }
    const full = mimalloc.processInfo().current_rss;
    for (slots) |slot| gpa.destroy(slot);
    gpa.free(slots);
    const freed = mimalloc.processInfo().current_rss;
    system.sleepFor(2);
    // A program that goes on: memory is given back by later calls.
    for (0..10_000) |i| gpa.free(try gpa.alloc(u8, 1 + i));
    const later = mimalloc.processInfo().current_rss;
    print("full {d} KiB, freed {d}, after 2 s and a few calls {d}\n", .{
        full / 1024, freed / 1024, later / 1024,
    });
}

fn pair(comptime gpa: Allocator, rounds: usize) !void {
    const start = now();
    for (0..rounds) |_| {
        const block = try gpa.create([64]u8);
        std.mem.doNotOptimizeAway(block);
        gpa.destroy(block);
    }
    const ns = @as(f64, @floatFromInt(now() - start)) / @as(f64, @floatFromInt(rounds));
    print("{d:.2} ns a pair\n", .{ns});
}
