// SPDX-License-Identifier: MIT
//! mimalloc for Zig: `allocator`, heaps that are given up at once, statistics.
//!
//! The allocator is thread-safe, each thread allocates from a heap of its own, and nothing is to be
//! cleaned up when a thread ends: where a libc is linked its destructors tell, elsewhere the kernel
//! does (src/os/robust.c). A block may be freed by another thread than the one that got it.
//!
//! A program that is built for a single thread says so with the option `single_threaded`.
const std = @import("std");
const builtin = @import("builtin");
const settings = @import("settings");
const Allocator = std.mem.Allocator;
const Alignment = std.mem.Alignment;

extern fn mx_zig_alloc(size: usize) ?[*]u8;
extern fn mx_zig_alloc_aligned(size: usize, alignment: usize) ?[*]u8;
extern fn mx_zig_heap_alloc(heap: *anyopaque, size: usize, alignment: usize) ?[*]u8;
extern fn mx_zig_resize(p: [*]u8, size: usize, alignment: usize, new_size: usize) bool;
extern fn mx_zig_remap(p: [*]u8, size: usize, alignment: usize, new_size: usize) ?[*]u8;
extern fn mx_zig_free(p: [*]u8, size: usize, alignment: usize) void;
extern fn mx_zig_free_slow(p: [*]u8, size: usize) void;
extern fn mx_zig_heap_new() ?*anyopaque;
extern fn mi_heap_destroy(heap: *anyopaque) void;
extern fn mi_heap_delete(heap: *anyopaque) void;
extern fn mi_heap_contains(heap: *anyopaque, p: *const anyopaque) bool;
extern fn mx_zig_collect(force: bool) void;
extern fn mi_thread_done() void;
extern fn mi_version() c_int;
extern fn mi_stats_print_out(out: ?*const OutputFn, arg: ?*anyopaque) void;
extern fn mi_process_info(
    elapsed_msecs: ?*usize,
    user_msecs: ?*usize,
    system_msecs: ?*usize,
    current_rss: ?*usize,
    peak_rss: ?*usize,
    current_commit: ?*usize,
    peak_commit: ?*usize,
    page_faults: ?*usize,
) void;

/// A drop-in replacement for `std.heap.smp_allocator` and `std.heap.c_allocator`.
pub const allocator: Allocator = .{ .ptr = undefined, .vtable = &vtable };

const vtable: Allocator.VTable = .{ .alloc = alloc, .resize = resize, .remap = remap, .free = free };

// Every block has at least this alignment. Compared as the logarithm that it is stored as.
const plain_alignment = Alignment.@"16";

fn isPlain(alignment: Alignment) bool {
    return @intFromEnum(alignment) <= @intFromEnum(plain_alignment);
}

// Blocks at hand, see magazine.c: this part of the core's structures is used here, so
// that the compiler sees what most calls do. front.c makes sure that both say the same.
const has_magazines = settings.has_magazines;
const small_max = 1024;
const granule = 16;
const Magazine = extern struct { count: u32, most: u16, seen: u16, blocks: [31][*]u8 };

const storage = if (settings.single_threaded) struct {
    extern var mx_tls_magazines_var: *[small_max / granule + 1]Magazine;
} else struct {
    extern threadlocal var mx_tls_magazines_var: *[small_max / granule + 1]Magazine;
};

// Whether there is a magazine for blocks of this kind, and which.
inline fn hasMagazine(len: usize, alignment: Alignment) bool {
    return has_magazines and isPlain(alignment) and len -% 1 < small_max;
}

inline fn magazineOf(len: usize) *Magazine {
    return &storage.mx_tls_magazines_var[(len + granule - 1) / granule];
}

fn alloc(_: *anyopaque, len: usize, alignment: Alignment, _: usize) ?[*]u8 {
    if (hasMagazine(len, alignment)) {
        const magazine = magazineOf(len);
        const count = magazine.count;
        if (count == 0) return mx_zig_alloc(len);
        magazine.count = count - 1;
        return magazine.blocks[count - 1];
    }
    if (isPlain(alignment)) return mx_zig_alloc(len);
    return mx_zig_alloc_aligned(len, alignment.toByteUnits());
}

fn free(_: *anyopaque, memory: []u8, alignment: Alignment, _: usize) void {
    if (!hasMagazine(memory.len, alignment)) {
        return mx_zig_free(memory.ptr, memory.len, alignment.toByteUnits());
    }
    const magazine = magazineOf(memory.len);
    const count = magazine.count;
    if (count == magazine.most) return mx_zig_free_slow(memory.ptr, memory.len);
    magazine.blocks[count] = memory.ptr;
    // The thread may be killed between these two, and another one clears its magazines.
    @atomicStore(u32, &magazine.count, count + 1, .release);
}

fn resize(_: *anyopaque, memory: []u8, alignment: Alignment, new_len: usize, _: usize) bool {
    return mx_zig_resize(memory.ptr, memory.len, alignment.toByteUnits(), new_len);
}

fn remap(_: *anyopaque, memory: []u8, alignment: Alignment, new_len: usize, _: usize) ?[*]u8 {
    return mx_zig_remap(memory.ptr, memory.len, alignment.toByteUnits(), new_len);
}

// Of a block of any heap: it is found by its address.
fn heapFree(_: *anyopaque, memory: []u8, alignment: Alignment, _: usize) void {
    mx_zig_free(memory.ptr, memory.len, alignment.toByteUnits());
}

/// A heap of its own: any thread may allocate from it and free into it, and `deinit` frees all
/// that is left at once.
pub const Heap = struct {
    handle: *anyopaque,

    pub fn init() Allocator.Error!Heap {
        return .{ .handle = mx_zig_heap_new() orelse return error.OutOfMemory };
    }

    /// Frees every block of the heap. No thread may be using the heap.
    pub fn deinit(heap: *Heap) void {
        mi_heap_destroy(heap.handle);
        heap.* = undefined;
    }

    /// Gives the heap up, but keeps its blocks: `mimalloc.allocator` frees them.
    pub fn release(heap: *Heap) void {
        mi_heap_delete(heap.handle);
        heap.* = undefined;
    }

    /// Whether memory lies in this heap.
    pub fn contains(heap: Heap, p: *const anyopaque) bool {
        return mi_heap_contains(heap.handle, p);
    }

    pub fn allocator(heap: Heap) Allocator {
        return .{ .ptr = heap.handle, .vtable = &heap_vtable };
    }
};

const heap_vtable: Allocator.VTable = .{
    .alloc = heapAlloc,
    .resize = resize,
    .remap = remap,
    .free = heapFree,
};

fn heapAlloc(heap: *anyopaque, len: usize, alignment: Alignment, _: usize) ?[*]u8 {
    return mx_zig_heap_alloc(heap, len, alignment.toByteUnits());
}

/// Gives memory back to the system that nothing uses, that of ended threads, too; with `force` also
/// what is kept for a while.
pub fn collect(force: bool) void {
    mx_zig_collect(force);
}

/// Gives up this thread's heap now. Threads that end need not call it.
pub fn threadDone() void {
    mi_thread_done();
}

pub const OutputFn = fn (text: [*:0]const u8, arg: ?*anyopaque) callconv(.c) void;

/// Writes statistics to `out`, or to the standard error stream.
pub fn printStats(out: ?*const OutputFn, arg: ?*anyopaque) void {
    mi_stats_print_out(out, arg);
}

pub const ProcessInfo = struct {
    elapsed_msecs: usize = 0,
    user_msecs: usize = 0,
    system_msecs: usize = 0,
    current_rss: usize = 0,
    peak_rss: usize = 0,
    current_commit: usize = 0,
    peak_commit: usize = 0,
    page_faults: usize = 0,
};

pub fn processInfo() ProcessInfo {
    var info: ProcessInfo = .{};
    mi_process_info(
        &info.elapsed_msecs,
        &info.user_msecs,
        &info.system_msecs,
        &info.current_rss,
        &info.peak_rss,
        &info.current_commit,
        &info.peak_commit,
        &info.page_faults,
    );
    return info;
}

/// As major * 10000 + minor * 100 + patch.
pub fn version() u32 {
    return @intCast(mi_version());
}

// The core is compiled before it is known whether the program links a libc. If it does, the core
// gets from it what tells of threads' ends and of forks.
const Libc = extern struct {
    key_create: *const fn (*c_uint, ?*const fn (?*anyopaque) callconv(.c) void) callconv(.c) c_int,
    key_delete: *const fn (c_uint) callconv(.c) c_int,
    set_specific: *const fn (c_uint, ?*const anyopaque) callconv(.c) c_int,
    atfork: *const fn (Hook, Hook, Hook) callconv(.c) c_int,

    const Hook = ?*const fn () callconv(.c) void;
    extern "c" fn pthread_key_create(*c_uint, ?*const fn (?*anyopaque) callconv(.c) void) c_int;
    extern "c" fn pthread_key_delete(c_uint) c_int;
    extern "c" fn pthread_setspecific(c_uint, ?*const anyopaque) c_int;
    extern "c" fn pthread_atfork(Hook, Hook, Hook) c_int;
    const linked: Libc = .{
        .key_create = pthread_key_create,
        .key_delete = pthread_key_delete,
        .set_specific = pthread_setspecific,
        .atfork = pthread_atfork,
    };
};

comptime {
    if (builtin.single_threaded and !builtin.link_libc and !settings.single_threaded) {
        @compileError("a program with -fsingle-threaded has no thread-local storage: " ++
            "give .single_threaded = true to b.dependency(\"mimalloc\", ...)");
    }
    if (builtin.link_libc and !settings.core_has_libc) @export(&Libc.linked, .{ .name = "mx_libc" });
}
