// SPDX-License-Identifier: MIT
//! Heaps: what lives in them, for how long, in which threads.
use std::alloc::Layout;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use mimalloc::{Heap, HeapBox};

struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn boxes_drop_their_values_once() {
    let drops = AtomicUsize::new(0);
    let heap = Heap::new().unwrap();
    let first = heap.alloc(Counted(&drops)).unwrap();
    drop(heap.alloc(Counted(&drops)).unwrap());
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    drop(first);
    assert_eq!(drops.load(Ordering::Relaxed), 2);
    let taken = heap.alloc(Counted(&drops)).unwrap().into_inner();
    assert_eq!(drops.load(Ordering::Relaxed), 2);
    drop(taken);
    heap.alloc(Counted(&drops)).unwrap().leak();
    drop(heap);
    assert_eq!(drops.load(Ordering::Relaxed), 3);
}

#[test]
fn blocks_are_freed() {
    let heap = Heap::new().unwrap();
    for _ in 0..100_000 {
        drop(heap.alloc([0_u8; 4096]).unwrap());
    }
    let json = heap.stats_json().unwrap();
    let committed: u64 = json
        .split("\"page_committed\": {\"total\": ")
        .nth(1)
        .unwrap()
        .split("\"peak\": ")
        .nth(1)
        .unwrap()
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(committed < 64 << 20, "{committed} bytes at most at a time");
}

#[test]
fn a_value_has_its_alignment() {
    #[repr(align(4096))]
    struct Wide([u8; 100]);
    let heap = Heap::new().unwrap();
    let boxes: Vec<HeapBox<Wide>> = (0..50)
        .map(|i| heap.alloc(Wide([i; 100])).unwrap())
        .collect();
    for (i, b) in boxes.iter().enumerate() {
        assert_eq!(&**b as *const Wide as usize % 4096, 0);
        assert_eq!(b.0[99] as usize, i);
    }
    assert_eq!(heap.alloc(()).map(|b| b.into_inner()), Ok(()));
}

#[test]
fn slices_and_texts_live_as_long_as_the_heap() {
    let heap = Heap::new().unwrap();
    let numbers = heap.alloc_slice(&[1_u32, 2, 3]);
    let text = heap.alloc_str("text");
    numbers[0] = 9;
    text.make_ascii_uppercase();
    assert_eq!((&*numbers, &*text), (&[9, 2, 3][..], "TEXT"));
    assert!(heap.alloc_slice::<u64>(&[]).is_empty() && heap.alloc_str("").is_empty());
    *heap.alloc_static(1_i64) = 7;
    assert!(heap.contains(numbers.as_ptr()) && !heap.contains(&heap));
}

#[test]
fn every_thread_uses_every_heap() {
    let heap = Heap::new().unwrap();
    std::thread::scope(|s| {
        for t in 0..4_usize {
            let heap = &heap;
            s.spawn(move || {
                let boxes: Vec<_> = (0..5000)
                    .map(|i| heap.alloc(t * 10_000 + i).unwrap())
                    .collect();
                // Freed by yet another thread.
                s.spawn(move || {
                    for (i, b) in boxes.into_iter().enumerate() {
                        assert_eq!(*b, t * 10_000 + i);
                    }
                });
            });
        }
    });
    heap.collect(true);
    let other = Heap::new().unwrap();
    std::thread::spawn(move || drop(other)).join().unwrap();
}

#[test]
fn raw_blocks() {
    let heap = Heap::new().unwrap();
    let layout = Layout::from_size_align(100, 64).unwrap();
    let p = heap.allocate_zeroed(layout).unwrap();
    unsafe {
        assert!((0..100).all(|i| *p.as_ptr().add(i) == 0));
        p.as_ptr().write_bytes(7, 100);
        let q = heap
            .reallocate(p, Layout::from_size_align(10_000, 64).unwrap())
            .unwrap();
        assert!((0..100).all(|i| *q.as_ptr().add(i) == 7));
        assert_eq!(q.as_ptr() as usize % 64, 0);
        heap.deallocate(q);
    }
    let huge = Layout::from_size_align(isize::MAX as usize - 4095, 1).unwrap();
    assert_eq!(heap.allocate(huge), Err(mimalloc::OutOfMemory));
}

#[test]
fn deleting_keeps_the_blocks() {
    let heap = Heap::new().unwrap();
    let p = heap
        .allocate(Layout::new::<[u64; 8]>())
        .unwrap()
        .cast::<u64>();
    unsafe { p.as_ptr().write(42) };
    heap.delete();
    assert!(mimalloc::contains(p.as_ptr()));
    unsafe {
        assert_eq!(p.as_ptr().read(), 42);
        mimalloc::ffi::mi_free(p.as_ptr().cast());
    }
}

#[test]
fn many_heaps_at_once() {
    let heaps: Vec<Heap> = (0..2000).map(|_| Heap::new().unwrap()).collect();
    let cells: Vec<_> = heaps
        .iter()
        .map(|h| h.alloc(Cell::new(0)).unwrap())
        .collect();
    for (i, cell) in cells.iter().enumerate() {
        cell.set(i);
        assert!(heaps[i].contains(&**cell));
    }
    assert_eq!(cells.iter().map(|c| c.get()).sum::<usize>(), 1999 * 1000);
}

#[test]
fn heaps_have_addresses_of_their_own() {
    let (one, two) = (Heap::new().unwrap(), Heap::new().unwrap());
    let (a, b) = (one.alloc(1_u64).unwrap(), two.alloc(2_u64).unwrap());
    let (in_one, in_two) = (mimalloc::partition_of(&*a), mimalloc::partition_of(&*b));
    assert_eq!(mimalloc::partition_of(&*Box::new(3_u64)), None);
    assert!(in_one.is_none() == in_two.is_none() && (in_one.is_none() || in_one != in_two));
    // Linux on 64-bit processors with 47 bits of addresses.
    if cfg!(all(feature = "secure", target_os = "linux", target_arch = "x86_64")) {
        let first = &*a as *const u64 as usize >> 16;
        drop((a, b));
        drop(one);
        let kept: Vec<_> = (0..100_000).map(|i| two.alloc(i as u64).unwrap()).collect();
        assert!(in_one.is_some() && kept.iter().all(|p| &**p as *const u64 as usize >> 16 != first));
    }
}

#[cfg(feature = "allocator-api2")]
#[test]
fn collections_take_a_heap() {
    use allocator_api2::{boxed::Box, vec::Vec};
    let heap = Heap::new().unwrap();
    let mut numbers = Vec::new_in(&heap);
    numbers.extend(0..100_000_u32);
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert_eq!(numbers.iter().sum::<u32>(), 45);
    assert!(heap.contains(numbers.as_ptr()));
    let boxed = Box::new_in([1_u8; 100], &heap);
    assert!(heap.contains(&*boxed));
}
