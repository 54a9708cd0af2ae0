// SPDX-License-Identifier: MIT
//! Benchmarks of the Zig front against the standard library's allocators; Linux only.
//!
//!   bench all [with-libc]               the table of all; the C library's allocator needs a program
//!                                       that links it, which is this one, linked so
//!   bench <benchmark> <allocator> [n]   one, for n threads or seconds
//!
//! symmetric   each thread allocates, keeps up to 20000 live blocks and frees its own
//! asymmetric  a thread allocates and another one frees, through a ring of 1024 messages
//! mpsc        three threads allocate and one frees, for some seconds: memory
//! back        500 MB in small blocks, all freed: what is left
//! pair        one thread allocates and frees a block of 64 bytes
//! program     the front half of the Zig compiler on the standard library, by two threads
//!
//! Each run is a process of its own. A line has the seconds on the wall, the time of the processors,
//! the peak of memory and what the benchmark says itself.
const std = @import("std");
const builtin = @import("builtin");
const mimalloc = @import("mimalloc");
const cases = @import("bench_cases.zig");
const system = @import("bench_system.zig");

pub const std_options: std.Options = if (@hasField(std.Options, "signal_stack_size"))
    .{ .signal_stack_size = null }
else
    .{};

const rounds = 3;
// A run of so many seconds is not repeated.
const long = 3;

const names = [_][]const u8{ "mimalloc", "smp", "c", "page" };

// Which of them need a system call for each block, and do a part of the work only.
const page_divisor = 50;

var program_with_libc: []const u8 = "";

fn runHere(benchmark: []const u8, allocator: []const u8, work: cases.Work) !void {
    if (std.mem.eql(u8, allocator, "mimalloc")) return cases.run(mimalloc.allocator, benchmark, work);
    if (std.mem.eql(u8, allocator, "smp")) return cases.run(std.heap.smp_allocator, benchmark, work);
    if (std.mem.eql(u8, allocator, "page")) {
        return cases.run(std.heap.page_allocator, benchmark, .{ .n = work.n, .divisor = page_divisor });
    }
    if (builtin.link_libc and std.mem.eql(u8, allocator, "c")) {
        return cases.run(std.heap.c_allocator, benchmark, work);
    }
    return error.UnknownAllocator;
}

fn runByName(benchmark: []const u8, allocator: []const u8, work: cases.Work) !void {
    if (builtin.link_libc or !std.mem.eql(u8, allocator, "c")) {
        return runHere(benchmark, allocator, work);
    }
    var buffer: [32]u8 = undefined;
    const n = if (work.n) |value| try std.fmt.bufPrint(&buffer, "{d}", .{value}) else "";
    return system.become(program_with_libc, &.{ "here", benchmark, allocator, n });
}

fn printLine(benchmark: []const u8, n: ?usize, allocator: []const u8, spent: *const system.Spent) void {
    var buffer: [32]u8 = undefined;
    const number = if (n) |value| std.fmt.bufPrint(&buffer, "{d}", .{value}) catch "" else "";
    const part = if (std.mem.eql(u8, allocator, "page") and isDivided(benchmark))
        std.fmt.comptimePrint("1/{d} of the work; ", .{page_divisor})
    else
        "";
    system.print("{s:<11}{s:>3} {s:<9}{d:>8.3}{d:>8.3}{d:>8.1}  {s}{s}{s}\n", .{
        benchmark,                            number, allocator,    spent.wall, spent.cpu, spent.megabytes,
        if (spent.is_ok) "" else "FAILED ", part,   spent.note(),
    });
}

fn isDivided(benchmark: []const u8) bool {
    return !std.mem.eql(u8, benchmark, "mpsc") and !std.mem.eql(u8, benchmark, "program");
}

fn isWorth(row: Row, allocator: []const u8) bool {
    if (std.mem.eql(u8, allocator, "c") and !builtin.link_libc) return program_with_libc.len > 0;
    // Every block would be a mapping, of which a process has 65530.
    return !(std.mem.eql(u8, allocator, "page") and row.n == 8);
}

const Row = struct { benchmark: []const u8, n: ?usize = null, rounds: usize = rounds };

const rows = [_]Row{
    .{ .benchmark = "symmetric", .n = 2 },
    .{ .benchmark = "symmetric", .n = 8 },
    .{ .benchmark = "asymmetric" },
    .{ .benchmark = "pair" },
    .{ .benchmark = "program", .n = 2 },
    .{ .benchmark = "mpsc", .n = 5, .rounds = 1 },
    .{ .benchmark = "back", .rounds = 1 },
};

/// Of interleaved rounds that with the least time on the wall.
fn runAll() !void {
    system.print("benchmark    n allocator    wall s   cpu s    MB\n", .{});
    for (rows) |row| {
        var best: [names.len]system.Spent = @splat(.{});
        for (0..row.rounds) |round| {
            for (names, &best) |name, *least| {
                if (!isWorth(row, name) or (round > 0 and least.wall > long)) continue;
                const spent = system.spend(runByName, .{ row.benchmark, name, cases.Work{ .n = row.n } });
                if (round == 0 or spent.wall < least.wall) least.* = spent;
            }
        }
        for (names, &best) |name, *least| {
            if (isWorth(row, name)) printLine(row.benchmark, row.n, name, least);
        }
    }
}

pub fn main() !void {
    var buffer: [4096]u8 = undefined;
    var words: [4][]const u8 = undefined;
    system.arguments(&buffer, &words);
    if (words[0].len == 0 or std.mem.eql(u8, words[0], "all")) {
        program_with_libc = words[1];
        return runAll();
    }
    const is_here = std.mem.eql(u8, words[0], "here");
    const own = if (is_here) words[1..4] else words[0..3];
    const n: ?usize = if (own[2].len == 0) null else try std.fmt.parseInt(usize, own[2], 10);
    if (is_here) return runHere(own[0], own[1], .{ .n = n });
    const spent = system.spend(runHere, .{ own[0], own[1], cases.Work{ .n = n } });
    printLine(own[0], n, own[1], &spent);
}
