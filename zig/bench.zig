// SPDX-License-Identifier: MIT
//! Benchmarks of the Zig front against the standard library's allocators.
//!
//!   bench                               every benchmark with every allocator, each in a process
//!   bench <benchmark> <allocator> [n]   one, for n threads or seconds
//!
//! symmetric   each thread allocates, keeps up to 20000 live blocks and frees its own
//! asymmetric  a thread allocates and another one frees, through a ring of 1024 messages
//! mpsc        three threads allocate and one frees, for some seconds; memory once a second
//! back        500 MB in small blocks, all freed: what is left
//! pair        one thread allocates and frees a block of 64 bytes
//!
//! A line has the seconds on the wall, the time of the processors and the peak of memory.
const std = @import("std");
const builtin = @import("builtin");
const mimalloc = @import("mimalloc");
const linux = std.os.linux;
const Allocator = std.mem.Allocator;

pub const std_options: std.Options = if (@hasField(std.Options, "signal_stack_size"))
    .{ .signal_stack_size = null }
else
    .{};

const names = [_][]const u8{ "mimalloc", "smp", "page" } ++
    if (builtin.link_libc) [_][]const u8{"c"} else [_][]const u8{};

// ---- time and memory ---------------------------------------------------------------------------

fn now() u64 {
    var t: linux.timespec = undefined;
    _ = linux.clock_gettime(.MONOTONIC, &t);
    return @as(u64, @intCast(t.sec)) * std.time.ns_per_s + @as(u64, @intCast(t.nsec));
}

fn sleepFor(seconds: u64) void {
    const t: linux.timespec = .{ .sec = @intCast(seconds), .nsec = 0 };
    _ = linux.nanosleep(&t, null);
}

fn print(comptime format: []const u8, args: anytype) void {
    var buffer: [512]u8 = undefined;
    const text = std.fmt.bufPrint(&buffer, format, args) catch return;
    _ = linux.write(1, text.ptr, text.len);
}

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

// ---- the benchmarks ----------------------------------------------------------------------------

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

fn symmetric(comptime gpa: Allocator, threads: usize) !void {
    var list: [64]std.Thread = undefined;
    for (list[0..threads], 0..) |*t, i| t.* = try std.Thread.spawn(.{}, struct {
        fn run(index: usize, rounds: usize) void {
            symmetricThread(gpa, index, rounds);
        }
    }.run, .{ i, 800 / threads });
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

fn asymmetric(comptime gpa: Allocator, _: usize) !void {
    const messages = 20_000_000;
    const State = struct {
        var ring: Ring = .{};
        fn free() void {
            for (0..messages) |i| gpa.destroy(ring.take(i));
        }
    };
    const t = try std.Thread.spawn(.{}, State.free, .{});
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
            print("  {d} messages\n", .{count});
        }
    };
    var threads: [4]std.Thread = undefined;
    for (threads[0..3], 0..) |*t, i| t.* = try std.Thread.spawn(.{}, State.send, .{i});
    threads[3] = try std.Thread.spawn(.{}, State.consume, .{});
    for (0..seconds) |i| {
        sleepFor(1);
        print("  {d} s: {d} KiB\n", .{ i + 1, mimalloc.processInfo().current_rss / 1024 });
    }
    State.stop.store(true, .monotonic);
    for (threads) |t| t.join();
}

fn back(comptime gpa: Allocator, _: usize) !void {
    const count = 500_000_000 / 200;
    const slots = try gpa.alloc(*[200]u8, count);
    for (slots) |*slot| {
        slot.* = try gpa.create([200]u8);
        @memset(slot.*, 1);
    }
    const full = mimalloc.processInfo().current_rss;
    for (slots) |slot| gpa.destroy(slot);
    gpa.free(slots);
    const freed = mimalloc.processInfo().current_rss;
    sleepFor(2);
    // A program that goes on: memory is given back by later calls.
    for (0..10_000) |i| gpa.free(try gpa.alloc(u8, 1 + i));
    const later = mimalloc.processInfo().current_rss;
    print("  KiB: full {d}, freed {d}, after 2 s and a few calls {d}\n", .{ full / 1024, freed / 1024, later / 1024 });
}

fn pair(comptime gpa: Allocator, _: usize) !void {
    const rounds = 50_000_000;
    const start = now();
    for (0..rounds) |_| {
        const block = try gpa.create([64]u8);
        std.mem.doNotOptimizeAway(block);
        gpa.destroy(block);
    }
    const ns = @as(f64, @floatFromInt(now() - start)) / rounds;
    print("  {d:.2} ns a pair\n", .{ns});
}

const benchmarks = .{ .symmetric, .asymmetric, .mpsc, .back, .pair };

fn runOne(comptime gpa: Allocator, benchmark: []const u8, n: ?usize) !void {
    inline for (benchmarks) |tag| {
        const name = @tagName(tag);
        if (std.mem.eql(u8, benchmark, name)) return switch (tag) {
            .symmetric => symmetric(gpa, n orelse 2),
            .asymmetric => asymmetric(gpa, 0),
            .mpsc => mpsc(gpa, n orelse 5),
            .back => back(gpa, 0),
            .pair => pair(gpa, 0),
            else => unreachable,
        };
    }
    return error.UnknownBenchmark;
}

fn runByName(benchmark: []const u8, allocator: []const u8, n: ?usize) !void {
    if (std.mem.eql(u8, allocator, "mimalloc")) return runOne(mimalloc.allocator, benchmark, n);
    if (std.mem.eql(u8, allocator, "smp")) return runOne(std.heap.smp_allocator, benchmark, n);
    if (std.mem.eql(u8, allocator, "page")) return runOne(std.heap.page_allocator, benchmark, n);
    if (builtin.link_libc and std.mem.eql(u8, allocator, "c")) {
        return runOne(std.heap.c_allocator, benchmark, n);
    }
    return error.UnknownAllocator;
}

fn inChild(benchmark: []const u8, allocator: []const u8, n: ?usize) !void {
    const start = now();
    const pid = linux.fork();
    if (pid == 0) {
        runByName(benchmark, allocator, n) catch linux.exit_group(1);
        linux.exit_group(0);
    }
    var status: u32 = 0;
    var usage: linux.rusage = undefined;
    _ = linux.wait4(@intCast(pid), @ptrCast(&status), 0, &usage);
    const wall = @as(f64, @floatFromInt(now() - start)) / 1e9;
    const cpu = @as(f64, @floatFromInt(usage.utime.sec + usage.stime.sec)) +
        @as(f64, @floatFromInt(usage.utime.usec + usage.stime.usec)) / 1e6;
    print("{s:<12}{d:>3}  {s:<10}{d:>8.3} s wall {d:>8.3} s cpu {d:>8.1} MB{s}\n", .{
        benchmark,                                              n orelse 0, allocator, wall, cpu,
        @as(f64, @floatFromInt(usage.maxrss)) * 1024.0 / 1e6, if (status == 0) "" else "  FAILED",
    });
}

fn runAll() !void {
    for (0..3) |_| {
        for (names) |name| {
            if (std.mem.eql(u8, name, "page")) continue;
            try inChild("symmetric", name, 2);
            try inChild("symmetric", name, 8);
            try inChild("asymmetric", name, null);
        }
    }
    for (names) |name| {
        if (std.mem.eql(u8, name, "page")) continue;
        try inChild("pair", name, null);
        try inChild("mpsc", name, 5);
        try inChild("back", name, null);
    }
    try inChild("pair", "page", null);
}

// The arguments, where the parameter of main differs between versions.
fn arguments(buffer: []u8) [3][]const u8 {
    var list: [3][]const u8 = @splat("");
    const path = "/proc/self/cmdline";
    const fd = linux.open(path, .{}, 0);
    const length = linux.read(@intCast(fd), buffer.ptr, buffer.len);
    _ = linux.close(@intCast(fd));
    var words = std.mem.splitScalar(u8, buffer[0..length], 0);
    _ = words.next();
    for (&list) |*word| word.* = words.next() orelse "";
    return list;
}

pub fn main() !void {
    var buffer: [4096]u8 = undefined;
    const words = arguments(&buffer);
    if (words[0].len == 0) return runAll();
    const n: ?usize = if (words[2].len == 0) null else try std.fmt.parseInt(usize, words[2], 10);
    return inChild(words[0], words[1], n);
}
