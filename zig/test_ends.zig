// SPDX-License-Identifier: MIT
//! How threads and processes can end, and what becomes of their blocks: in a call of the allocator,
//! at any of its instructions, under fork and vfork, and where the kernel tells nobody.
//!
//! What may go wrong for ever happens in a child process.
const std = @import("std");
const builtin = @import("builtin");
const mimalloc = @import("mimalloc");
const linux = std.os.linux;
const testing = std.testing;
const gpa = mimalloc.allocator;

const is_linux = builtin.os.tag == .linux;
const has_threads = is_linux and !builtin.single_threaded;
// With a libc its destructors tell of a thread's end, and a raw exit passes them by.
const is_bare = has_threads and !builtin.link_libc;

extern fn mi_register_deferred_free(
    callback: ?*const fn (force: bool, heartbeat: c_ulonglong, arg: ?*anyopaque) callconv(.c) void,
    arg: ?*anyopaque,
) void;

const is_debug = switch (builtin.mode) {
    .Debug => true,
    else => false,
};

const small_stack: std.Thread.SpawnConfig = .{ .stack_size = 1 << 20 };

fn exitThread() noreturn {
    _ = linux.syscall1(.exit, 0);
    unreachable;
}

// ---- helpers -----------------------------------------------------------------------------------

const slice_size = 64 << 10;  // what the core cuts pages from

fn sliceOf(p: anytype) usize {
    return @intFromPtr(p) / slice_size;
}

/// Blocks of a size that nothing else here asks for, with contents to be recognized by.
const Kept = struct {
    const size = 3000;
    blocks: [8]*[size]u8 = undefined,

    fn fill(kept: *Kept, tag: u8) void {
        for (&kept.blocks) |*block| {
            block.* = gpa.create([size]u8) catch exitProcess(90);
            @memset(block.*, tag);
        }
    }

    fn isIntact(kept: *const Kept, tag: u8) bool {
        for (kept.blocks) |block| for (block) |byte| if (byte != tag) return false;
        return true;
    }

    fn free(kept: *const Kept) void {
        for (kept.blocks) |block| gpa.destroy(block);
    }

    fn isNear(kept: *const Kept, p: anytype) bool {
        for (kept.blocks) |block| if (sliceOf(block) == sliceOf(p)) return true;
        return false;
    }
};

/// Whether this thread is given memory out of the pages in which `kept` lies.
fn isTakenOver(kept: *const Kept) bool {
    mimalloc.collect(false);
    var blocks: [400]*[Kept.size]u8 = undefined;
    for (&blocks) |*block| block.* = gpa.create([Kept.size]u8) catch exitProcess(92);
    defer for (blocks) |block| gpa.destroy(block);
    for (blocks) |block| if (kept.isNear(block)) return true;
    return false;
}

/// The number of a thread that was joined may be in use for a moment still, where that counts.
fn isSoonTakenOver(kept: *const Kept) bool {
    for (0..200) |_| {
        if (isTakenOver(kept)) return true;
        std.Thread.yield() catch {};
    }
    return false;
}

fn exitProcess(code: u8) noreturn {
    linux.exit_group(code);
}

const Ended = union(enum) { code: u32, signal: u32 };

const Clock = enum(usize) { wall = 0, processor = 2 };

/// Runs a function in a child, which has a minute.
fn inChild(comptime run: anytype, args: anytype) Ended {
    return inChildFor(run, args, .wall, 60);
}

fn inChildFor(comptime run: anytype, args: anytype, clock: Clock, seconds: usize) Ended {
    const pid = linux.fork();
    if (pid == 0) {
        const until = [4]usize{ 0, 0, seconds, 0 };
        _ = linux.syscall3(.setitimer, @intFromEnum(clock), @intFromPtr(&until), 0);
        exitProcess(@call(.auto, run, args));
    }
    var status: u32 = 0;
    _ = linux.waitpid(@intCast(pid), @ptrCast(&status), 0);
    return if (status & 0x7f == 0) .{ .code = status >> 8 } else .{ .signal = status & 0x7f };
}

fn expectSuccess(ended: Ended) !void {
    try testing.expectEqual(Ended{ .code = 0 }, ended);
}

// ---- a thread that ends inside a call ----------------------------------------------------------

const InCallback = struct {
    var kept: Kept = .{};
    threadlocal var ends_next: bool = false;

    fn onBeat(_: bool, _: c_ulonglong, _: ?*anyopaque) callconv(.c) void {
        if (ends_next) exitThread();
    }

    fn thread(in_call: bool) void {
        kept.fill(7);
        ends_next = in_call;
        var sizes: usize = 1000;
        while (in_call) : (sizes += 100) _ = gpa.alloc(u8, sizes) catch exitProcess(91);
    }

    // 0: the heap was taken over, 1: it was left alone.
    fn child(in_call: bool) u8 {
        mi_register_deferred_free(&onBeat, null);
        const t = std.Thread.spawn(small_stack, thread, .{in_call}) catch return 80;
        t.join();
        const is_taken = if (in_call) isTakenOver(&kept) else isSoonTakenOver(&kept);
        if (!kept.isIntact(7)) return 81;
        kept.free();
        mimalloc.collect(false);
        return if (is_taken) 0 else 1;
    }
};

test "the heap of a thread that ended in a callback is left alone" {
    if (!is_bare) return;
    try testing.expectEqual(Ended{ .code = 0 }, inChild(InCallback.child, .{false}));
    try testing.expectEqual(Ended{ .code = 1 }, inChild(InCallback.child, .{true}));
}

// The thread runs one instruction at a time, and ends behind the one with a given number.
const InSteps = struct {
    const count = 24;
    var last: usize = 0;
    var steps: usize = 0;
    var kept: Kept = .{};
    var small: [count][]u8 = undefined;
    var is_in_call: bool = false;

    const Action = extern struct {
        handler: *const fn (c_int) callconv(.c) void,
        flags: c_ulong = 0x04000000, // SA_RESTORER
        restorer: *const fn () callconv(.naked) noreturn = &restore,
        mask: u64 = 0,
    };

    fn restore() callconv(.naked) noreturn {
        asm volatile (
            \\ movl $15, %%eax
            \\ syscall
        );
    }

    fn onTrap(_: c_int) callconv(.c) void {
        steps += 1;
        if (steps == last) exitThread();
    }

    // Below what a function without a frame may use of the stack.
    inline fn stepFromHere() void {
        asm volatile (
            \\ leaq -256(%%rsp), %%rsp
            \\ pushfq
            \\ orq $0x100, (%%rsp)
            \\ popfq
            \\ leaq 256(%%rsp), %%rsp
            ::: .{ .memory = true, .cc = true });
    }

    inline fn stepNoMore() void {
        asm volatile (
            \\ leaq -256(%%rsp), %%rsp
            \\ pushfq
            \\ andq $-257, (%%rsp)
            \\ popfq
            \\ leaq 256(%%rsp), %%rsp
            ::: .{ .memory = true, .cc = true });
    }

    fn fast() void {
        for (0..4) |i| gpa.free(small[i]);
        for (0..4) |i| small[i] = gpa.alloc(u8, 100) catch exitProcess(93);
    }

    // New pages, frees into full ones, an alignment, a block that moves.
    fn slow() void {
        var blocks: [8][]u8 = undefined;
        for (&blocks, 0..) |*block, i| block.* = gpa.alloc(u8, 9000 + 3000 * i) catch exitProcess(94);
        blocks[3] = gpa.realloc(blocks[3], 70_000) catch exitProcess(95);
        const aligned = gpa.alignedAlloc(u8, .fromByteUnits(4096), 5000) catch exitProcess(96);
        for (blocks) |block| gpa.free(block);
        gpa.free(aligned);
    }

    fn thread(comptime run: anytype) void {
        kept.fill(3);
        for (&small) |*block| {
            block.* = gpa.alloc(u8, 100) catch exitProcess(97);
            @memset(block.*, 5);
        }
        stepFromHere();
        run();
        stepNoMore();
    }

    fn play(comptime run: anytype, end: usize) u8 {
        const trap = 5;
        const action: Action = .{ .handler = &onTrap };
        if (linux.syscall4(.rt_sigaction, trap, @intFromPtr(&action), 0, 8) != 0) return 80;
        last = end;
        const t = std.Thread.spawn(small_stack, struct {
            fn go() void {
                thread(run);
            }
        }.go, .{}) catch return 81;
        t.join();
        // What the thread left is as it was, and is nobody else's.
        mimalloc.collect(false);
        var fresh: [600]*[100]u8 = undefined;
        for (&fresh) |*block| {
            block.* = gpa.create([100]u8) catch return 82;
            @memset(block.*, 9);
        }
        slow();
        if (!kept.isIntact(3)) return 83;
        for (small[4..]) |block| for (block) |byte| if (byte != 5) return 84;
        for (small[4..]) |block| gpa.free(block);
        kept.free();
        mimalloc.collect(false);
        for (fresh) |block| for (block) |byte| if (byte != 9) return 85;
        for (fresh) |block| gpa.destroy(block);
        return 0;
    }

    fn countSteps(comptime run: anytype) u8 {
        const code = play(run, std.math.maxInt(usize));
        if (code != 0) return code;
        const log2: u8 = std.math.log2_int(usize, @max(steps, 1));
        return 128 + log2;
    }
};

// The end of a child that waits, busily, for a lock that nobody will release.
const prof_signal = 27;

test "a thread may end at any instruction of a fast call" {
    if (!is_bare or builtin.cpu.arch != .x86_64) return;
    if (is_debug) return; // no call is fast there
    const steps = inChild(InSteps.countSteps, .{InSteps.fast});
    // At least ten instructions a call.
    try testing.expect(steps == .code and steps.code >= 128 + 6 and steps.code <= 128 + 14);
    const end = @as(usize, 1) << @intCast(steps.code - 128);
    var at: usize = 1;
    while (at < end) : (at += @max(1, end / 500)) {
        try expectSuccess(inChild(InSteps.play, .{ InSteps.fast, at }));
    }
}

test "a thread that ends in a slow call harms nobody who needs no lock of its" {
    if (!is_bare or builtin.cpu.arch != .x86_64) return;
    // Filling freed memory, byte after byte, would be nearly all the steps.
    if (is_debug) return;
    const steps = inChild(InSteps.countSteps, .{InSteps.slow});
    try testing.expect(steps == .code and steps.code > 128 + 10);
    const end = @as(usize, 1) << @intCast(steps.code - 128);
    var stuck: usize = 0;
    const tries = 24;
    for (0..tries) |i| {
        const at = 1 + end / tries * i + i % 7;
        const ended = inChildFor(InSteps.play, .{ InSteps.slow, at }, .processor, 1);
        switch (ended) {
            .code => try expectSuccess(ended),
            .signal => |signal| {
                try testing.expectEqual(prof_signal, signal);
                stuck += 1;
            },
        }
    }
    try testing.expect(stuck < tries / 2);
}

// ---- where the kernel tells nobody -------------------------------------------------------------

const Refused = struct {
    const Instruction = extern struct { code: u16, jt: u8 = 0, jf: u8 = 0, k: u32 };
    const Program = extern struct { len: u16, filter: [*]const Instruction };

    /// From here on a system call answers an error: EPERM.
    fn refuse(comptime number: linux.SYS) bool {
        const load = 0x20;
        const jump_if_equal = 0x15;
        const answer = 0x06;
        const filter = [_]Instruction{
            .{ .code = load, .k = 0 },
            .{ .code = jump_if_equal, .jf = 1, .k = @intFromEnum(number) },
            .{ .code = answer, .k = 0x00050000 | 1 },
            .{ .code = answer, .k = 0x7fff0000 },
        };
        const program: Program = .{ .len = filter.len, .filter = &filter };
        const no_new_privileges = 38;
        const set_seccomp = 22;
        if (linux.syscall5(.prctl, no_new_privileges, 1, 0, 0, 0) != 0) return false;
        if (linux.syscall5(.prctl, set_seccomp, 2, @intFromPtr(&program), 0, 0) != 0) return false;
        return linux.syscall2(number, 0, 0) == @as(usize, @bitCast(@as(isize, -1)));
    }

    var kept: [20]Kept = @splat(.{});

    fn child(asking_too: bool) u8 {
        if (!refuse(.set_robust_list)) return 70;
        if (asking_too and !refuse(.tgkill)) return 70;
        var taken: u8 = 0;
        for (&kept, 0..) |*own, i| {
            const tag: u8 = @intCast(i);
            const t = std.Thread.spawn(small_stack, Kept.fill, .{ own, tag }) catch return 71;
            t.join();
            if (if (asking_too) isTakenOver(own) else isSoonTakenOver(own)) taken += 1;
            if (!own.isIntact(tag)) return 72;
        }
        for (&kept) |*own| own.free();
        return taken;
    }
};

test "where the kernel refuses a robust list, threads are asked for" {
    if (!is_bare) return;
    const ended = inChild(Refused.child, .{false});
    if (ended == .code and ended.code == 70) return error.SkipZigTest; // no filters here
    try testing.expectEqual(Ended{ .code = Refused.kept.len }, ended);
    // And where it answers no question either, nothing is taken from anybody.
    try testing.expectEqual(Ended{ .code = 0 }, inChild(Refused.child, .{true}));
}

// ---- fork and vfork ----------------------------------------------------------------------------

const InVfork = struct {
    const clone_vm = 0x100;
    const clone_vfork = 0x4000;
    const sigchld = 17;
    const not_shared = 68;
    var has_run: bool = false;
    var of_child: Kept = .{};
    var kept: Kept = .{};
    var stack: [256 << 10]u8 align(4096) = undefined;
    var step: std.atomic.Value(u32) = .init(0);

    /// On the memory and the thread-local storage of the thread that started it.
    fn run(_: usize) callconv(.c) u8 {
        of_child.fill(21);
        has_run = true;
        return 0;
    }

    fn waitUntil(value: u32) void {
        while (step.load(.acquire) < value) std.Thread.yield() catch {};
    }

    // Its first call to the allocator is made by its child.
    fn thread() void {
        const pid = linux.clone(
            &run,
            @intFromPtr(&stack) + stack.len,
            clone_vm | clone_vfork | sigchld,
            0,
            null,
            0,
            null,
        );
        if (pid > std.math.maxInt(isize)) exitProcess(60);
        var status: u32 = 0;
        _ = linux.waitpid(@intCast(pid), @ptrCast(&status), 0);
        if (status != 0) exitProcess(61);
        if (!has_run) exitProcess(not_shared); // an emulator makes a fork of it
        step.store(1, .release);
        waitUntil(2);
        // Its heap is its own still.
        kept.fill(22);
        if (!of_child.isIntact(21)) exitProcess(62);
        mimalloc.collect(false);
    }

    // That its process has called the allocator before is the simpler case.
    fn child(is_first_call: bool) u8 {
        if (!is_first_call) gpa.free(gpa.alloc(u8, 999_999) catch return 67);
        const t = std.Thread.spawn(small_stack, thread, .{}) catch return 63;
        waitUntil(1);
        // The child is dead, the thread is not.
        if (isTakenOver(&of_child)) return 64;
        step.store(2, .release);
        t.join();
        if (!isSoonTakenOver(&kept)) return 65;
        if (!kept.isIntact(22) or !of_child.isIntact(21)) return 66;
        kept.free();
        of_child.free();
        return 0;
    }
};

test "a child of vfork does not take its thread's heap with it" {
    if (!is_bare) return;
    const ended = inChild(InVfork.child, .{false});
    if (ended == .code and ended.code == InVfork.not_shared) return error.SkipZigTest;
    try expectSuccess(ended);
    try expectSuccess(inChild(InVfork.child, .{true}));
}

const InFork = struct {
    var kept: Kept = .{};
    var step: std.atomic.Value(u32) = .init(0);

    fn thread() void {
        kept.fill(31);
        step.store(1, .release);
        while (step.load(.acquire) != 2) std.Thread.yield() catch {};
    }

    // Threads of the parent do not exist here, and what they left is set right.
    fn grandchild() u8 {
        if (!isTakenOver(&kept)) return 50;
        if (!kept.isIntact(31)) return 51;
        kept.free();
        for (0..20) |i| {
            var own: Kept = .{};
            const t = std.Thread.spawn(small_stack, Kept.fill, .{ &own, @as(u8, @intCast(i)) }) catch return 52;
            t.join();
            if (!isSoonTakenOver(&own)) return 53;
            own.free();
        }
        return 0;
    }

    fn child() u8 {
        const t = std.Thread.spawn(small_stack, thread, .{}) catch return 54;
        while (step.load(.acquire) != 1) std.Thread.yield() catch {};
        switch (inChild(grandchild, .{})) {
            .code => |code| if (code != 0) return @intCast(code),
            .signal => return 55,
        }
        // The word of this process' thread says nothing of its copy in the child.
        if (isTakenOver(&kept) or !kept.isIntact(31)) return 56;
        step.store(2, .release);
        t.join();
        if (!isSoonTakenOver(&kept)) return 57;
        kept.free();
        return 0;
    }
};

test "threads end in the child of a fork and in its parent" {
    if (!is_bare) return;
    try expectSuccess(inChild(InFork.child, .{}));
}
