// SPDX-License-Identifier: MIT
//! Heaps as values: what is allocated from one borrows it, and its end frees all at once.

use alloc::string::String;
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop};
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};

use crate::{ffi, take_text};

/// There was no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

/// A separate set of blocks. Every thread may allocate from it. When it is dropped all its blocks
/// are freed at once, without a look at each: destructors of values that still live in it, by
/// [`Heap::alloc_static`] or a forgotten box, do not run.
///
/// ```
/// let heap = mimalloc::Heap::new().unwrap();
/// let word = heap.alloc_str("all gone at once");
/// let number = heap.alloc(7_u64).unwrap();
/// assert!(heap.contains(word.as_ptr()) && *number == 7);
/// ```
///
/// Nothing that lives in a heap outlives it:
///
/// ```compile_fail,E0505
/// let heap = mimalloc::Heap::new().unwrap();
/// let word = heap.alloc_str("text");
/// drop(heap);
/// println!("{word}");
/// ```
pub struct Heap {
    raw: NonNull<ffi::mi_heap_t>,
}

// SAFETY: every thread may use every heap, several at the same time, and any may end it; that
// nobody uses it then is what owning it means.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

impl Heap {
    /// Makes a heap.
    pub fn new() -> Result<Heap, OutOfMemory> {
        // SAFETY: may be called at any time.
        let raw = unsafe { ffi::mi_heap_new() };
        NonNull::new(raw).map(|raw| Heap { raw }).ok_or(OutOfMemory)
    }

    /// The C library's handle, which is valid as long as the heap.
    pub fn as_raw(&self) -> *mut ffi::mi_heap_t {
        self.raw.as_ptr()
    }

    /// A block for the layout, of undefined contents; it lives until [`Heap::deallocate`], or as
    /// long as the heap.
    pub fn allocate(&self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        // SAFETY: the heap lives, and the alignment of a layout is a power of two.
        let p = unsafe {
            if layout.align() <= crate::NATURAL_ALIGN {
                ffi::mi_heap_malloc(self.as_raw(), layout.size())
            } else {
                ffi::mi_heap_malloc_aligned(self.as_raw(), layout.size(), layout.align())
            }
        };
        NonNull::new(p.cast()).ok_or(OutOfMemory)
    }

    /// As [`Heap::allocate`], with zeroed contents.
    pub fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        // SAFETY: as in allocate().
        let p = unsafe {
            if layout.align() <= crate::NATURAL_ALIGN {
                ffi::mi_heap_zalloc(self.as_raw(), layout.size())
            } else {
                ffi::mi_heap_zalloc_aligned(self.as_raw(), layout.size(), layout.align())
            }
        };
        NonNull::new(p.cast()).ok_or(OutOfMemory)
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `p` is a block of this heap that is not used any more.
    pub unsafe fn deallocate(&self, p: NonNull<u8>) {
        ffi::mi_free(p.as_ptr().cast());
    }

    /// Resizes a block, which may move.
    ///
    /// # Safety
    /// `p` is a block of this heap; after a success only the result is used.
    pub unsafe fn reallocate(
        &self,
        p: NonNull<u8>,
        new: Layout,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let size = new.size().max(1);
        let q = ffi::mi_heap_realloc_aligned(self.as_raw(), p.as_ptr().cast(), size, new.align());
        NonNull::new(q.cast()).ok_or(OutOfMemory)
    }

    /// Moves a value into the heap. The box drops the value and frees its block.
    pub fn alloc<T>(&self, value: T) -> Result<HeapBox<'_, T>, OutOfMemory> {
        let p = self.allocate(Layout::new::<T>())?.cast::<T>();
        // SAFETY: a fresh block of the right size and alignment.
        unsafe { p.as_ptr().write(value) };
        Ok(HeapBox {
            value: p,
            heap: PhantomData,
            owns: PhantomData,
        })
    }

    /// Moves a value into the heap for as long as that lives. Only for values without a destructor:
    /// the heap's end runs none.
    ///
    /// # Panics
    /// When memory is out.
    #[allow(clippy::mut_from_ref)] // a new block each time
    pub fn alloc_static<T: Copy>(&self, value: T) -> &mut T {
        self.alloc(value).expect("out of memory").leak()
    }

    /// Copies a slice into the heap.
    ///
    /// # Panics
    /// When memory is out.
    #[allow(clippy::mut_from_ref)] // a new block each time
    pub fn alloc_slice<T: Copy>(&self, values: &[T]) -> &mut [T] {
        let p = self
            .allocate(Layout::for_value(values))
            .expect("out of memory")
            .cast::<T>();
        // SAFETY: a fresh block of the slice's layout, which lives as long as the heap.
        unsafe {
            ptr::copy_nonoverlapping(values.as_ptr(), p.as_ptr(), values.len());
            core::slice::from_raw_parts_mut(p.as_ptr(), values.len())
        }
    }

    /// Copies a text into the heap.
    ///
    /// # Panics
    /// When memory is out.
    #[allow(clippy::mut_from_ref)] // a new block each time
    pub fn alloc_str(&self, text: &str) -> &mut str {
        let bytes = self.alloc_slice(text.as_bytes());
        // SAFETY: the copy of a text is one.
        unsafe { core::str::from_utf8_unchecked_mut(bytes) }
    }

    /// Whether an address lies in a block of this heap.
    pub fn contains<T: ?Sized>(&self, p: *const T) -> bool {
        // SAFETY: takes any address and does not follow it.
        unsafe { ffi::mi_heap_contains(self.as_raw(), p.cast()) }
    }

    /// Frees what the calling thread's part of the heap holds without need.
    pub fn collect(&self, force: bool) {
        // SAFETY: the heap lives.
        unsafe { ffi::mi_heap_collect(self.as_raw(), force) }
    }

    /// The heap's statistics as JSON; `None` when there is no memory for the text.
    pub fn stats_json(&self) -> Option<String> {
        // SAFETY: the heap lives; the text is new.
        unsafe {
            take_text(ffi::mi_heap_stats_get_json(
                self.as_raw(),
                0,
                ptr::null_mut(),
            ))
        }
    }

    /// Gives up the heap and keeps its blocks, which then belong to the program's main heap and
    /// are freed one by one, or never.
    pub fn delete(self) {
        let heap = ManuallyDrop::new(self);
        // SAFETY: nobody else has the heap.
        unsafe { ffi::mi_heap_delete(heap.as_raw()) }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the heap any more, so nobody uses it or its blocks.
        unsafe { ffi::mi_heap_destroy(self.as_raw()) }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heap").field(&self.raw).finish()
    }
}

/// A value in a heap, dropped and freed with the box, by whichever thread has it then.
pub struct HeapBox<'h, T> {
    value: NonNull<T>,
    heap: PhantomData<&'h Heap>,
    owns: PhantomData<T>,
}

// SAFETY: the box owns its value, and any thread may free any block.
unsafe impl<T: Send> Send for HeapBox<'_, T> {}
unsafe impl<T: Sync> Sync for HeapBox<'_, T> {}

impl<'h, T> HeapBox<'h, T> {
    /// Keeps the value until the heap's end, which does not drop it.
    pub fn leak(self) -> &'h mut T {
        let kept = ManuallyDrop::new(self);
        // SAFETY: the box that owned the value is gone; the block lives as long as the heap.
        unsafe { &mut *kept.value.as_ptr() }
    }

    /// Takes the value out and frees its block.
    pub fn into_inner(self) -> T {
        let taken = ManuallyDrop::new(self);
        // SAFETY: the value is read once, and its block freed once.
        unsafe {
            let value = taken.value.as_ptr().read();
            ffi::mi_free(taken.value.as_ptr().cast());
            value
        }
    }
}

impl<T> Deref for HeapBox<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the box owns a live value.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for HeapBox<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the box owns a live value.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for HeapBox<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the box owns the value and its block. The block goes even if the value's
        // destructor panics.
        struct Block(*mut u8);
        impl Drop for Block {
            fn drop(&mut self) {
                unsafe { ffi::mi_free(self.0.cast()) }
            }
        }
        let _block = Block(self.value.as_ptr().cast());
        if mem::needs_drop::<T>() {
            unsafe { ptr::drop_in_place(self.value.as_ptr()) }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for HeapBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(feature = "allocator-api2")]
mod collections {
    use super::*;
    use allocator_api2::alloc::{AllocError, Allocator};

    fn as_slice(
        p: Result<NonNull<u8>, OutOfMemory>,
        layout: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        p.map(|p| NonNull::slice_from_raw_parts(p, layout.size()))
            .map_err(|_| AllocError)
    }

    // SAFETY: blocks live until they are deallocated, or the heap ends, which the allocator
    // borrows; copies of the reference are the same heap.
    unsafe impl Allocator for &Heap {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            as_slice(Heap::allocate(self, layout), layout)
        }

        fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            as_slice(Heap::allocate_zeroed(self, layout), layout)
        }

        unsafe fn deallocate(&self, p: NonNull<u8>, _layout: Layout) {
            Heap::deallocate(self, p);
        }

        unsafe fn grow(
            &self,
            p: NonNull<u8>,
            _old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, AllocError> {
            as_slice(self.reallocate(p, new), new)
        }

        unsafe fn shrink(
            &self,
            p: NonNull<u8>,
            _old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, AllocError> {
            as_slice(self.reallocate(p, new), new)
        }
    }
}
