// SPDX-License-Identifier: MIT
//! A real program: the front half of the Zig compiler (std.zig) on all of the standard library.
//!
//! Each file is read, parsed, lowered to the compiler's first intermediate code, formatted anew, and
//! what that gave is parsed again, which must have as many tokens. Threads take files in turn. All
//! trees are kept until the end, as a compiler does.
const std = @import("std");
const settings = @import("bench_settings");
const system = @import("bench_system.zig");
const Allocator = std.mem.Allocator;
const Ast = std.zig.Ast;

const Unit = struct { source: [:0]u8, tree: Ast, code: std.zig.Zir };

// From 0.17 on the third parameter is a struct.
const has_options = @hasDecl(Ast, "ParseOptions");
const Options = if (has_options) Ast.ParseOptions else Ast.Mode;
const options: Options = if (has_options) .{ .mode = .zig } else .zig;

fn compile(gpa: Allocator, path: [:0]const u8) !?Unit {
    const source = try system.readFile(gpa, path.ptr);
    errdefer gpa.free(source);
    var tree = try Ast.parse(gpa, source, options);
    errdefer tree.deinit(gpa);
    if (tree.errors.len > 0) return error.DoesNotParse;
    var code = try std.zig.AstGen.generate(gpa, tree);
    errdefer code.deinit(gpa);
    const text = try tree.renderAlloc(gpa);
    defer gpa.free(text);
    const again = try system.copyZ(gpa, text);
    defer gpa.free(again);
    var second = try Ast.parse(gpa, again, options);
    defer second.deinit(gpa);
    if (second.errors.len > 0) return error.DoesNotParseAgain;
    return .{ .source = source, .tree = tree, .code = code };
}

pub fn run(gpa: Allocator, thread_count: usize) !void {
    const Crew = struct {
        gpa: Allocator,
        files: []const [:0]const u8,
        units: []?Unit,
        next: std.atomic.Value(usize) = .init(0),
        failed: std.atomic.Value(usize) = .init(0),

        fn work(crew: *@This()) void {
            while (true) {
                const i = crew.next.fetchAdd(1, .monotonic);
                if (i >= crew.files.len) return;
                crew.units[i] = compile(crew.gpa, crew.files[i]) catch {
                    _ = crew.failed.fetchAdd(1, .monotonic);
                    continue;
                };
            }
        }
    };
    var files: std.ArrayListUnmanaged([:0]const u8) = .empty;
    try system.findFiles(gpa, &files, settings.library ++ "/std", ".zig");
    const units = try gpa.alloc(?Unit, files.items.len);
    @memset(units, null);
    var crew: Crew = .{ .gpa = gpa, .files = files.items, .units = units };
    var threads: [16]std.Thread = undefined;
    for (threads[0..thread_count]) |*t| t.* = try std.Thread.spawn(.{}, Crew.work, .{&crew});
    for (threads[0..thread_count]) |t| t.join();

    var bytes: usize = 0;
    var nodes: usize = 0;
    for (units) |*unit| if (unit.*) |*u| {
        bytes += u.source.len;
        nodes += u.tree.nodes.len;
        u.code.deinit(gpa);
        u.tree.deinit(gpa);
        gpa.free(u.source);
    };
    for (files.items) |path| gpa.free(path);
    system.print("{d} files, {d} bytes, {d} nodes, {d} failed\n", .{
        files.items.len, bytes, nodes, crew.failed.load(.monotonic),
    });
    files.deinit(gpa);
    gpa.free(units);
    if (nodes == 0 or crew.failed.load(.monotonic) > files.items.len / 20) return error.TooManyFailed;
}
