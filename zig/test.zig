const std = @import("std");
const mimalloc = @import("mimalloc");
test "std" {
    try std.heap.testAllocator(mimalloc.allocator);
    try std.heap.testAllocatorAligned(mimalloc.allocator);
    try std.heap.testAllocatorLargeAlignment(mimalloc.allocator);
    try std.heap.testAllocatorAlignedShrink(mimalloc.allocator);
}
