// SPDX-License-Identifier: MIT
//! What the benchmarks ask of Linux, by calls that are the same in all versions of Zig.
const std = @import("std");
const linux = std.os.linux;

pub fn now() u64 {
    var t: linux.timespec = undefined;
    _ = linux.clock_gettime(.MONOTONIC, &t);
    return @as(u64, @intCast(t.sec)) * std.time.ns_per_s + @as(u64, @intCast(t.nsec));
}

pub fn sleepFor(seconds: u64) void {
    const t: linux.timespec = .{ .sec = @intCast(seconds), .nsec = 0 };
    _ = linux.nanosleep(&t, null);
}

pub fn print(comptime format: []const u8, args: anytype) void {
    var buffer: [1024]u8 = undefined;
    const text = std.fmt.bufPrint(&buffer, format, args) catch return;
    _ = linux.write(1, text.ptr, text.len);
}

fn isError(result: usize) bool {
    return result > std.math.maxInt(usize) - 4096;
}

/// A copy with a zero behind it, whose name differs between versions.
pub fn copyZ(gpa: std.mem.Allocator, text: []const u8) ![:0]u8 {
    const copy = try gpa.allocSentinel(u8, text.len, 0);
    @memcpy(copy, text);
    return copy;
}

/// The whole of a file, with a zero behind it.
pub fn readFile(gpa: std.mem.Allocator, path: [*:0]const u8) ![:0]u8 {
    const file = linux.syscall4(.openat, at_cwd, @intFromPtr(path), 0, 0);
    if (isError(file)) return error.CannotOpen;
    defer _ = linux.close(@intCast(file));
    var list: []u8 = try gpa.alloc(u8, 16 << 10);
    defer gpa.free(list);
    var length: usize = 0;
    while (true) {
        if (length == list.len) list = try gpa.realloc(list, list.len * 2);
        const count = linux.read(@intCast(file), list.ptr + length, list.len - length);
        if (isError(count)) return error.CannotRead;
        if (count == 0) return copyZ(gpa, list[0..length]);
        length += count;
    }
}

const at_cwd: usize = @bitCast(@as(isize, -100));

/// Adds the paths of all files below a folder whose names end so.
pub fn findFiles(
    gpa: std.mem.Allocator,
    found: *std.ArrayListUnmanaged([:0]const u8),
    folder: []const u8,
    ending: []const u8,
) !void {
    const path = try copyZ(gpa, folder);
    defer gpa.free(path);
    const o_directory = 0x10000; // of x86-64; not needed elsewhere
    const flags: usize = if (@import("builtin").cpu.arch == .x86_64) o_directory else 0;
    const file = linux.syscall4(.openat, at_cwd, @intFromPtr(path.ptr), flags, 0);
    if (isError(file)) return error.CannotOpen;
    defer _ = linux.close(@intCast(file));
    var buffer: [4096]u8 align(8) = undefined;
    while (true) {
        const count = linux.syscall3(.getdents64, file, @intFromPtr(&buffer), buffer.len);
        if (isError(count)) return error.CannotRead;
        if (count == 0) return;
        var at: usize = 0;
        while (at < count) {
            const length = std.mem.readInt(u16, buffer[at + 16 ..][0..2], .little);
            const kind = buffer[at + 18];
            const name = std.mem.sliceTo(buffer[at + 19 .. at + length], 0);
            at += length;
            if (name[0] == '.') continue;
            const whole = try std.fmt.allocPrint(gpa, "{s}/{s}", .{ folder, name });
            defer gpa.free(whole);
            if (kind == 4) {
                try findFiles(gpa, found, whole, ending);
            } else if (std.mem.endsWith(u8, name, ending)) {
                try found.append(gpa, try copyZ(gpa, whole));
            }
        }
    }
}

pub const Spent = struct {
    wall: f64 = 0,
    cpu: f64 = 0,
    megabytes: f64 = 0,
    is_ok: bool = false,
    note_buffer: [1024]u8 = undefined,
    note_length: usize = 0,

    pub fn note(spent: *const Spent) []const u8 {
        return std.mem.trim(u8, spent.note_buffer[0..spent.note_length], "\n");
    }
};

/// Runs a function in a child process, whose output is kept.
pub fn spend(comptime run: anytype, args: anytype) Spent {
    var spent: Spent = .{};
    var ends: [2]i32 = undefined;
    _ = linux.syscall2(.pipe2, @intFromPtr(&ends), 0);
    const start = now();
    const pid = linux.fork();
    if (pid == 0) {
        _ = linux.syscall3(.dup3, @intCast(ends[1]), 1, 0);
        @call(.auto, run, args) catch linux.exit_group(1);
        linux.exit_group(0);
    }
    _ = linux.close(ends[1]);
    while (spent.note_length < spent.note_buffer.len) {
        const rest = spent.note_buffer[spent.note_length..];
        const count = linux.read(ends[0], rest.ptr, rest.len);
        if (count == 0 or isError(count)) break;
        spent.note_length += count;
    }
    _ = linux.close(ends[0]);
    var status: u32 = 0;
    var usage: linux.rusage = undefined;
    _ = linux.wait4(@intCast(pid), @ptrCast(&status), 0, &usage);
    spent.wall = @as(f64, @floatFromInt(now() - start)) / 1e9;
    spent.cpu = @as(f64, @floatFromInt(usage.utime.sec + usage.stime.sec)) +
        @as(f64, @floatFromInt(usage.utime.usec + usage.stime.usec)) / 1e6;
    spent.megabytes = @as(f64, @floatFromInt(usage.maxrss)) * 1024.0 / 1e6;
    spent.is_ok = status == 0;
    return spent;
}

/// Becomes another program; comes back only if that fails.
pub fn become(path: []const u8, own: []const []const u8) error{CannotRun}!void {
    var texts: [8][256:0]u8 = undefined;
    var list: [9]?[*:0]const u8 = @splat(null);
    for ([_][]const []const u8{ &.{path}, own }, [_]usize{ 0, 1 }) |words, first| {
        for (words, first..) |word, i| {
            if (i >= texts.len or word.len >= texts[0].len) return error.CannotRun;
            @memcpy(texts[i][0..word.len], word);
            texts[i][word.len] = 0;
            list[i] = &texts[i];
        }
    }
    const environment = [_]?[*:0]const u8{null};
    _ = linux.syscall3(.execve, @intFromPtr(&texts[0]), @intFromPtr(&list), @intFromPtr(&environment));
    return error.CannotRun;
}

/// The arguments, where the parameter of main differs between versions.
pub fn arguments(buffer: []u8, list: [][]const u8) void {
    const file = linux.syscall4(.openat, at_cwd, @intFromPtr("/proc/self/cmdline"), 0, 0);
    const length = linux.read(@intCast(file), buffer.ptr, buffer.len);
    _ = linux.close(@intCast(file));
    var words = std.mem.splitScalar(u8, buffer[0..length], 0);
    _ = words.next();
    for (list) |*word| word.* = words.next() orelse "";
}
