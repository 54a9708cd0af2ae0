// SPDX-License-Identifier: MIT
//! The package `mimalloc` for Zig 0.15.2, 0.16 and 0.17. docs/zig.md tells how to use it.
//!
//!   zig build test       the tests of the Zig front, in the mode that -Doptimize says
//!   zig build bench      the comparison with the allocators of the standard library
//!   zig build -Dlibs     libmimalloc.so, the library that CMake builds
//!
//! On Linux (x86-64, arm64) the core is compiled without a libc; a program that links one gets
//! its help all the same, see zig/mimalloc.zig. Elsewhere it needs the libc.
const std = @import("std");

/// The sources are those of the single-source build, so that there is one list of them.
const single_source = @embedFile("src/static.c");

/// What replaces the C library's names and C++'s is for the shared library only.
fn isForSharedOnly(file: []const u8) bool {
    const prefixes = [_][]const u8{ "override/", "api/api_posix", "api/api_cpp", "api/api_heap.c" };
    for (prefixes) |prefix| if (std.mem.startsWith(u8, file, prefix)) return true;
    return false;
}

fn sourcesOf(b: *std.Build, shared: bool) []const []const u8 {
    var files: std.ArrayListUnmanaged([]const u8) = .empty;
    var lines = std.mem.tokenizeScalar(u8, single_source, '\n');
    while (lines.next()) |line| {
        const start = "#include \"";
        if (!std.mem.startsWith(u8, line, start)) continue;
        const file = line[start.len .. std.mem.lastIndexOfScalar(u8, line, '"').?];
        if (!shared and isForSharedOnly(file)) continue;
        if (isNoLibc(file)) continue;
        files.append(b.allocator, file) catch @panic("OOM");
    }
    for (nolibc_sources) |file| files.append(b.allocator, file) catch @panic("OOM");
    return files.items;
}

/// These are empty where there is a libc.
const nolibc_sources = [_][]const u8{ "os/linux_nolibc.c", "os/robust.c" };

fn isNoLibc(file: []const u8) bool {
    for (nolibc_sources) |own| if (std.mem.eql(u8, file, own)) return true;
    return false;
}

const common_flags = [_][]const u8{
    "-std=gnu11",           "-Wall",                     "-Wextra",
    "-fno-builtin-malloc",  "-ftls-model=initial-exec",  "-fno-sanitize=undefined",
    "-ffunction-sections",  "-fdata-sections",           "-fvisibility=hidden",
    "-Wno-date-time",
};

const Options = struct {
    libc: bool,
    single_threaded: bool = false,
    is_shared: bool = false,
    debug: ?u8,
    secure: ?u8,
};

// The modes have other names from 0.17 on, and only a switch takes both.
const Mode = std.builtin.OptimizeMode;
const fastest: Mode = if (@hasField(Mode, "ReleaseFast")) .ReleaseFast else .fast;

fn isDebug(mode: Mode) bool {
    return switch (mode) {
        .Debug => true,
        else => false,
    };
}

fn isSafe(mode: Mode) bool {
    return switch (mode) {
        .ReleaseSafe => true,
        else => false,
    };
}

// Whether small blocks are kept at hand, without a look at them: for speed alone, and for this front.
fn hasMagazines(optimize: Mode, options: Options) bool {
    if (optimize != fastest or options.is_shared) return false;
    return (options.debug orelse 0) == 0 and (options.secure orelse 0) == 0;
}

/// Where Debian has headers for 32-bit programs, too, but not its gcc-multilib, Zig takes /usr/include
/// for the folder of those that depend on the machine, and misses asm/errno.h.
fn addMachineHeaders(
    b: *std.Build,
    target: std.Build.ResolvedTarget,
    flags: *std.ArrayListUnmanaged([]const u8),
) void {
    // A processor that the user names leaves the headers those of this system.
    if (!target.query.isNativeOs() or !target.query.isNativeAbi()) return;
    if (target.result.os.tag != .linux) return;
    const folder = b.fmt("/usr/include/{s}-linux-gnu", .{@tagName(target.result.cpu.arch)});
    flags.appendSlice(b.allocator, &.{ "-idirafter", folder }) catch @panic("OOM");
}

fn flagsOf(
    b: *std.Build,
    target: std.Build.ResolvedTarget,
    optimize: Mode,
    options: Options,
) []const []const u8 {
    const release = !isDebug(optimize);
    const debug: u8 = options.debug orelse if (release) 0 else 1;
    var flags: std.ArrayListUnmanaged([]const u8) = .empty;
    flags.appendSlice(b.allocator, &common_flags) catch @panic("OOM");
    const add = struct {
        fn add(owner: *std.Build, list: *std.ArrayListUnmanaged([]const u8), flag: []const u8) void {
            list.append(owner.allocator, flag) catch @panic("OOM");
        }
    }.add;
    add(b, &flags, b.fmt("-DMI_DEBUG={d}", .{debug}));
    if (release) add(b, &flags, "-DNDEBUG");
    if (release) add(b, &flags, "-DMI_BUILD_RELEASE");
    if (options.secure) |level| add(b, &flags, b.fmt("-DMI_SECURE={d}", .{level}));
    // A released program that is to be safe has every free checked.
    if (isSafe(optimize) and options.secure == null) add(b, &flags, "-DMI_FREE_IS_CHECKED=1");
    if (options.single_threaded) add(b, &flags, "-DMI_SINGLE_THREADED");
    if (hasMagazines(optimize, options)) add(b, &flags, "-DMI_MAGAZINES=1");
    if (options.libc) {
        addMachineHeaders(b, target, &flags);
    } else {
        add(b, &flags, "-DMI_NO_LIBC");
        add(b, &flags, "-DMI_CARVE_MAX=4096");
        // There is nobody to lay out the storage of a thread of the library's own.
        add(b, &flags, "-DMI_DEFAULT_BACKGROUND_PURGE=0");
        add(b, &flags, "-ffreestanding");
    }
    return flags.items;
}

fn needsLibc(target: std.Target) bool {
    if (target.os.tag != .linux) return true;
    return switch (target.cpu.arch) {
        .x86_64, .aarch64 => target.ptrBitWidth() != 64,
        else => true,
    };
}

fn makeModule(
    b: *std.Build,
    name: ?[]const u8,
    target: std.Build.ResolvedTarget,
    optimize: Mode,
    options: Options,
) *std.Build.Module {
    const settings: std.Build.Module.CreateOptions = .{
        .root_source_file = b.path("zig/mimalloc.zig"),
        .target = target,
        .optimize = optimize,
        // Without a libc of its own the module neither requires nor forbids one.
        .link_libc = if (options.libc) true else null,
        .single_threaded = if (options.single_threaded) true else null,
        .omit_frame_pointer = !isDebug(optimize),
    };
    const module = if (name) |n| b.addModule(n, settings) else b.createModule(settings);
    const settings_of_c = b.addOptions();
    settings_of_c.addOption(bool, "core_has_libc", options.libc);
    settings_of_c.addOption(bool, "single_threaded", options.single_threaded);
    settings_of_c.addOption(bool, "has_magazines", hasMagazines(optimize, options));
    module.addOptions("settings", settings_of_c);
    const flags = flagsOf(b, target, optimize, options);
    if (!options.libc) module.addIncludePath(b.path("src/os/nolibc"));
    module.addCSourceFiles(.{ .root = b.path("src"), .files = sourcesOf(b, false), .flags = flags });
    module.addCSourceFiles(.{
        .root = b.path("zig"),
        .files = &.{ "front.c", "magazine.c" },
        .flags = flags,
    });
    return module;
}

pub fn build(b: *std.Build) void {
    const target = b.standardTargetOptions(.{});
    const optimize = b.standardOptimizeOption(.{});
    const libc = b.option(bool, "libc", "Compile the core for a libc, with its background thread") orelse
        needsLibc(target.result);
    const options: Options = .{
        .libc = libc,
        .single_threaded = b.option(bool, "single_threaded", "For programs that are -fsingle-threaded") orelse
            false,
        .debug = b.option(u8, "debug", "Checks in the core: 0 to 3 (default: 1 in Debug, else 0)"),
        .secure = b.option(u8, "secure", "Mitigations in the core: levels 1 to 5"),
    };
    const module = makeModule(b, "mimalloc", target, optimize, options);

    addTests(b, module, target, optimize, options);
    addBenchmarks(b, target, options);
    if (b.option(bool, "libs", "Build the shared library for C") orelse false) {
        addSharedLibrary(b, target, optimize, options);
    }
}

fn addTests(
    b: *std.Build,
    module: *std.Build.Module,
    target: std.Build.ResolvedTarget,
    optimize: Mode,
    options: Options,
) void {
    const step = b.step("test", "Run the tests of the Zig front");
    const Variant = struct {
        name: []const u8,
        step: []const u8,
        what: []const u8,
        link_libc: bool = false,
        single_threaded: bool = false,
    };
    const variants = [_]Variant{
        .{ .name = "test", .step = "test-bare", .what = "without a libc" },
        .{ .name = "test-libc", .step = "test-libc", .what = "with a libc", .link_libc = true },
        .{
            .name = "test-single-threaded",
            .step = "test-single-threaded",
            .what = "single-threaded",
            .single_threaded = true,
        },
    };
    const filter = b.option([]const u8, "filter", "Only tests whose name contains this");
    for (variants) |variant| {
        if (options.libc and !variant.link_libc) continue;
        if (options.single_threaded and !variant.single_threaded) continue;
        var own = options;
        own.single_threaded = variant.single_threaded;
        const is_same = own.single_threaded == options.single_threaded;
        const tested = if (is_same) module else makeModule(b, null, target, optimize, own);
        const tests = b.addTest(.{
            .name = variant.name,
            .filters = if (filter) |f| b.allocator.dupe([]const u8, &.{f}) catch @panic("OOM") else &.{},
            .root_module = b.createModule(.{
                .root_source_file = b.path("zig/test.zig"),
                .target = target,
                .optimize = optimize,
                .link_libc = if (variant.link_libc) true else null,
                .single_threaded = variant.single_threaded,
                .imports = &.{.{ .name = "mimalloc", .module = tested }},
            }),
        });
        const run = b.addRunArtifact(tests);
        step.dependOn(&run.step);
        const only = b.step(variant.step, b.fmt("Only those of `test` that are {s}", .{variant.what}));
        only.dependOn(&run.step);
    }
    if (options.single_threaded) return;
    // The sample of the documentation is a program of its own.
    const sample = b.addExecutable(.{ .name = "sample", .root_module = b.createModule(.{
        .root_source_file = b.path("zig/sample.zig"),
        .target = target,
        .optimize = optimize,
        .imports = &.{.{ .name = "mimalloc", .module = module }},
    }) });
    step.dependOn(&b.addRunArtifact(sample).step);
}

// The standard library's folder is what a real program among the benchmarks works on.
fn libraryPath(b: *std.Build) []const u8 {
    if (@hasField(std.Build.Graph, "zig_lib_directory")) {
        return b.graph.zig_lib_directory.path orelse ".";
    }
    const home = std.fs.path.dirname(b.graph.zig_exe) orelse ".";
    return b.pathJoin(&.{ home, "lib" });
}

fn addBenchmarks(b: *std.Build, target: std.Build.ResolvedTarget, options: Options) void {
    const step = b.step("bench", "Compare with the standard library's allocators");
    const program = b.step("bench-program", "Build the benchmarks into zig-out/bin, without a run");
    const module = makeModule(b, null, target, fastest, options);
    const settings = b.addOptions();
    settings.addOption([]const u8, "library", libraryPath(b));
    var programs: [2]*std.Build.Step.Compile = undefined;
    for (&programs, [_][]const u8{ "bench", "bench-libc" }, [_]bool{ false, true }) |*bench, name, libc| {
        bench.* = b.addExecutable(.{ .name = name, .root_module = b.createModule(.{
            .root_source_file = b.path("zig/bench.zig"),
            .target = target,
            .optimize = fastest,
            .link_libc = if (libc) true else null,
            .imports = &.{.{ .name = "mimalloc", .module = module }},
        }) });
        bench.*.root_module.addOptions("bench_settings", settings);
        program.dependOn(&b.addInstallArtifact(bench.*, .{}).step);
    }
    const run = b.addRunArtifact(programs[0]);
    run.addArg("all");
    run.addArtifactArg(programs[1]);
    run.stdio = .inherit;
    step.dependOn(program);
    step.dependOn(&run.step);
}

fn addSharedLibrary(
    b: *std.Build,
    target: std.Build.ResolvedTarget,
    optimize: Mode,
    options: Options,
) void {
    const module = b.createModule(.{
        .target = target,
        .optimize = optimize,
        .link_libc = true,
        .pic = true,
        .omit_frame_pointer = !isDebug(optimize),
    });
    var flags: std.ArrayListUnmanaged([]const u8) = .empty;
    const own = flagsOf(b, target, optimize, .{
        .libc = true,
        .is_shared = true,
        .debug = options.debug,
        .secure = options.secure,
    });
    flags.appendSlice(b.allocator, own) catch @panic("OOM");
    flags.appendSlice(b.allocator, &.{
        "-DMI_MALLOC_OVERRIDE=1", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT",
    }) catch @panic("OOM");
    const root = b.path("src");
    module.addCSourceFiles(.{ .root = root, .files = sourcesOf(b, true), .flags = flags.items });
    const library = b.addLibrary(.{
        .name = "mimalloc",
        .linkage = .dynamic,
        .root_module = module,
        .version = std.SemanticVersion.parse(@import("build.zig.zon").version) catch unreachable,
    });
    library.installHeadersDirectory(b.path("include"), "", .{});
    b.installArtifact(library);
}
