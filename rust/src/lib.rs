// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

pub mod ffi;
mod heap;

pub use heap::{Heap, HeapBox, OutOfMemory};

use alloc::string::String;
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_char, c_void, CStr};
use core::num::NonZeroUsize;

/// The allocator of the whole program: `#[global_allocator] static ALLOC: MiMalloc = MiMalloc;`
#[derive(Clone, Copy, Debug, Default)]
pub struct MiMalloc;

/// Every block has this alignment without asking for it.
const NATURAL_ALIGN: usize = 16;

// SAFETY: blocks have the size and alignment of the layout, stay where they are until they are
// freed, and no call unwinds.
unsafe impl GlobalAlloc for MiMalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL_ALIGN {
            ffi::mi_malloc(layout.size()).cast()
        } else {
            ffi::mi_malloc_aligned(layout.size(), layout.align()).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL_ALIGN {
            ffi::mi_zalloc(layout.size()).cast()
        } else {
            ffi::mi_zalloc_aligned(layout.size(), layout.align()).cast()
        }
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, _layout: Layout) {
        ffi::mi_free(p.cast());
    }

    #[inline]
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= NATURAL_ALIGN {
            ffi::mi_realloc(p.cast(), new_size).cast()
        } else {
            ffi::mi_realloc_aligned(p.cast(), new_size, layout.align()).cast()
        }
    }
}

/// The release of the C library, as major * 10000 + minor * 100 + patch.
pub fn version() -> u32 {
    // SAFETY: reads a constant.
    unsafe { ffi::mi_version() as u32 }
}

/// Frees what the calling thread holds without need; with `force` gives memory back to the system
/// at once.
pub fn collect(force: bool) {
    // SAFETY: may be called at any time.
    unsafe { ffi::mi_collect(force) }
}

/// Whether an address lies in a block of this library, whichever heap it belongs to.
pub fn contains<T: ?Sized>(p: *const T) -> bool {
    // SAFETY: takes any address and does not follow it.
    unsafe { ffi::mi_any_heap_contains(p.cast()) }
}

/// The partition that a block's addresses belong to: in hardened builds (the feature `secure`) no
/// other heap is ever given an address that a [`Heap`] once had. `None` for blocks of no such heap,
/// and always in other builds.
///
/// ```
/// let (texts, trees) = (mimalloc::Heap::new().unwrap(), mimalloc::Heap::new().unwrap());
/// let (text, tree) = (texts.alloc_str("input"), trees.alloc(0_u64).unwrap());
/// let apart = mimalloc::partition_of(&*text) != mimalloc::partition_of(&*tree);
/// assert!(apart || mimalloc::partition_of(&*text).is_none());
/// ```
pub fn partition_of<T: ?Sized>(p: *const T) -> Option<NonZeroUsize> {
    // SAFETY: takes any address and does not follow it.
    NonZeroUsize::new(unsafe { ffi::mi_partition_of(p.cast()) })
}

/// The block size that a request for `size` bytes gets, for containers that grow.
pub fn good_size(size: usize) -> usize {
    // SAFETY: computes only.
    unsafe { ffi::mi_good_size(size) }
}

/// The statistics of the process as JSON; `None` when there is no memory for the text.
pub fn stats_json() -> Option<String> {
    // SAFETY: without a buffer the result is NULL or a text of its own, which take_text frees.
    unsafe { take_text(ffi::mi_stats_get_json(0, core::ptr::null_mut())) }
}

// SAFETY: `text` is NULL or a block of this library with a terminated text.
unsafe fn take_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
    ffi::mi_free(text.cast::<c_void>());
    Some(copy)
}
